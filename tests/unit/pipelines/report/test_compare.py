from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.shared.render import comparison_text
from pipelines.errors import UsageError
from pipelines.ingest.dataset import load_tables
from pipelines.ingest.table import ingest_table
from pipelines.metrics.paired import holm
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, load_run, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.plan.selection import TaskSetting
from pipelines.progress import NullProgress
from pipelines.report.compare import Comparison, _holm_corrected, compare, headline_tests
from pipelines.report.landing.standing import with_leads
from pipelines.schemas import SCORES
from pipelines.storage.parts import part_folder, read_part, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.run import score_external
from tests.support.requests import target_of
from tests.unit.pipelines.report.cases import metric, standing


def write_output(
    folder: Path,
    model: str,
    correct: list[int | None],
    revision: str = "r1",
    rows_per_clip: int = 4,
    setting: str = "1-frame",
    repeats: int = 1,
    **fingerprint: str,
) -> Store:
    """Write an output with vsv scores, one question a clip; None is a row without a score."""
    out = Store(str(folder))
    target = target_of(
        benchmark_name="maia", dataset_fingerprint="d", model=model, fingerprint={"revision": revision, **fingerprint},
        task_settings=(TaskSetting("vsv", setting),), seed=42,
    )  # fmt: skip
    rows = [
        {
            "request_id": f"{repeat:016x}{i:016x}",
            "sample_id": f"video{i // rows_per_clip}/x",
            "benchmark": "maia",
            "task": "vsv",
            "setting": setting,
            "variant": f"{i % rows_per_clip}{f'#{repeat}' if repeat else ''}",
            "model": model,
            "cluster": f"video{i // rows_per_clip}",
            "status": "ok",
            "answer": "A" if score else "B",
            "values": [] if score is None else [("correct", float(score)), ("ts_at_a", 1.0)],
        }
        for repeat in range(repeats)
        for i, score in enumerate(correct)
    ]
    out.put(f"{part_folder('scores', 'maia', model)}/148de9c5a7a44d19e56cd9ae.parquet", to_parquet(rows, SCORES))
    entry = ManifestEntry(benchmark="maia", model=model, data="", target=target)
    save_run(out, RunManifest(), RunManifest(entries=(entry,)))
    return out


def test_clear_difference_differs_from_chance(tmp_path: Path) -> None:
    weak = write_output(tmp_path / "a", "m", [0] * 40, revision="r1")
    strong = write_output(tmp_path / "b", "m", [1] * 36 + [0] * 4, revision="r2")
    comparison = compare(weak, strong)
    (difference,) = comparison.differences
    values = (difference.value, difference.n, difference.delta, difference.changed, difference.verdict)
    assert values == ("correct", 40, 0.9, 36, "differs")
    # clips' differences 1 (nine) and 0: standard error 0.1, nine degrees of freedom
    assert (difference.clusters, difference.spread.freedom) == (10, pytest.approx(9))
    assert difference.standard_error == pytest.approx(0.1)
    assert (difference.family, difference.p_holm) == ("headline", difference.p)
    assert difference.ci_low is not None
    assert 0 < difference.ci_low < 0.9 - 0.2262  # skewed: lower than t of nine degrees alone says
    assert difference.ci_high == 1.0  # at most
    assert "m: revision r1 in A, r2 in B" in comparison.caveats


def test_other_commit_of_an_adapter_is_a_caveat(tmp_path: Path) -> None:
    before = write_output(tmp_path / "a", "m", [0] * 8)
    after = write_output(tmp_path / "b", "m", [0] * 8, adapter_revision="r2")
    assert "m: revision of the adapter ? in A, r2 in B" in compare(before, after).caveats
    assert not any("adapter" in caveat for caveat in compare(after, after).caveats)


def test_equal_and_similar_outputs_do_not_differ(tmp_path: Path) -> None:
    first = write_output(tmp_path / "a", "m", [1, 0] * 20)
    same = compare(first, first).differences[0]
    assert (same.delta, same.p, same.verdict) == (0.0, 1.0, "not shown")
    second = write_output(tmp_path / "b", "m", [1, 0] * 19 + [1, 1])
    assert compare(first, second).differences[0].verdict == "not shown"


