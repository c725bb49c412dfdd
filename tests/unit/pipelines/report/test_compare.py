"""Comparing outputs on the same rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.render import comparison_in_words
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.run_manifest import ManifestEntry, save_run
from pipelines.plan.selection import TaskSetting
from pipelines.report.compare import _holm_corrected, compare
from pipelines.schemas import SCORES
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store


def output(folder: Path, model: str, right: list[int | None], revision: str = "r1") -> Store:
    """An output with vsv scores; None is a row without a score."""
    out = Store(str(folder))
    asker = RequestBuilder(
        benchmark_name="maia",
        dataset_fingerprint="d",
        model=model,
        model_fingerprint={"revision": revision},
        generation={},
        cells=(TaskSetting("vsv", "1-frame"),),
        prompts={},
        instead={},
        seed=42,
    )
    rows = [
        {
            "request_id": f"{i:032x}",
            "sample_id": f"video{i // 4}/x",
            "benchmark": "maia",
            "task": "vsv",
            "setting": "1-frame",
            "variant": str(i % 4),
            "model": model,
            "cluster": f"video{i // 4}",
            "status": "ok",
            "answer": "A" if one else "B",
            "values": [] if one is None else [("correct", float(one)), ("ts_at_a", 1.0)],
        }
        for i, one in enumerate(right)
    ]
    out.put(f"{part_folder('scores', 'maia', model)}/p.parquet", to_parquet(rows, SCORES))
    entry = ManifestEntry(benchmark="maia", model=model, data="", asker=asker.to_json())
    save_run(out, {}, sweep={}, entries=[entry], parts={})
    return out


def test_a_clear_difference_is_told_from_chance(tmp_path: Path) -> None:
    weak = output(tmp_path / "a", "m", [0] * 40, revision="r1")
    strong = output(tmp_path / "b", "m", [1] * 36 + [0] * 4, revision="r2")
    found = compare(weak, strong)
    (one,) = found.differences
    assert (one.value, one.n, one.delta, one.changed, one.verdict) == ("correct", 40, 0.9, 36, "differs")
    assert one.p == pytest.approx(2 * 0.5**36)
    assert one.ci_low <= one.delta <= one.ci_high
    assert found.caveats == ("m: revision r1 in A, r2 in B",)


def test_equal_and_chance(tmp_path: Path) -> None:
    first = output(tmp_path / "a", "m", [1, 0] * 20)
    assert compare(first, first).differences[0].verdict == "equal"
    second = output(tmp_path / "b", "m", [1, 0] * 19 + [1, 1])
    assert compare(first, second).differences[0].verdict == "within chance"


def test_rows_that_one_lacks_are_counted_and_left_out(tmp_path: Path) -> None:
    first = output(tmp_path / "a", "m", [1] * 8 + [None] * 4)
    second = output(tmp_path / "b", "m", [1] * 6)
    (one,) = compare(first, second).differences
    assert (one.n, one.only_one) == (6, 2)


def test_two_models_of_one_output_or_of_two(tmp_path: Path) -> None:
    first = output(tmp_path / "a", "m", [1] * 8)
    second = output(tmp_path / "b", "n", [0] * 8)
    assert compare(first, second, ["m", "n"]).differences[0].delta == -1.0
    with pytest.raises(ValueError, match="--models A,B"):
        compare(first, second)
    with pytest.raises(ValueError, match="unknown model 'x'"):
        compare(first, second, ["x"])
    with pytest.raises(ValueError, match=r"run\.json"):
        compare(first, Store(str(tmp_path / "nothing")))


def test_many_tests_are_corrected_together(tmp_path: Path) -> None:
    first, second = output(tmp_path / "a", "m", [0] * 8 + [1] * 32), output(tmp_path / "b", "m", [1] * 40)
    (one,) = compare(first, second).differences
    assert (one.test, one.p, one.p_holm) == ("McNemar", pytest.approx(2 * 0.5**8), one.p)
    many = _holm_corrected([one, *[replace(one, p=0.5)] * 9])
    assert many[0].p_holm == pytest.approx(10 * 2 * 0.5**8)
    assert many[0].verdict == "within chance"
    assert {other.p_holm for other in many[1:]} == {1.0}


def test_few_clusters_are_warned_of_and_the_meaning_is_told(tmp_path: Path) -> None:
    weak = output(tmp_path / "a", "m", [0] * 20)
    found = compare(weak, output(tmp_path / "b", "m", [1] * 20))
    assert "maia: only 5 pictures or clips: intervals and tests of so few say little" in found.caveats
    first, second = comparison_in_words(found)
    assert first == "1 of 1 differences are more than chance; 0 are none at all."
    assert second.startswith(
        "- maia vsv 1-frame: correct of m in B is higher than of m in A by 1.000, on 20 rows, p 0.0001"
    )
    assert comparison_in_words(compare(weak, weak)) == [
        "None of 1 differences is more than chance; 1 of them are none at all."
    ]
