import dataclasses
import re

import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.published import load_published, parse_published
from tests.support.published_frames import COLUMNS, doubtful, published, published_benchmarks

ROWS = {"maia": 798, "vague": 803, "vflute": 83, "mate": 416, "unpie": 494}
TASKS = {
    "maia": {"vsv", "oevqa", "aggregate"},
    "vague": {"mcq", "freeform"},
    "vflute": {"entailment"},
    "mate": {"img2txt", "txt2img", "img2img", "txt2txt", "crossmodal", "unimodal"},
    # '' is a number about the data.
    "unpie": {"grounding", "disambiguation", "reconstruction", ""},
}
SETTINGS = {
    "maia": {"black-video", "1-frame", "32-frames", "unimodal"},
    "vague": {"lm", "sm", "vlm", "sm-cot", "vlm-cot"},
    "vflute": {
        *("zero-shot", "5-shot", "10-shot", "scene-graph", "no-image", "label-only"),
        *filter(None, benchmark("vflute").publication.settings),
    },
    "mate": {"0-shot", "1-shot", "2-shot", "2-shot-cot"},
    "unpie": {"lm", "sm", "vlm"},
}
KEY = ["table", "model", "task", "setting", "subset", "category", "metric"]


@pytest.mark.parametrize("name", published_benchmarks())
def test_published_rows_are_unique(name: str) -> None:
    frame = published(name)
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == ROWS[name]
    assert set(frame["benchmark"]) == {name}
    assert not frame.duplicated(KEY).any()


@pytest.mark.parametrize("name", published_benchmarks())
def test_published_keys_are_our_nouns(name: str) -> None:
    frame = published(name)
    assert set(frame["task"]) <= TASKS[name]
    # '' where the paper gives no input: people, chance, data.
    assert set(frame["setting"]) <= SETTINGS[name] | {""}
    assert all(re.fullmatch(r"[a-z0-9_]+", metric) for metric in frame["metric"])
    assert "Avg" not in set(frame["category"])
    assert not frame["model"].eq("").any()


@pytest.mark.parametrize("name", published_benchmarks())
def test_published_values_are_fractions_counts_or_coefficients(name: str) -> None:
    frame = published(name)
    assert frame["value"].dtype == "float64"
    assert set(frame["unit"]) <= {"fraction", "count", ""}
    changes = frame["metric"].str.contains("delta")
    sound = frame[(frame["unit"] == "fraction") & ~frame["note"].str.startswith("misprint")]
    assert sound.loc[~changes, "value"].dropna().between(0, 1).all()
    assert sound.loc[changes, "value"].between(-1, 1).all()
    counts = frame[frame["unit"] == "count"]["value"]
    assert (counts == counts.round()).all()
    # A number that the paper does not give has a note.
    assert frame[frame["value"].isna()]["note"].str.startswith("not given").all()


def test_benchmark_without_published_numbers_has_no_rows() -> None:
    frame = published("my-own")
    assert tuple(frame.columns) == COLUMNS
    assert frame.empty
    assert frame["value"].dtype == "float64"


@pytest.mark.parametrize("metric", ["pool_accuracy", "statement_accuracy", "oevqa_accuracy", "agg_acc"])
def test_published_averages_of_maia_are_means_of_its_categories(metric: str) -> None:
    frame = published("maia")
    frame = frame[frame["metric"] == metric]
    for _, row in frame.groupby(["model", "setting"]):
        if not doubtful(row).any():
            mean = row.loc[row["category"] != "", "value"].mean()
            assert row.loc[row["category"] == "", "value"].item() == pytest.approx(mean, abs=0.0105)


def test_published_values_of_a_definition_come_before_those_of_its_package() -> None:
    (value,) = parse_published("table,model,task,setting,metric,value\nTable 1,A,t,s,accuracy,0.5\n")
    assert (value.model, value.value, value.category, value.unit) == ("A", 0.5, "", "")
    definition = benchmark("mate")
    assert definition.published == load_published("mate")
    assert dataclasses.replace(definition, published_values=(value,)).published == (value,)