def test_repeats_without_a_difference_are_no_further_rows(tmp_path: Path) -> None:
    once = write_output(tmp_path / "a", "m", [1, 0] * 20)
    (difference,) = compare(once, once).differences
    often = write_output(tmp_path / "b", "m", [1, 0] * 20, repeats=5)
    (repeated,) = compare(often, often).differences
    assert (difference.n, repeated.n) == (40, 200)
    assert (repeated.ci_low, repeated.ci_high) == (difference.ci_low, difference.ci_high)


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


def test_settings_of_two_models_are_compared_on_the_same_items(tmp_path: Path) -> None:
    first = write_output(tmp_path / "a", "m", [1] * 40)
    second = write_output(tmp_path / "b", "n:7b", [1] * 4 + [0] * 36, setting="32-frames")
    (difference,) = compare(first, second, ["m:1-frame", "n:7b:32-frames"]).differences
    assert (difference.model_a, difference.model_b) == ("m", "n:7b")
    assert (difference.setting, difference.n, difference.clusters) == ("1-frame / 32-frames", 40, 10)
    assert (difference.mean_a, difference.mean_b, difference.verdict) == (1.0, 0.1, "differs")
    with pytest.raises(UsageError, match="no scored rows in common"):
        compare(first, second, ["m", "n:7b"])
    with pytest.raises(UsageError, match="unknown setting '2-frames'"):
        compare(first, second, ["m:2-frames", "n:7b:32-frames"])
    with pytest.raises(UsageError, match="of both, or of neither"):
        compare(first, second, ["m:1-frame", "n:7b"])


def test_benchmarks_without_the_named_setting_are_left_out_silently(tmp_path: Path) -> None:
    out = write_output(tmp_path / "a", "m", [1] * 4 + [0] * 36, setting="32-frames")
    run = load_run(out)
    target = target_of(
        benchmark_name="mate", dataset_fingerprint="d", model="m", task_settings=(TaskSetting("img2txt", "0-shot"),)
    )
    save_run(
        out,
        run,
        replace(run, entries=(*run.entries, ManifestEntry(benchmark="mate", model="m", data="", target=target))),
    )
    comparison = compare(out, out, ["m:32-frames", "m:32-frames"])
    assert [caveat for caveat in comparison.caveats if caveat.startswith("mate")] == []
    assert any(caveat.startswith("mate: no scored rows") for caveat in compare(out, out).caveats)


def test_p_values_are_corrected_within_their_family(tmp_path: Path) -> None:
    first, second = write_output(tmp_path / "a", "m", [0] * 32 + [1] * 8), write_output(tmp_path / "b", "m", [1] * 40)
    (single,) = compare(first, second).differences
    assert (single.p_holm, single.verdict) == (single.p, "differs")
    assert single.p is not None
    other = replace(single, family="other", p=0.5)
    headlines = _holm_corrected([single, replace(single, p=0.5), other])
    assert [row.p_holm for row in headlines] == [2 * single.p, 0.5, 0.5]
    others = _holm_corrected([single, *[replace(single, family="other")] * 9])
    assert [row.p_holm for row in others] == pytest.approx([single.p, *[9 * single.p] * 9])


def change_rows(out: Store, change: Callable[[dict[str, Any]], None], model: str = "m") -> None:
    """Change each score row of a model."""
    path = f"{part_folder('scores', 'maia', model)}/148de9c5a7a44d19e56cd9ae.parquet"
    rows = read_part(out, path).to_pylist()
    for row in rows:
        change(row)
    out.put(path, to_parquet(rows, SCORES))


def add_scores(row: dict[str, Any]) -> None:
    """Add scores that are constant, equal to `correct`, or about the form alone."""
    right, length = dict(row["values"])["correct"], float(len(row["variant"]))
    form = 1.0 if row["variant"] in "02" else right
    row["values"] = [("correct", right), ("format_ok", form), ("lenient", right), ("length", length)]


def test_an_interval_beside_a_verdict_agrees_with_it(tmp_path: Path) -> None:
    first, second = (
        write_output(tmp_path / name, "m", [0] * (80 - right) + [1] * right) for name, right in (("a", 30), ("b", 52))
    )
    (single,) = compare(first, second).differences
    assert single.verdict == "differs"
    family = _holm_corrected([single, *[replace(single, family="headline")] * 99])
    for row in (single, *family):
        assert (row.verdict == "differs") == (row.shown_ends[0] > 0)
        assert (row.ci_low, row.ci_high) == (single.ci_low, single.ci_high)  # uncorrected
    assert family[0].verdict == "not shown"
    assert single.flipped().shown_ends == tuple(-end for end in reversed(single.shown_ends or ()))


