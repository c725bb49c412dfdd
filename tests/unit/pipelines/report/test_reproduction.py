"""Our numbers beside the published ones: planted reproductions, the verdict's rule, and what is not comparable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from models.catalog_loader import load_models
from models.fingerprint import resolved_revision
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.published import load_published
from pipelines.benchmarks.records import Sample
from pipelines.errors import StoreError, UsageError
from pipelines.plan.options import SweepOptions
from pipelines.plan.requests import ModelTarget
from pipelines.plan.run_manifest import ManifestEntry, RunManifest
from pipelines.plan.selection import TaskSetting
from pipelines.predict.records import TaskCount
from pipelines.rendering.formats import to_csv, to_latex
from pipelines.report.entry_results import EntryResults
from pipelines.report.metrics_file import Measured
from pipelines.report.model import ReproductionResult
from pipelines.report.reproduction import (
    PATH,
    load_reproduction,
    reproduction_json,
    reproduction_line,
    reproduction_results,
    results_table,
    summary_table,
    verdict_within,
)
from pipelines.storage.store import Store
from tests.support.measured import measured
from tests.support.requests import target_of
from tests.support.vague_rows import items, reduced

QWEN = "Qwen2.5-VL-Instruct (7B)"
READINGS = ("count_correct", "count_fs", "count_su", "count_ne")


def make_target(name: str, model: str, cells: Sequence[tuple[str, str]], **changes: Any) -> ModelTarget:
    return target_of(name, model=model, task_settings=tuple(TaskSetting(*cell) for cell in cells), **changes)


def count(name: str, model: str, cell: tuple[str, str], ok: int, requests: int = 0) -> TaskCount:
    missing = (requests or ok) - ok
    return TaskCount(
        benchmark=name, model=model, task=cell[0], setting=cell[1], requests=ok + missing, ok=ok, missing=missing
    )


def results(name: str, rows: Sequence[Mapping[str, Any]], counts: Sequence[TaskCount], **more: Any) -> EntryResults:
    metrics = [measured(**{"benchmark": name, **row}) for row in rows]
    return EntryResults(metrics=metrics, counts=list(counts), answers=[], judge_failed=0, **more)


def spec_of(model: str) -> dict[str, Any]:
    """Return a catalog model as `run.json` holds it."""
    spec = load_models()[model]
    return {**spec.model_dump(mode="json", exclude_defaults=True), "revision": resolved_revision(spec)}


def results_for(
    entry: ManifestEntry, result: EntryResults, spec: Mapping[str, Any], judge: str = "", scorers: Sequence[str] = ()
) -> list[ReproductionResult]:
    run = RunManifest(entries=(entry,), models={entry.model: spec}, sweep=SweepOptions(scorers=tuple(scorers)))
    return reproduction_results(run, [result], {entry.benchmark: judge})


def entry_of(target: ModelTarget, **changes: Any) -> ManifestEntry:
    return ManifestEntry(
        benchmark=target.prompts.benchmark_name, model=target.model, data="/data", target=target, **changes
    )


# Planted reproduction: 1,677 items whose answers are drawn up by the paper's counts, reduced by the benchmark's code.


def say_as_published(samples: Sequence[Sample]) -> Any:
    """Return answers with the published counts of each subset and setting; the rest is unreadable."""
    published = {
        (row.setting, row.subset, row.metric): int(row.value or 0)
        for row in load_published("vague")
        if row.model == QWEN and row.task == "mcq" and row.table in ("Table H3", "Table H4") and row.unit == "count"
    }
    rank_of = {sample.sample_id: index for index, sample in enumerate(samples)}
    first_ego4d = next(index for index, sample in enumerate(samples) if sample.subset == "Ego4D")

    def say(sample: Sample, _task: str, setting: str) -> str:
        rank = rank_of[sample.sample_id] - (first_ego4d if sample.subset == "Ego4D" else 0)
        for letter, name in zip(sample.data["ordering"], READINGS, strict=True):
            rank -= published[setting, sample.subset, name]
            if rank < 0:
                return str(letter)
        return "no idea"

    return say


@pytest.fixture(scope="module")
def planted() -> EntryResults:
    samples = items(1144, 533)
    settings = [("mcq", name) for name in ("lm", "sm", "vlm")]
    metrics = reduced(samples, say_as_published(samples), cells=settings)
    rows = [{**asdict(metric), "model": "qwen2.5-vl-7b"} for metric in metrics]
    return results("vague", rows, [count("vague", "qwen2.5-vl-7b", cell, 1677) for cell in settings])


def planted_results(result: EntryResults) -> list[ReproductionResult]:
    settings = [("mcq", name) for name in ("lm", "sm", "vlm")]
    entry = entry_of(make_target("vague", "qwen2.5-vl-7b", settings), external=True)
    return results_for(entry, result, {"engine": "external"})


def test_answers_with_the_published_counts_reproduce_every_cell(planted: EntryResults) -> None:
    cells = planted_results(planted)
    assert {cell.table for cell in cells} == {"Table 1", "Table H3", "Table H4"}
    assert {(cell.published_model, cell.reasons) for cell in cells} == {(QWEN, ())}
    assert {cell.verdict for cell in cells} == {"reproduced", "consistent"}  # few items: intervals wider than 3 points
    # Table 1: 3 accuracies and 2 changes; H3 and H4: accuracy, 4 counts and the number of valid answers; 3 settings.
    assert len(cells) == 2 * 5 + 2 * 3 * 6
    reproduced = sum(cell.verdict == "reproduced" for cell in cells)
    assert 0 < reproduced < 46
    assert reproduction_line(cells) == f"{reproduced} of 46 cells reproduced, {46 - reproduced} consistent"
    assert {verdict_within(cell, 0.2) for cell in cells} == {"reproduced"}
    assert {verdict_within(cell, 0.001) for cell in cells} == {"consistent"}
    exact = next(c for c in cells if (c.table, c.setting, c.metric) == ("Table H3", "vlm", "count_correct"))
    assert exact.difference == 0


def test_one_moved_number_is_different_in_its_cell_alone(planted: EntryResults) -> None:
    def moved(row: Measured) -> Measured:
        is_moved = (row.metric, row.setting, row.subset) == ("count_fs", "vlm", "VCR")
        return replace(row, value=row.value + 60, ci_low=row.ci_low + 60, ci_high=row.ci_high + 60) if is_moved else row

    cells = planted_results(replace(planted, metrics=[moved(row) for row in planted.metrics]))
    assert [(c.table, c.setting, c.metric, c.difference) for c in cells if c.verdict == "different"] == [
        ("Table H3", "vlm", "count_fs", 60)
    ]
    assert reproduction_line(cells).endswith(", 1 different")


# The verdict's rule on one cell: MATE Table 9, GPT-4o, img2txt, 0-shot.


def verdict(value: float | None, low: float | None = None, high: float | None = None, **row: Any) -> ReproductionResult:
    (printed,) = (
        p for p in load_published("mate")
        if (p.table, p.model, p.task, p.setting) == ("Table 9", "gpt-4o-2024-11-20", "img2txt", "0-shot")
    )  # fmt: skip
    assert printed.value is not None
    shift = printed.value
    fields = {
        "model": "gpt-4o", "task": "img2txt", "setting": "0-shot", "subset": "", "category": "", "n": 2750,
        "metric": "exact_match", "value": None if value is None else shift + value,
        "ci_low": None if low is None else shift + low, "ci_high": None if high is None else shift + high, **row,
    }  # fmt: skip
    cell = ("img2txt", "0-shot")
    entry = entry_of(make_target("mate", "gpt-4o", [cell]))
    (result,) = results_for(entry, results("mate", [fields], [count("mate", "gpt-4o", cell, 2750)]), spec_of("gpt-4o"))
    return result


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (
            0.02,
            0.01,
            0.03,
            "reproduced",
        ),  # the whole interval within the margin, though it leaves out the paper's value
        (0.0, -0.03, 0.03, "reproduced"),
        (0.02, -0.001, 0.04, "consistent"),  # wider than the margin, around the published value
        (0.0, -0.2, 0.2, "consistent"),
        (0.02, 0.0, 0.04, "consistent"),  # at its end
        (0.02, 0.001, 0.04, "different"),
        (-0.04, -0.05, -0.03, "different"),
        (-0.0005, None, None, "consistent"),  # printed with one decimal of percent: half a tenth either way
        (0.0006, None, None, "different"),
    ],
)
def test_verdict_is_by_the_interval_and_a_margin(value: float, low: float, high: float, expected: str) -> None:
    cell = verdict(value, low, high)
    assert (cell.verdict, cell.reasons) == (expected, ())
    assert cell.difference == pytest.approx(value)


def test_number_that_was_not_measured_is_not_comparable() -> None:
    cell = verdict(None, note="no scorer")
    assert (cell.verdict, cell.difference, cell.reasons) == ("not comparable", None, ("not measured: no scorer",))


# What is not comparable.


def maia_result(**changes: Any) -> ReproductionResult:
    """Return the cell of MAIA Table 2, Qwen2.5-VL 7B, 1 frame, whole; `changes` as of `_MAIA` below."""
    cell = ("oevqa", "1-frame")
    row = {
        "model": "m", "task": "oevqa", "setting": "1-frame", "subset": "", "category": "", "metric": "oevqa_accuracy",
        "value": 0.51, "ci_low": 0.49, "ci_high": 0.53, "n": 2400,
    }  # fmt: skip
    target = make_target("maia", "m", [cell], **changes.get("target", {}))
    counts = [count("maia", "m", cell, changes.get("ok", 2400), changes.get("requests", 0))]
    result = results("maia", [row], counts, prompts=changes.get("prompts", frozenset()))
    spec = {**spec_of("qwen2.5-vl-7b"), **changes.get("spec", {})}
    judge = changes.get("judge", "gpt-4o-2024-11-20")
    (result,) = results_for(entry_of(target, **changes.get("entry", {})), result, spec, judge)
    return result


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, ()),
        ({"ok": 2380}, ()),  # 20 of 2,400 are within one percent
        ({"ok": 480}, ("other items: 480 answers, 2,400 in the paper",)),
        ({"ok": 2300, "requests": 2400}, ("other items: 2,300 answers, 2,400 in the paper",)),
        ({"entry": {"limit": "0.999"}}, ("other items: --limit 0.999",)),
        ({"entry": {"sample_ids": ("video1/Sentiment_A",)}}, ("other items: --sample-id, 1",)),
        ({"judge": "gpt-4o-mini"}, ("other judge: gpt-4o-mini for gpt-4o",)),
        ({"judge": ""}, ("other judge: none for gpt-4o",)),
        ({"target": {"prompt_versions": {"oevqa-it-v1": "oevqa-it-v1-plain"}}},
         ("other prompt wording: oevqa-it-v1-plain",)),
        ({"target": {"wording": {"oevqa-it-v1": "{question}"}}}, ("other prompt wording: oevqa-it-v1",)),
        ({"target": {"generation": {"max_new_tokens": 3}}}, ("other generation settings: max_new_tokens 3",)),
        ({"spec": {"revision": "0" * 40}},
         (f"other revision: {'0' * 40} for cc594898137f460bfe9f0759e9844b3ce807cfb5",)),
        ({"spec": {"model": "/checkpoints/mine"}},
         ("other revision: /checkpoints/mine for Qwen/Qwen2.5-VL-7B-Instruct",)),
        ({"spec": {"engine": "external"}, "judge": "gpt-4o"}, ()),
        ({"prompts": frozenset({("oevqa", "1-frame", "oevqa-it-v1")})}, ("other prompt wording: oevqa-it-v1",)),
        ({"prompts": frozenset({("oevqa", "1-frame", "oevqa-it-v1-authors")})},
         ("other prompt wording: oevqa-it-v1-authors",)),
    ],
)  # fmt: skip
def test_cell_is_not_comparable_for_a_reason_from_the_run(changes: dict[str, Any], reasons: tuple[str, ...]) -> None:
    cell = maia_result(**changes)
    assert cell.reasons == reasons
    assert cell.verdict == ("not comparable" if reasons else "reproduced")


def one_result(name: str, model: str, row: dict[str, Any], ok: int, **more: Any) -> ReproductionResult:
    cell = (row["task"], row["setting"])
    fields = {"model": model, "subset": "", "category": "", "n": ok, **row}
    target = make_target(name, model, [cell], **more.pop("target", {}))
    extra = more.pop("rows", [])
    result = results(name, [fields, *extra], [count(name, model, cell, ok)], **more.pop("results", {}))
    (first, *_) = results_for(entry_of(target), result, spec_of(model), **more)
    return first


DEFAULTS = {  # model, task, setting, metric, category and what the benchmark asks by default, if not the paper's words
    "vague": ("qwen2.5-vl-7b", "mcq", "vlm", "count_correct", "", "vague-mcq-vlm-v1"),
    "vflute": ("llava-1.6-34b", "entailment", "scene-graph", "f1_at_0", "", "vflute-scene-graph-v1"),
    "maia": ("qwen2.5-vl-7b", "vsv", "32-frames", "statement_accuracy", "", "vsv-it-v1"),
    "mate": ("qwen2-vl-7b", "img2txt", "2-shot", "exact_match", "", "mate-built-v1"),
    "unpie": ("gpt-4", "grounding", "lm", "exact_match", "Homo", "unpie-grounding-lm-v1"),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_invented_items_in_the_papers_number_asked_in_our_words_are_not_comparable(name: str) -> None:
    model, task, setting, metric, category, version = DEFAULTS[name]
    definition = benchmark(name)
    assert version in definition.prompt_texts
    items = definition.publication.requests.get(task, 723)
    row = {"task": task, "setting": setting, "metric": metric, "category": category, "value": 0.5}
    row |= {"subset": "VCR"} if name == "vague" else {}

    def cell(version: str) -> ReproductionResult:
        return one_result(name, model, row, items, results={"prompts": frozenset({(task, setting, version)})})

    ours = cell(version)
    assert (ours.verdict, ours.reasons) == ("not comparable", (f"other prompt wording: {version}",))
    printed = definition.prompt_sets.get("paper", {}).get(version)
    if printed:
        assert cell(printed).reasons == ()


def test_prompts_of_the_data_and_a_black_clip_of_one_frame_are_the_papers() -> None:
    row = {"task": "entailment", "setting": "zero-shot", "metric": "f1_at_0", "value": 0.5}
    prompts = frozenset({("entailment", "zero-shot", "vflute-instruction-data-v1")})
    assert one_result("vflute", "llava-1.6-34b", row, 723, results={"prompts": prompts}).reasons == ()
    row = {"task": "vsv", "setting": "black-1-frame", "metric": "statement_accuracy", "value": 0.5}
    cell = one_result("maia", "qwen2.5-vl-7b", row, 19_200)
    assert (cell.setting, cell.published_setting, cell.reasons) == ("black-1-frame", "black-video", ())


def test_another_endpoint_serves_another_model() -> None:
    row = {"task": "img2txt", "setting": "2-shot", "metric": "exact_match", "value": 0.5}
    cell = ("img2txt", "2-shot")
    result = results("mate", [{"model": "gpt-4o", "subset": "", "category": "", "n": 2750, **row}],
                     [count("mate", "gpt-4o", cell, 2750)])  # fmt: skip
    stub = {**spec_of("gpt-4o"), "base_url": "http://127.0.0.1:8000/v1"}
    (first, *_) = results_for(entry_of(make_target("mate", "gpt-4o", [cell])), result, stub)
    assert first.reasons == ("other endpoint: http://127.0.0.1:8000/v1 for https://api.openai.com/v1",)


def test_no_model_of_the_catalog_stands_for_appendix_j() -> None:
    unnamed = ("vflute", "fine-tuned model (not named)")
    assert [spec for spec in load_models().values() for row in spec.published_as
            if (row.benchmark, row.name) == unnamed] == []  # fmt: skip


def test_items_prompts_scorers_and_captioners_must_be_the_papers() -> None:
    row = {"task": "oevqa", "setting": "32-frames", "metric": "oevqa_accuracy", "value": 0.77}
    assert one_result("maia", "internvl3-78b", row, 2400, judge="gpt-4o").reasons == (
        "misprint: the twelve printed categories average 0.69",
    )
    rouge = one_result("maia", "qwen2.5-vl-7b", {**row, "metric": "rouge1", "value": 0.58}, 2400)
    assert (rouge.table, rouge.published_model, rouge.published_setting) == ("Table 4", "Qwen-2.5-VL", "")
    assert (rouge.metric, rouge.reasons) == ("rouge", ())
    row = {"task": "img2txt", "setting": "2-shot", "metric": "exact_match", "value": 0.5}
    generated = {"model": "qwen2-vl-7b", "task": "", "setting": "", "subset": "", "category": "", "n": 9,
                 "benchmark": "mate", "metric": "generated", "value": 9, "unit": "count"}  # fmt: skip
    built = frozenset({("img2txt", "2-shot", "mate-built-v1")})
    cell = one_result("mate", "qwen2-vl-7b", row, 2750, rows=[generated], results={"prompts": built})
    assert cell.reasons == ("other items: generated scenes", "other prompt wording: mate-built-v1")
    in_its_words = {"prompt_versions": {"mate-built-v1": "mate-built-paper"}}
    paper = frozenset({("img2txt", "2-shot", "mate-built-paper")})
    assert one_result("mate", "qwen2-vl-7b", row, 2750, target=in_its_words, results={"prompts": paper}).reasons == ()
    row = {"task": "entailment", "setting": "zero-shot", "metric": "f1_at_53", "value": 0.5}
    assert one_result("vflute", "llava-1.6-34b", row, 723).reasons == ()
    cell = one_result("vflute", "llava-1.6-34b", row, 723, scorers=["bleurt=/models/other"])
    assert cell.reasons == ("other scorer: /models/other for lucadiliello/BLEURT-20",)
    phrase = {"task": "grounding", "setting": "sm", "category": "Homo", "metric": "exact_match", "value": 0.5}
    captioned = one_result("unpie", "vicuna-13b", phrase, 1000, target={"captioner": "gpt-4o@216d768dd3b1"})
    assert captioned.reasons == ("other captioner: gpt-4o for blip2-opt-2.7b",)


def test_fine_tuned_checkpoint_joins_the_setting_that_the_paper_gives() -> None:
    row = {"task": "entailment", "setting": "no-image", "metric": "f1_at_0", "value": 0.6477}
    cell = one_result("vflute", "llava-1.5-7b-vflute-no-image", row, 723)
    assert (cell.published_model, cell.published_setting, cell.published) == (
        "LLaVA-7B-VF", "fine-tuned (-Image)", 0.6477
    )  # fmt: skip
    assert cell.verdict == "consistent"
    with_pictures = entry_of(make_target("vflute", "llava-1.5-7b-vflute", [("entailment", "no-image")]))
    result = results(
        "vflute",
        [{**row, "model": "llava-1.5-7b-vflute", "subset": "", "category": "", "n": 723}],
        [count("vflute", "llava-1.5-7b-vflute", ("entailment", "no-image"), 723)],
    )
    assert results_for(with_pictures, result, spec_of("llava-1.5-7b-vflute")) == []


def test_models_have_the_cells_of_all_their_published_names() -> None:
    row = {"model": "m", "task": "mcq", "setting": "vlm", "subset": "VCR", "category": "", "metric": "accuracy",
           "value": 0.5, "n": 1144}  # fmt: skip
    for model in ("human:ann", "my-own"):
        entry = entry_of(make_target("vague", model, [("mcq", "vlm")]))
        result = results("vague", [{**row, "model": model}], [count("vague", model, ("mcq", "vlm"), 1677)])
        assert results_for(entry, result, {"engine": "transformers", "model": "/mine"}) == []
    model = "gpt-4o-2024-11-20"  # Tables 8 and 9; the other tables print GPT-4o
    row = {"model": model, "task": "img2txt", "setting": "2-shot", "subset": "", "category": "", "n": 2750,
           "metric": "exact_match", "value": 0.5}  # fmt: skip
    entry = entry_of(make_target("mate", model, [("img2txt", "2-shot")]), external=True)
    result = results("mate", [row], [count("mate", model, ("img2txt", "2-shot"), 2750)])
    cells = results_for(entry, result, {"engine": "external"})
    assert {(cell.table, cell.published_model) for cell in cells} == {
        ("Table 1", "GPT-4o"),
        ("Table 8", model),
        ("Table 9", model),
    }
    assert not any(cell.reasons for cell in cells)


def test_mean_of_the_authors_random_runs_is_compared_once() -> None:
    mean, runs = "random, mean of 10 runs", ("random run 0", "random run 1")
    row = {"task": "img2txt", "setting": "2-shot", "subset": "", "category": "", "n": 2750, "metric": "exact_match",
           "value": 0.254}  # fmt: skip
    cell = ("img2txt", "2-shot")
    result = results(
        "mate", [{**row, "model": name} for name in (*runs, mean)], [count("mate", name, cell, 2750) for name in runs]
    )
    entries = [entry_of(make_target("mate", name, [cell]), external=True) for name in runs]
    cells = reproduction_results(
        RunManifest(entries=tuple(entries), models={name: {"engine": "external"} for name in runs}), [result], {}
    )
    assert [(cell.model, cell.published_model, cell.verdict) for cell in cells if cell.table == "Table 1"] == [
        (mean, "Random", "consistent")
    ]


# Files and tables.


def test_tables_have_a_line_a_paper_and_a_row_a_cell() -> None:
    cells = [maia_result(), maia_result(judge="x")]
    table = summary_table({"maia": cells}, {"maia": "MAIA"})
    line = "1 of 1 cells reproduced; 1 not comparable (other judge 1)"
    assert table.rows[0].cells == (line, 1, 1, 0, 0, 1)
    details = results_table("maia", "MAIA", cells)
    assert details.title == f"MAIA: {line}"
    header, first, second = to_csv(details).splitlines()
    assert header == (
        "block,Model,origin,Verdict,Ours,Ours ci_low,Ours ci_high,Ours n,Published,Difference,Table,Metric,Task,"
        "Setting,Subset,Category,Published as,Why not comparable,note"
    )
    cell = "Table 2,oevqa_accuracy,oevqa,1-frame,,,Qwen-2.5-VL 7B"
    assert first == f",m,ours,reproduced,0.51,0.49,0.53,2400,0.51,0.0,{cell},,"
    assert second == f",m,ours,not comparable,0.51,0.49,0.53,2400,0.51,0.0,{cell},other judge: x for gpt-4o,"
    assert r"\label{tab:maia_reproduction}" in to_latex(details)
    assert summary_table({}, {}) is None


def test_file_of_cells_is_read_back_by_model(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    cells = [maia_result(), verdict(0.0)]
    out.put(PATH, reproduction_json(cells))
    assert load_reproduction(out) == cells
    assert load_reproduction(out, ["gpt-4o"]) == cells[1:]
    assert load_reproduction(out, ["m"], 0.01) == [replace(cells[0], verdict="consistent")]
    with pytest.raises(UsageError, match="did you mean 'gpt-4o'"):
        load_reproduction(out, ["gpt-4"])
    assert json.loads(reproduction_json([])) == []


def test_missing_and_damaged_files_name_the_remedy(tmp_path: Path) -> None:
    out = Store(str(tmp_path))
    with pytest.raises(UsageError, match=r"no report/reproduction\.json; is this the --out of a run"):
        load_reproduction(out)
    out.put(PATH, b'[{"benchmark": "maia"')
    with pytest.raises(StoreError, match=r"damaged .*`vlmsweep report` writes it again"):
        load_reproduction(out)
    for content in (
        b"{}",
        b"null",
        b"[[1]]",
        reproduction_json([maia_result()]).replace(b'"ours": ', b'"ours": "x", "": '),
    ):
        out.put(PATH, content)
        with pytest.raises(StoreError, match=r"damaged .*`vlmsweep report` writes it again"):
            load_reproduction(out)
