"""Human levels that benchmarks declare, and files of people's work that cannot be used."""

from __future__ import annotations

import pytest

from pipelines.benchmarks import benchmark, benchmark_names
from tests.support import maia_rows, unpie_rows, vague_rows, vflute_rows
from tests.support.maia_rows import Question
from tests.support.published_frames import published
from tests.support.report_results import EMPTY, results_of, rows_of
from tests.support.vflute_rows import Scored


def test_human_levels_equal_the_published_ones() -> None:
    approximate = results_of("vague", rows_of("vague", subset=["human-400-approx"]))
    vague = benchmark("vague").human.reference_values(approximate)
    assert [(level.metric, level.value, level.items, level.chance) for level in vague] == [
        ("accuracy", 0.94, "approximate", 0.25),
        *(
            (metric, value, "approximate", None)
            for metric, value in (("count_fs", 12), ("count_su", 4), ("count_ne", 8), ("count_correct", 374))
        ),
        ("count_invalid", None, "approximate", None),
    ]
    listed = benchmark("vague").human.reference_values(results_of("vague", rows_of("vague", subset=["human-400"])))
    assert {(level.items, level.n) for level in listed} == {("same", 400)}
    mate = {level.task: level for level in benchmark("mate").human.reference_values(results_of("mate", EMPTY))}
    assert {task: level.value for task, level in mate.items()} == {
        "crossmodal": 0.979, "img2txt": 0.979, "txt2img": 0.979, "unimodal": 0.995, "img2img": 1.0, "txt2txt": 0.99,
    }  # fmt: skip
    vflute = {
        level.subset: level
        for level in benchmark("vflute").human.reference_values(results_of("vflute", EMPTY))
        if level.metric == "f1_at_0"
    }
    assert (vflute[""].value, vflute[""].n, vflute["NYCartoons"].value) == (pytest.approx(0.8909), 99, 0.7143)
    for name in ("maia", "unpie"):
        assert {level.value for level in benchmark(name).human.reference_values(results_of(name, EMPTY))} == {None}


def test_generated_scenes_have_no_published_models_beside_them() -> None:
    generated = rows_of("mate", metric=["generated"], value=[3.0])
    assert {level.tables for level in benchmark("mate").human.reference_values(results_of("mate", generated))} == {()}


def test_human_levels_name_existing_tasks_and_settings() -> None:
    for name in benchmark_names():
        definition = benchmark(name)
        settings_of_tasks = {setting for settings in definition.tasks.values() for setting in settings}
        for level in definition.human.reference_values(results_of(name, EMPTY)):
            assert {*level.settings, *level.drawn} <= settings_of_tasks
            assert {*level.tables, *level.best_of} <= set(published(name)["table"])


SAMPLES = {
    "vague": {item.sample_id: item for item in vague_rows.items(2)},
    "maia": maia_rows.samples([Question()]),
    "vflute": vflute_rows.samples([Scored(), Scored()]),
    "mate": {},
    "unpie": unpie_rows.samples(1),
}
HEADERS = {
    "vague choices": "image_name,annotator,letter",
    "maia answers": "question_id,annotator,answer",
    "maia letters": "pair_id,annotator,letter",
    "maia ratings": "item_id,rater,correct",
    "vflute labels": "id,annotator,label",
    "vflute judgements": "id,system,annotator,adequate,error_type,preferred",
    "mate predictions": "example_id,task,setting,evaluator,prediction",
    "unpie answers": "sample_id,task,variant,annotator,answer",
    "unpie labels": "sample_id,variant,model,setting,human",
}
FIRST_KEPT = "the first is on line 2, keep one"


