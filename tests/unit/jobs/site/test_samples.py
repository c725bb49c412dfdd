"""The data files of a site stay small, whatever they hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.site import build
from jobs.site.build import CHUNK_BYTES, Samples
from pipelines.errors import UsageError

ROWS = 20_000


def add(to: Samples, number: int, output: str, category: str = "c") -> None:
    """Add an answer."""
    planned: Any = SimpleNamespace(sample_id=f"s{number}", task="t", setting="s", variant="")
    row: Any = SimpleNamespace(
        planned=planned, sample=SimpleNamespace(sample_id=planned.sample_id, category=category, data={}),
        prediction={"status": "ok", "output": output}, scores={"answer": "A"}, values={"correct": 1.0}, steps=(),
        expected=("yes",), prompt_set="",
    )  # fmt: skip
    entry: Any = SimpleNamespace(benchmark="b", model="m", prompts=SimpleNamespace(dataset_fingerprint="f"))
    to.add(row, entry, [])


@pytest.mark.parametrize(("length", "limit"), [(100, 4_000), (3_000, 1_000)])
def test_20_000_answers_are_below_30_mb_in_small_files(length: int, limit: int) -> None:
    collected = Samples()
    for number in range(ROWS):
        add(collected, number, "x" * length)
    shown, scripts = collected.scripts()
    assert shown == limit
    assert sum(len(script) for _, script in scripts) < 30_000_000
    assert max(len(script) for _, script in scripts) < 1.1 * CHUNK_BYTES
    assert scripts[0][0] == 0
    assert [first for first, _ in scripts] == sorted({first for first, _ in scripts})


def test_names_that_look_like_paths_are_values_alone() -> None:
    collected = Samples()
    add(collected, 1, "x", category="../..")
    _, [(_, script)] = collected.scripts()
    assert b'"category":"../.."' in script


def test_more_answers_than_a_page_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MAX_ROWS", 2)
    collected = Samples()
    add(collected, 0, "x")
    add(collected, 1, "x")
    with pytest.raises(UsageError, match="--models"):
        add(collected, 2, "x")
