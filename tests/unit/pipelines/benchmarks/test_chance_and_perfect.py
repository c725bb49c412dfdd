"""End to end in memory: guessing scores at chance, perfect answers at one, every kind of answer under its name."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest

from models.messages import Text
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.mate.rows import find_row
from pipelines.benchmarks.records import Metric, Sample
from tests.support.many_samples import many
from tests.support.published_frames import published
from tests.support.requests import PlannedRequest
from tests.support.sweeps import counts, guessed, metric_named, reduced

SURE = 4
"""Standard errors within which a guesser's number must lie."""
UNSHOWN = ("5-shot", "10-shot", "sm")
"""Settings that need exemplars or a captioner, which these samples have not."""


def error_of(p: float, n: int) -> float:
    return math.sqrt(p * (1 - p) / n)


# ------------------------------------------------------------------------------------------------------------- chance


@pytest.mark.parametrize("setting", ["lm", "sm", "vlm", "sm-cot", "vlm-cot"])
def test_vague_is_guessed_at_a_quarter(setting: str) -> None:
    metrics = reduced("vague", many("vague", 480), guessed(), ["mcq"], [setting])
    for subset in ("", "VCR", "Ego4D"):
        accuracy = metric_named(metrics, "accuracy", subset=subset, setting=setting)
        assert accuracy.value is not None
        assert abs(accuracy.value - 0.25) < SURE * error_of(0.25, accuracy.n)
    kinds = counts(metrics, subset="", setting=setting)
    assert sum(kinds[f"count_{name}", ""] or 0 for name in ("correct", "fs", "su", "ne")) == 480
    assert kinds["count_invalid", ""] == 0


@pytest.mark.parametrize("setting", ["zero-shot", "label-only"])
def test_vflute_is_guessed_at_the_f1_of_a_fair_coin(setting: str) -> None:
    metrics = reduced("vflute", many("vflute", 723), guessed(), settings=[setting])
    f1, chance = metric_named(metrics, "f1_at_0"), metric_named(metrics, "chance_f1_at_0")
    assert (f1.n, chance.value) == (723, pytest.approx(0.4985, abs=1e-3))
    assert f1.value == pytest.approx(0.4985, abs=SURE * 0.018)
    assert metric_named(metrics, "all_entailment_f1_at_0").value == pytest.approx(0.3590, abs=1e-4)
    cartoons = {"subset": "NYCartoons", "category": "Humor"}
    assert metric_named(metrics, "chance_f1_at_0", **cartoons).value == pytest.approx(0.335, abs=5e-3)
    assert metric_named(metrics, "accuracy", **cartoons).value == pytest.approx(0.5, abs=SURE * error_of(0.5, 100))


def closed_form(sample: Sample, task: str, target: str) -> float:
    """Return chance by hand: uniform over the objects if the text decides, over the options if the picture does."""
    if task in ("txt2img", "img2img"):
        return 1 / 8 if target == "color" else 1 / 4
    objects = sample.data["scene"]["objects"]
    row = find_row(sample, task, "0-shot")
    assert row is not None
    same = sum(str(item[target]) == str(row["gold"]) for item in objects)
    return same / len(objects)


@pytest.mark.parametrize("setting", ["0-shot", "2-shot-cot"])
def test_mate_is_guessed_at_its_closed_form(setting: str) -> None:
    samples = many("mate", 1920)
    metrics = reduced("mate", samples, guessed(), settings=[setting])
    expected: dict[str, list[float]] = {}
    for sample in samples:
        (first, *_) = sample.data["rows"]
        expected.setdefault(first["task"], []).append(closed_form(sample, first["task"], first["target"]))
    for task in {metric.task for metric in metrics if metric.metric == "exact_match"} & set(expected):
        chances = expected[task]
        mean = sum(chances) / len(chances)
        spread = math.sqrt(sum(p * (1 - p) for p in chances)) / len(chances)
        assert metric_named(metrics, "chance", task=task).value == pytest.approx(mean)
        assert metric_named(metrics, "exact_match", task=task).value == pytest.approx(mean, abs=SURE * spread)
    names = metric_named(metrics, "chance", task="img2txt", category="Name").value
    assert names == pytest.approx(sum(1 / n for n in range(3, 11)) / 8, abs=0.02)
    assert metric_named(metrics, "chance", task="txt2img").value == pytest.approx(0.1875, abs=1e-3)
    # What is guessed for a textual target always stands in the scene.
    assert metric_named(metrics, "ose", task="img2txt").value == 0
    assert (metric_named(metrics, "ose", task="txt2img").value or 0) > 0


