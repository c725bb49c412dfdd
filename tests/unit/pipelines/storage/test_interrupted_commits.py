"""A process that dies during a commit leaves the old part or the new one, complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.storage.parts import iter_parts
from pipelines.storage.store import Store
from tests.chaos.commits import STEPS, cut_commit, part


@pytest.mark.parametrize("step", STEPS)
def test_interrupted_commit_leaves_a_complete_part(tmp_path: Path, step: str) -> None:
    store = Store(str(tmp_path))
    for when in ("before", "after"):
        store.put("predictions/37a680133bd09342f934afb8.parquet", part("old"))
        assert cut_commit(tmp_path, step, when) == 9
        ((_, table),) = iter_parts(store, "predictions")
        replaced = step == "replace" and when == "after"
        assert set(table["output"].to_pylist()) == {"new" if replaced else "old"}
    has_started = step != "mkdir"
    assert store.remove_temporary() >= (1 if has_started and step != "open" else 0)
    assert store.remove_temporary() == 0
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["37a680133bd09342f934afb8.parquet"]
