"""Human levels that benchmarks declare."""

from __future__ import annotations

import pytest

from pipelines.benchmarks import benchmark, benchmark_names
from tests.support.published_frames import published
from tests.support.report_results import EMPTY, results_of, rows_of


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
