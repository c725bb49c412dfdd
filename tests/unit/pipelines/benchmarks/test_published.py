import dataclasses
import math
import re

import pandas as pd
import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.published import load_dataset_facts, load_published, parse_published
from tests.support.published_frames import COLUMNS, dataset_facts, doubtful, published, published_benchmarks

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

# Averages of the MAIA paper: black video, 1 frame, 32 frames.
MAIA = {
    "InternVL2 8B": ((0.18, 0.28, 0.31), (0.68, 0.75, 0.79), (0.37, 0.44, 0.49)),
    "InternVL3 78B": ((0.30, 0.42, 0.25), (0.77, 0.81, 0.64), (0.52, 0.68, 0.77)),
    "Llava-Next-Video 7B": ((0.00, 0.08, 0.03), (0.50, 0.61, 0.52), (0.27, 0.32, 0.33)),
    "Llava-oneVision 7B": ((0.14, 0.32, 0.38), (0.59, 0.76, 0.81), (0.40, 0.50, 0.53)),
    "Qwen-2.5-VL 7B": ((0.22, 0.36, 0.44), (0.73, 0.79, 0.84), (0.35, 0.51, 0.61)),
    "Qwen-2.5-VL 72B": ((0.22, 0.40, 0.54), (0.69, 0.79, 0.88), (0.38, 0.70, 0.81)),
}
SIMILARITY = {
    "InternVL2": (0.61, 0.84, 0.38, 0.59, 1.18),
    "InternVL3 78B": (0.50, 0.80, 0.26, 0.47, 0.67),
    "LLaVa-NeXT-Video": (0.46, 0.79, 0.21, 0.45, 0.65),
    "LLava-oneVision": (0.58, 0.83, 0.40, 0.55, 1.08),
    "Qwen-2.5-VL": (0.58, 0.83, 0.38, 0.61, 0.98),
    "Qwen-2.5-VL 72B": (0.62, 0.84, 0.37, 0.65, 1.07),
}


def value(frame: pd.DataFrame, **keys: str) -> float:
    for column, name in keys.items():
        frame = frame[frame[column] == name]
    (number,) = frame["value"]
    return float(number)


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


def test_published_returns_all_benchmarks() -> None:
    everything = published()
    assert len(everything) == sum(ROWS.values())
    assert list(dict.fromkeys(everything["benchmark"])) == list(published_benchmarks())


def test_benchmark_without_published_numbers_has_no_rows() -> None:
    frame = published("my-own")
    assert tuple(frame.columns) == COLUMNS
    assert frame.empty
    assert frame["value"].dtype == "float64"


@pytest.mark.parametrize("model", MAIA)
def test_published_headline_numbers_of_maia(model: str) -> None:
    frame, settings = published("maia"), ("black-video", "1-frame", "32-frames")
    for metric, task, numbers in zip(
        ("pool_accuracy", "statement_accuracy", "oevqa_accuracy"), ("vsv", "vsv", "oevqa"), MAIA[model], strict=True
    ):
        for setting, number in zip(settings, numbers, strict=True):
            assert value(frame, model=model, task=task, setting=setting, metric=metric, category="") == number


@pytest.mark.parametrize("model", SIMILARITY)
def test_published_similarity_of_maia(model: str) -> None:
    frame = published("maia")
    for metric, number in zip(("rouge", "bertscore", "bleu", "meteor", "cider"), SIMILARITY[model], strict=True):
        assert value(frame, table="Table 4", model=model, metric=metric) == number


def test_published_aggregate_of_maia() -> None:
    frame = published("maia")
    assert value(frame, model="Unimodal", metric="pool_accuracy", category="") == 0.05
    assert value(frame, model="Unimodal", metric="statement_accuracy", category="") == 0.56
    aggregate = frame[(frame["metric"] == "agg_acc") & (frame["category"] == "")]
    assert list(aggregate["value"]) == [0.18, 0.33, 0.47]
    assert value(frame, metric="fleiss_kappa") == 0.82