def test_other_scores_do_not_change_what_is_said_of_the_headline(tmp_path: Path) -> None:
    out = write_output(tmp_path / "out", "a", [0, 1, 0, 0] * 10)
    add_model(out, tmp_path / "b", "b", [1, 1, 0, 0] * 5 + [0, 1, 1, 1] * 5)
    (alone,) = compare(out, None).differences
    generator = np.random.default_rng(1)
    for model in "ab":
        change_rows(
            out, lambda row: row["values"].extend((f"other{n}", float(generator.random())) for n in range(20)), model
        )
    headline, *others = compare(out, None).differences
    assert ({row.family for row in others}, len(others)) == ({"other"}, 20)
    assert (headline.p_holm, headline.verdict) == (alone.p_holm, "differs")
    at = standing(ranked=tuple(metric(model=model, value=value) for model, value in (("b", 0.6), ("a", 0.25))))
    (led,) = with_leads([replace(at, task="vsv", setting="1-frame")], headline_tests(out))
    assert led.is_led  # the report's first page


def test_constant_scores_copies_of_another_and_forms_are_not_tested(tmp_path: Path) -> None:
    first, second = (write_output(tmp_path / name, "m", [1, 0, 0, name == "b"] * 10) for name in "ab")
    for out in (first, second):
        change_rows(out, add_scores)
    assert [row.value for row in compare(first, second).differences] == ["correct"]


def test_a_comparison_of_few_clips(tmp_path: Path) -> None:
    weak = write_output(tmp_path / "a", "m", [0] * 12)
    (difference,) = compare(weak, write_output(tmp_path / "b", "m", [1] * 12)).differences
    assert (difference.clusters, difference.verdict) == (3, "not shown")
    comparison = compare(write_output(tmp_path / "c", "m", [0] * 4), write_output(tmp_path / "d", "m", [1] * 4))
    (single,) = comparison.differences
    assert (single.clusters, single.p, single.ci_low, single.verdict) == (1, None, None, "cannot conclude")
    assert "maia: only one clip, picture or scene, so no difference can be tested" in comparison.caveats
    assert comparison_text(comparison) == [
        "Differences shown: none of 1.",
        "Too few clusters to conclude anything: 1 of 1.",
    ]


def add_model(out: Store, folder: Path, model: str, correct: list[int | None]) -> None:
    """Add a model to an output."""
    other = write_output(folder, model, correct)
    path = f"{part_folder('scores', 'maia', model)}/148de9c5a7a44d19e56cd9ae.parquet"
    out.put(path, other.get(path))
    run, entries = load_run(out), (*load_run(out).entries, *load_run(other).entries)
    save_run(out, run, replace(run, entries=entries))


def test_models_of_one_output_are_compared_in_all_pairs(tmp_path: Path) -> None:
    out = write_output(tmp_path / "a", "a", [0, 1, 0, 0] * 20)
    with pytest.raises(UsageError, match="only one model, a, of one output"):
        compare(out, None)
    add_model(out, tmp_path / "b", "b", [1, 1, 0, 0] * 20)
    add_model(out, tmp_path / "c", "c", [1, 1, 1, 0] * 10 + [0, 1, 0, 1] * 10)
    differences = compare(out, None).differences
    assert [(row.model_a, row.model_b) for row in differences] == [("a", "b"), ("a", "c"), ("b", "c")]
    tests = headline_tests(out)
    assert [row.p_holm for row in differences] == holm([row.p for row in differences])
    assert {key: test.p_holm for key, test in tests.items()} == {
        ("maia", frozenset((row.model_a, row.model_b))): row.p_holm for row in differences
    }
    (pair,) = compare(out, None, ["b", "c"]).differences  # corrected for all pairs, as on the report's first page
    assert (pair.p_holm, pair.tests) == (differences[2].p_holm, 3)
    assert compare(out, out, ["b", "c"]).differences == (pair,)
    assert compare(out, None, ["c", "a", "b"]).differences[0].model_b == "a"
    with pytest.raises(UsageError, match="only one model, b, of one output"):
        compare(out, None, ["b"])


def test_bad_rows_have_a_sentence_and_no_number(tmp_path: Path) -> None:
    scored, failed = write_output(tmp_path / "a", "m", [1, 0] * 10), write_output(tmp_path / "b", "m", [None] * 20)
    change_rows(failed, lambda row: row.update(status="error"))
    with pytest.raises(UsageError, match="maia: all rows of m failed; run the same command again"):
        compare(scored, failed)
    other = write_output(tmp_path / "c", "m", [None] * 20 + [1, 0] * 10)
    with pytest.raises(UsageError, match="maia: m and m have no scored rows in common"):
        compare(scored, other)