def test_unpie_disambiguation_is_guessed_at_half_and_its_pairs_at_a_quarter() -> None:
    metrics = reduced("unpie", many("unpie", 300), guessed(), ["disambiguation"], ["vlm"])
    for subset in ("", "En-De", "En-Fr", "En-Ko"):
        for category in ("", "Homo", "Hetero", "All"):
            accuracy = metric_named(metrics, "accuracy", subset=subset, category=category)
            assert accuracy.value == pytest.approx(0.5, abs=SURE * error_of(0.5, accuracy.n))
    pairs = metric_named(metrics, "pair_accuracy")
    assert pairs.value == pytest.approx(0.25, abs=SURE * error_of(0.25, pairs.n))
    assert metric_named(metrics, "same_output_rate").value == pytest.approx(0.5, abs=SURE * error_of(0.5, pairs.n))


def test_maia_statements_are_guessed_at_half_and_pools_at_a_256th() -> None:
    metrics = reduced("maia", many("maia", 24 * 50), guessed(), ["vsv"], ["32-frames"])
    statements, pools = metric_named(metrics, "statement_accuracy"), metric_named(metrics, "pool_accuracy")
    assert (statements.n, pools.n) == (9600, 1200)
    assert statements.value == pytest.approx(0.5, abs=SURE * error_of(0.5, 9600))
    assert pools.value == pytest.approx(1 / 256, abs=SURE * error_of(1 / 256, 1200))


# ------------------------------------------------------------------------------------------------------------ perfect

RIGHT = {
    "maia": {"statement_accuracy", "pool_accuracy", "oevqa_accuracy", "agg_acc"},
    "mate": {"exact_match", "exact_match_lenient", "format_ok", "exact_match_failures_wrong"},
    "unpie": {
        *("exact_match", "exact_match_strict", "accuracy", "pair_accuracy", "correct_pct", "bleu4", "bleu4_sentence"),
        "coverage",
    },
    "vague": {"accuracy", "bleu1", "bleu1_noopener", "bleu1_corpus", "accuracy_by_rating"},
    "vflute": {
        *("accuracy", "label_f1", "accuracy_at_53", "accuracy_at_60", "f1_at_0", "f1_at_53", "f1_at_60"),
        *("f1_at_0_robust", "f1_at_53_robust", "f1_at_60_robust"),
    },
}
"""Metrics that are 1 for who is always right."""


def perfect(sample: Sample, request: PlannedRequest) -> str:
    """Return the right answer to a request, from the sample's own data."""
    answers = {
        "maia": _maia_answer,
        "mate": _mate_answer,
        "unpie": _unpie_answer,
        "vague": _vague_answer,
        "vflute": _vflute_answer,
    }
    return answers[request.columns["benchmark"]](sample, request)


def _vague_answer(sample: Sample, request: PlannedRequest) -> str:
    data, setting = sample.data, request.columns["setting"]
    answer = str(data["ordering"][0] if request.columns["task"] == "mcq" else data["readings"]["correct"])
    return f"Answer 1 (reasoning): so it is.\nAnswer 2 (intention): {answer}" if setting.endswith("cot") else answer


def _vflute_answer(sample: Sample, request: PlannedRequest) -> str:
    label = str(sample.data["label"])
    return label if request.columns["setting"] == "label-only" else f"{sample.data['explanation']}\nLABEL: {label}"


def _mate_answer(sample: Sample, request: PlannedRequest) -> str:
    row = find_row(sample, request.columns["task"], request.columns["setting"])
    assert row is not None
    return json.dumps({"answer": row["gold"]})


def _maia_answer(sample: Sample, request: PlannedRequest) -> str:
    data = sample.data
    if request.columns["task"] == "oevqa":
        return str(data["answers"][0])
    # The true statement is looked for in the prompt, as a model would.
    (text,) = [part.text for turn in request.request.steps[-1].turns for part in turn.parts if isinstance(part, Text)]
    true, false = (text.index(data[side][int(request.columns["variant"])]) for side in ("true", "false"))
    return "A" if true < false else "B"