def test_doubtful_cells_of_maia_are_the_known_misprints() -> None:
    frame = published("maia")
    doubtful_rows = frame[doubtful(frame) & (frame["category"] != "")]
    assert doubtful_rows.groupby(["table", "model", "setting"]).size().to_dict() == {
        ("Table 2", "InternVL3 78B", "32-frames"): 4,
        ("Table 5", "InternVL3 78B", "32-frames"): 4,
        ("Table 5", "Qwen-2.5-VL 7B", "1-frame"): 3,
    }


@pytest.mark.parametrize("metric", ["pool_accuracy", "statement_accuracy", "oevqa_accuracy", "agg_acc"])
def test_published_averages_of_maia_are_means_of_its_categories(metric: str) -> None:
    frame = published("maia")
    frame = frame[frame["metric"] == metric]
    for _, row in frame.groupby(["model", "setting"]):
        if not doubtful(row).any():
            mean = row.loc[row["category"] != "", "value"].mean()
            assert row.loc[row["category"] == "", "value"].item() == pytest.approx(mean, abs=0.0105)


def test_published_headline_numbers_of_other_benchmarks() -> None:
    assert value(published("vague"), table="Table 2", model="Human", metric="accuracy") == 0.94
    vflute = published("vflute")
    tuned = {"table": "Table 4", "model": "LLaVA-7B-eViL+VF", "setting": "fine-tuned"}
    assert [value(vflute, **tuned, metric=f"f1_at_{k}") for k in (0, 53, 60)] == [0.7491, 0.6234, 0.488]
    assert (
        value(vflute, table="Table 4", model="LLaVA-7B-VF", setting="fine-tuned (-Image)", metric="f1_at_0") == 0.6477
    )
    assert value(vflute, table="Table 7", model="Human", subset="", metric="f1_at_0") == 0.8909
    mate = published("mate")
    assert value(mate, table="Table 1", model="Human", task="crossmodal") == 0.979
    assert value(mate, table="Table 1", model="Random", task="img2txt") == 0.254
    unpie = published("unpie")
    keys = {"table": "Table 4", "model": "GPT-4", "category": "Homo", "metric": "exact_match"}
    assert [value(unpie, **keys, setting=name) for name in ("lm", "vlm")] == [0.954, 0.976]
    assert unpie["note"].str.startswith("misprint").sum() == 4


def test_dataset_facts_are_unique() -> None:
    facts = dataset_facts()
    assert tuple(facts.columns) == ("benchmark", "table", "key", "value", "note")
    assert len(facts) == 165
    assert set(facts["benchmark"]) == set(published_benchmarks())
    assert dict(dataset_facts("maia")[["key", "value"]].to_numpy())["videos"] == "100"
    assert not facts.duplicated(["benchmark", "table", "key"]).any()


@pytest.mark.parametrize("name", published_benchmarks())
def test_load_published_equals_the_frame(name: str) -> None:
    frame, values = published(name), load_published(name)
    assert [row.value for row in values] == [None if math.isnan(number) else number for number in frame["value"]]
    assert [row.doubtful for row in values] == doubtful(frame).tolist()
    for column in ("table", "model", "task", "setting", "subset", "category", "metric", "unit", "note"):
        assert [getattr(row, column) for row in values] == frame[column].tolist()


def test_load_dataset_facts_equals_the_frame() -> None:
    facts = dataset_facts("maia")
    assert load_dataset_facts("maia") == dict(zip(facts["key"], facts["value"], strict=True))
    assert load_published("my-own") == ()


def test_published_values_of_a_definition_come_before_those_of_its_package() -> None:
    (value,) = parse_published("table,model,task,setting,metric,value\nTable 1,A,t,s,accuracy,0.5\n")
    assert (value.model, value.value, value.category, value.unit) == ("A", 0.5, "", "")
    definition = benchmark("mate")
    assert definition.published == load_published("mate")
    assert dataclasses.replace(definition, published_values=(value,)).published == (value,)
