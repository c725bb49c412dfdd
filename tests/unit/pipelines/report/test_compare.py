"""Comparison of outputs on the rows that both scored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.render import comparison_in_words
from pipelines.errors import UsageError
from pipelines.plan.requests import RequestBuilder
from pipelines.plan.run_manifest import ManifestEntry, save_run
from pipelines.plan.selection import TaskSetting
from pipelines.report.compare import _holm_corrected, compare
from pipelines.schemas import SCORES
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store


def write_output(folder: Path, model: str, correct: list[int | None], revision: str = "r1") -> Store:
    """Write an output with vsv scores; None is a row without a score."""
    out = Store(str(folder))
    builder = RequestBuilder(
        benchmark_name="maia",
        dataset_fingerprint="d",
        model=model,
        model_fingerprint={"revision": revision},
        generation={},
        task_settings=(TaskSetting("vsv", "1-frame"),),
        prompts={},
        prompt_versions={},
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
            "answer": "A" if score else "B",
            "values": [] if score is None else [("correct", float(score)), ("ts_at_a", 1.0)],
        }
        for i, score in enumerate(correct)
    ]
    out.put(f"{part_folder('scores', 'maia', model)}/p.parquet", to_parquet(rows, SCORES))
    entry = ManifestEntry(benchmark="maia", model=model, data="", builder=builder)
    save_run(out, {}, sweep={}, entries=[entry], parts={})
    return out


def test_clear_difference_differs_from_chance(tmp_path: Path) -> None:
    weak = write_output(tmp_path / "a", "m", [0] * 40, revision="r1")
    strong = write_output(tmp_path / "b", "m", [1] * 36 + [0] * 4, revision="r2")
    comparison = compare(weak, strong)
    (difference,) = comparison.differences
    values = (difference.value, difference.n, difference.delta, difference.changed, difference.verdict)
    assert values == ("correct", 40, 0.9, 36, "differs")
    assert difference.p == pytest.approx(2 * 0.5**36)
    assert difference.ci_low <= difference.delta <= difference.ci_high
    assert comparison.caveats == ("m: revision r1 in A, r2 in B",)


def test_equal_and_similar_outputs_do_not_differ(tmp_path: Path) -> None:
    first = write_output(tmp_path / "a", "m", [1, 0] * 20)
    assert compare(first, first).differences[0].verdict == "equal"
    second = write_output(tmp_path / "b", "m", [1, 0] * 19 + [1, 1])
    assert compare(first, second).differences[0].verdict == "within chance"


def test_rows_that_only_one_scored_are_counted_and_skipped(tmp_path: Path) -> None:
    first = write_output(tmp_path / "a", "m", [1] * 8 + [None] * 4)
    second = write_output(tmp_path / "b", "m", [1] * 6)
    (difference,) = compare(first, second).differences
    assert (difference.n, difference.only_one) == (6, 2)


def test_two_models_are_compared_by_name(tmp_path: Path) -> None:
    first = write_output(tmp_path / "a", "m", [1] * 8)
    second = write_output(tmp_path / "b", "n", [0] * 8)
    assert compare(first, second, ["m", "n"]).differences[0].delta == -1.0
    with pytest.raises(UsageError, match="--models A,B"):
        compare(first, second)
    with pytest.raises(UsageError, match="unknown model 'x'"):
        compare(first, second, ["x"])
    with pytest.raises(UsageError, match=r"run\.json"):
        compare(first, Store(str(tmp_path / "missing")))


def test_p_values_are_corrected_together(tmp_path: Path) -> None:
    first, second = write_output(tmp_path / "a", "m", [0] * 8 + [1] * 32), write_output(tmp_path / "b", "m", [1] * 40)
    (single,) = compare(first, second).differences
    assert (single.test, single.p, single.p_holm) == ("McNemar", pytest.approx(2 * 0.5**8), single.p)
    corrected = _holm_corrected([single, *[replace(single, p=0.5)] * 9])
    assert corrected[0].p_holm == pytest.approx(10 * 2 * 0.5**8)
    assert corrected[0].verdict == "within chance"
    assert {difference.p_holm for difference in corrected[1:]} == {1.0}


def test_comparison_warns_of_few_clusters_and_is_summarized(tmp_path: Path) -> None:
    weak = write_output(tmp_path / "a", "m", [0] * 20)
    comparison = compare(weak, write_output(tmp_path / "b", "m", [1] * 20))
    assert "maia: only 5 pictures or clips: intervals and tests are not informative" in comparison.caveats
    first, second = comparison_in_words(comparison)
    assert first == "1 of 1 differences are more than chance; 0 are none at all."
    assert second.startswith(
        "- maia vsv 1-frame: correct of m in B is higher than of m in A by 1.000, on 20 rows, p 0.0001"
    )
    assert comparison_in_words(compare(weak, weak)) == [
        "None of 1 differences is more than chance; 1 of them are none at all."
    ]