def _unpie_answer(sample: Sample, request: PlannedRequest) -> str:
    data, task = sample.data, request.columns["task"]
    if task != "disambiguation":
        return str(data["phrase" if task == "grounding" else "sentence"])
    lang, meaning = request.columns["variant"].split("/")
    return str(data["translation"][int(meaning)][lang])


@cache
def perfect_metrics(name: str) -> tuple[Metric, ...]:
    samples = many(name, {"maia": 48, "mate": 384, "vflute": 723}.get(name, 60))
    return tuple(reduced(name, samples, perfect, judge=True))


@pytest.mark.parametrize("name", benchmark_names())
def test_perfect_answers_score_a_hundred_percent_everywhere(name: str) -> None:
    measured = [metric for metric in perfect_metrics(name) if metric.metric in RIGHT[name]]
    measured = [metric for metric in measured if metric.setting not in UNSHOWN or metric.value is not None]
    assert {metric.metric for metric in measured} == RIGHT[name]
    wrong = [metric for metric in measured if metric.value != pytest.approx(1.0) and not _nothing_to_ask(name, metric)]
    assert [(m.task, m.setting, m.subset, m.category, m.metric, m.value) for m in wrong] == []


def _nothing_to_ask(name: str, metric: Metric) -> bool:
    return (name == "unpie" and metric.setting == "sm") or (metric.value is None and metric.n == 0)


NOT_MEASURED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "maia": {"setting": ["unimodal"], "subset": ["100 samples"]},
    "mate": {"category": ["Color+Size (2nd row)"]},  # misprinted twice
    "unpie": {
        "table": ["Section 2.3", "Table 2", "Table 3", "Table 7", "Table 8", "Table 9"],
        "model": ["Random"],
        "metric": ["meteor"],  # ours is `meteor_nowordnet`
    },
    "vflute": {"subset": ["95 test instances", "adequacy judgements"]},
}
"""Columns of published rows, and what they say where no run of a model measures it."""


@pytest.mark.parametrize("name", benchmark_names())
def test_metrics_are_unique_and_join_with_the_published_rows(name: str) -> None:
    columns = ["task", "setting", "subset", "category", "metric", "unit"]
    metrics = [replace(metric, unit=metric.unit.replace("score", "")) for metric in perfect_metrics(name)]
    units = {tuple(getattr(metric, column) for column in columns) for metric in metrics}
    assert len({key[:-1] for key in units}) == len(metrics)
    printed = published(name).replace({"setting": dict(benchmark(name).publication.settings)})
    for column, values in NOT_MEASURED.get(name, {}).items():
        assert set(values) <= set(printed[column]), "nothing is left out in vain"
        printed = printed[~printed[column].isin(values)]
    assert len(printed)
    assert set(printed[columns].itertuples(index=False, name=None)) - units == set()


def test_perfect_answers_have_no_out_of_scene_errors() -> None:
    oses = [metric for metric in perfect_metrics("mate") if metric.metric == "ose"]
    assert oses
    assert {metric.value for metric in oses} == {None}


# -------------------------------------------------------------------------------------------------- kinds of answers


def in_turn(samples: Sequence[Sample], answers: Sequence[str]) -> Mapping[str, str]:
    return {sample.sample_id: answers[index % len(answers)] for index, sample in enumerate(samples)}


def test_vague_counts_every_kind_of_answer_under_its_own_name() -> None:
    samples = many("vague", 90)
    replies = in_turn(
        samples,
        ["{0}", "{1}", "{2}", "{3}", "A or B", "I don't know.", "E", "", "<think>B", "a sentence without any choice"],
    )
    metrics = reduced("vague", samples, lambda s, _: replies[s.sample_id].format(*s.data["ordering"]), ["mcq"], ["vlm"])
    kinds = counts(metrics, subset="", setting="vlm")
    assert {name: kinds[f"count_{name}", ""] for name in ("correct", "fs", "su", "ne", "invalid")} == {
        "correct": 9, "fs": 9, "su": 9, "ne": 9, "invalid": 54,
    }  # fmt: skip
    assert kinds["valid_count", ""] == 36
    reasons = {reason: value for (metric, reason), value in kinds.items() if metric == "count_invalid" and reason}
    assert reasons == {
        "multiple": 9, "refusal": 9, "out_of_range": 9, "empty": 9, "unclosed_think": 9, "unparsed": 9,
        "empty_answer2": 0, "no_answer2": 0,
    }  # fmt: skip
    assert metric_named(metrics, "accuracy").value == 9 / 90
    cot = in_turn(samples, ["Answer 2 (intention):", "Let's think step by step. It is cold."])
    kinds = counts(
        reduced("vague", samples, lambda s, _: cot[s.sample_id], ["mcq"], ["vlm-cot"]), subset="", setting="vlm-cot"
    )
    assert (kinds["count_invalid", "empty_answer2"], kinds["count_invalid", "no_answer2"]) == (45, 45)