def test_labels_of_one_class_leave_f1_undefined(tmp_path: Path) -> None:
    rows = ["id,question,answer", *(f"{n},Is it {n}?,no" for n in range(8))]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    data = str(tmp_path / "data")
    ingest_table(str(tmp_path / "rows.csv"), Store(data), name="all-no", kind="yes-no")
    load_tables(data, ["all-no"])
    names = {"benchmark": "all-no", "task": "yes-no", "setting": "default", "output": "no"}
    answers = [{**names, "model": model, "sample_id": str(n)} for model in "ab" for n in range(8)]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    spec = RunSpec(data=data, out=str(tmp_path / "out"), models={}, benchmarks=("all-no",))
    score_external(spec, tmp_path / "answers.jsonl", progress=NullProgress())
    comparison = compare(Store(spec.out), None)
    assert [(row.value, row.p, row.verdict) for row in comparison.differences] == [("correct", 1.0, "not shown")]
    assert "all-no yes-no default: f1 of a or b is undefined on their rows" in comparison.caveats


def test_rows_of_one_clip_each_are_tested_with_the_variance_under_the_hypothesis(tmp_path: Path) -> None:
    first = write_output(tmp_path / "a", "m", [0] * 9 + [1] * 11, rows_per_clip=1)
    second = write_output(tmp_path / "b", "m", [1] * 20, rows_per_clip=1)
    (difference,) = compare(first, second).differences
    assert (difference.clusters, difference.verdict) == (20, "differs")
    sentence = comparison_text(Comparison((difference,), ()))[1]
    start = "- maia vsv 1-frame: correct of m in B is higher than of m in A"
    assert sentence.startswith(f"{start} by 45.0 points, on 20 rows, p 0.00")


def test_metrics_of_the_benchmark_are_compared_with_the_row_scores(tmp_path: Path) -> None:
    first = write_output(tmp_path / "a", "m", ([1] * 7 + [0]) * 6, rows_per_clip=8)
    second = write_output(tmp_path / "b", "m", [1] * 48, rows_per_clip=8)
    comparison = compare(first, second)
    rows = {row.value: row for row in comparison.differences}
    assert list(rows) == ["correct", "pool_accuracy"]  # aggregate accuracy, the headline, needs both tasks
    pool = rows["pool_accuracy"]
    assert (pool.task, pool.n, pool.clusters, pool.mean_a, pool.mean_b) == ("vsv", 6, 6, 0.0, 1.0)
    assert (pool.family, pool.changed, rows["correct"].family) == ("other", None, "headline")
    assert any("its metrics that need the data are not tested" in caveat for caveat in comparison.caveats)


@pytest.mark.parametrize("unscored", ["a", "b"])
def test_an_output_without_scores_is_named_with_the_remedy(tmp_path: Path, unscored: str) -> None:
    outputs = [write_output(tmp_path / name, "m", [1, 0]) for name in "ab"]
    outputs["ab".index(unscored)].delete(f"{part_folder('scores', 'maia', 'm')}/148de9c5a7a44d19e56cd9ae.parquet")
    with pytest.raises(UsageError, match=f"no scored rows in {unscored.upper()}; run `vlmsweep score`"):
        compare(*outputs)


def test_a_benchmark_that_one_output_has_not_scored_is_a_caveat(tmp_path: Path) -> None:
    scored = write_output(tmp_path / "a", "m", [1, 0])
    partly = write_output(tmp_path / "b", "m", [1, 0])
    for out in (scored, partly):
        (entry,) = load_run(out).entries
        vague = replace(entry, benchmark="vague", target=entry.target.with_prompts(benchmark_name="vague"))
        save_run(out, RunManifest(), RunManifest(entries=(entry, vague)))
    path = f"{part_folder('scores', 'vague', 'm')}/148de9c5a7a44d19e56cd9ae.parquet"
    scored.put(path, scored.get(f"{part_folder('scores', 'maia', 'm')}/148de9c5a7a44d19e56cd9ae.parquet"))
    comparison = compare(scored, partly)
    assert {row.benchmark for row in comparison.differences} == {"maia"}
    assert "vague: no scored rows in B; run `vlmsweep score`" in comparison.caveats