@pytest.mark.parametrize(
    ("kind", "rows", "message"),
    [
        ("vague choices", "VCR-00000,ann,E", "line 2: letter is 'E', expected A, B"),
        ("vague choices", "x,ann,A\nx,ann,B", "no item 'x'"),
        ("vague choices", "VCR-00000,a,A\nVCR-00000,a,B", f"line 3: a second row of 'a' for 'VCR-00000'; {FIRST_KEPT}"),
        ("maia answers", "video9/x,ann,Sì", "line 2: the data has no question 'video9/x'"),
        ("maia letters", "video9/x/1,ann,B", "line 2: the data has no question 'video9/x'"),
        ("maia letters", "video7/X_A/8,anna,B", r"line 2: pair_id .* expected such as"),
        ("maia letters", "video7/X_A/3,anna,C", r"line 2: pair_id .* expected such as"),
        ("maia letters", "3,anna,A", r"line 2: pair_id .* expected such as"),
        ("maia ratings", "1,a,yes", "line 2: correct is 'yes', expected 0 or 1"),
        ("maia ratings", "1,a,1\n1,a,0", f"line 3: a second row of 'a' for '1'; {FIRST_KEPT}"),
        ("maia ratings", "1,,1", "line 2: rater must have a value"),
        ("maia ratings", "1,a,1\n1,b,1\n2,a,1", "same number of raters"),
        ("maia ratings", "", "items by categories"),
        ("vflute labels", "row 0,ann,yes", "line 2: label is 'yes'"),
        ("vflute labels", "row 0,,entailment", "line 2: annotator must have a value"),
        ("vflute labels", "row 0,a,entailment\nrow 0,a,entailment", "line 3: a second row of 'a' for 'row 0'"),
        ("vflute labels", "row 9,ann,entailment", "the data has no row 'row 9'"),
        ("vflute judgements", "row 0,s,a,2,,0", "line 2: adequate is '2'"),
        ("vflute judgements", "row 0,s,a,1,,yes", "line 2: preferred is 'yes'"),
        ("vflute judgements", "row 0,s,a,0,,0", "line 2: error_type is ''"),
        ("vflute judgements", "row 0,s,a,1,,0", "1 annotators, expected two"),
        ("vflute judgements", "row 0,s,a,1,,0\nrow 0,s,a,1,,0", "line 3: a second row of 'a' for 'row 0/s'"),
        (
            "vflute judgements",
            "row 0,s,a,1,,1\nrow 0,s,b,1,,0\nrow 0,t,a,1,,1\nrow 0,t,b,1,,0",
            "'a' prefers 's' and 't'",
        ),
        (
            "mate predictions",
            "x,img2img,3-shot,a,b",
            "setting is '3-shot', expected 0-shot, 1-shot, 2-shot or 2-shot-cot",
        ),
        ("mate predictions", "x,img,2-shot,a,b", "line 2: unknown task"),
        ("mate predictions", "x,img2img,2-shot,a,b", "no sample 'x'"),
        ("unpie answers", "x,pun,,a,b", "line 2: task is 'pun'"),
        ("unpie answers", "x,grounding,de/0,a,b", "expected an empty one"),
        ("unpie answers", "x,reconstruction,it/0,a,b", "expected one of de/0"),
        ("unpie answers", "x,grounding,,a,b", "no sample 'x'"),
        ("unpie labels", "homographic/0000,de/0,m,vlm,1", "line 2: setting 'vlm' of task ''"),
        ("unpie labels", "homographic/0000,de/0,m,lm,yes", "line 2: human is 'yes'"),
        ("unpie labels", "homographic/0009,de/0,m,lm,1", "line 2: the data has no sample"),
        (
            "unpie labels",
            "homographic/0000,de/0,m,lm,1\nhomographic/0000,de/0,m,lm,0",
            f"line 3: a second row for 'reconstruction/lm/homographic/0000/de/0/m'; {FIRST_KEPT}",
        ),
    ],
)
def test_unusable_rows_are_refused(kind: str, rows: str, message: str) -> None:
    name, _, file = kind.partition(" ")
    with pytest.raises(ValueError, match=message):
        benchmark(name).human.check(file, f"{HEADERS[kind]}\n{rows}\n", SAMPLES[name])


@pytest.mark.parametrize("kind", HEADERS)
def test_missing_column_is_named(kind: str) -> None:
    name, _, file = kind.partition(" ")
    header, _, column = HEADERS[kind].rpartition(",")
    with pytest.raises(ValueError, match=f"no column {column}"):
        benchmark(name).human.check(file, f"{header}\nx\n", SAMPLES[name])