def test_mate_counts_in_scene_out_of_scene_and_no_json() -> None:
    samples = [s for s in many("mate", 1920) if s.data["rows"][0]["task"] == "img2txt"][:240]
    samples = [sample for sample in samples if sample.data["rows"][0]["target"] == "name"][:60]
    replies = in_turn(
        samples, ['{{"answer": "{0}"}}', '{{"answer": "{1}"}}', '{{"answer": "Object_99"}}', "no idea", ""]
    )

    def say(sample: Sample, _: PlannedRequest) -> str:
        gold = sample.data["rows"][0]["gold"]
        other = next(item["name"] for item in sample.data["scene"]["objects"] if item["name"] != gold)
        return replies[sample.sample_id].format(gold, other)

    metrics = reduced("mate", samples, say, settings=["2-shot"])
    per_kind = Counter(replies.values())
    right, inside, outside, words, empty = (per_kind[text] for text in dict.fromkeys(replies.values()))
    wrong = inside + outside + words + empty
    assert metric_named(metrics, "exact_match", task="img2txt").value == right / len(samples)
    assert metric_named(metrics, "ose", task="img2txt").value == (outside + words + empty) / wrong
    assert metric_named(metrics, "ose", task="img2txt").n == wrong
    assert metric_named(metrics, "no_json_count", task="img2txt").value == words + empty
    assert metric_named(metrics, "format_ok", task="img2txt").value == (right + inside + outside) / len(samples)


def test_vflute_counts_no_labels_empty_explanations_and_disagreeing_readings() -> None:
    samples = many("vflute", 723)[:120]
    replies = in_turn(
        samples,
        ["It fits.\nLABEL: entailment", "No word on it.", "Therefore, LABEL: entailment", "No, it does not entail it."],
    )
    metrics = reduced("vflute", samples, lambda s, _: replies[s.sample_id], settings=["zero-shot"])
    assert metric_named(metrics, "none_rate").value == 0.25
    assert metric_named(metrics, "empty_explanation_rate").value == 0.25
    assert metric_named(metrics, "parser_disagreement").value == 0.25
    assert metric_named(metrics, "errors").value == 0


def test_unpie_counts_invalid_untranslated_and_wrong_script() -> None:
    samples = many("unpie", 12)

    def say(sample: Sample, request: PlannedRequest) -> str:
        lang, meaning = request.columns["variant"].split("/")
        if meaning == "0":
            return ""
        return "[Korean]: Nein." if lang == "ko" else str(sample.data["sentence"])

    metrics = reduced("unpie", samples, say, ["disambiguation"], ["vlm"])
    kinds = counts(metrics, subset="", setting="vlm")
    assert (kinds["invalid", ""], kinds["untranslated", ""], kinds["wrong_script", ""]) == (36, 24, 12)
    assert metric_named(metrics, "accuracy").value == 0


def test_maia_pools_need_all_eight() -> None:
    samples = many("maia", 24)
    wrong = {"A": "B", "B": "A"}

    def say(sample: Sample, request: PlannedRequest) -> str:
        right = perfect(sample, request)
        return wrong[right] if request.columns["variant"] == "7" and sample.sample_id.endswith("_A") else right

    metrics = reduced("maia", samples, say, ["vsv"], ["1-frame"])
    halves = Counter(sample.sample_id[-2:] for sample in samples)
    assert metric_named(metrics, "pool_accuracy").value == halves["_B"] / len(samples)
    assert metric_named(metrics, "statement_accuracy").value == 1 - halves["_A"] / len(samples) / 8
