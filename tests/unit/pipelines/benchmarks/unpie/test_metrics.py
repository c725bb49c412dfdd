"""UNPIE's metrics: worked counts, answers of known quality, gaps, pairs, frequency, intervals."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipelines.benchmarks.records import Metric, Sample, Verdict
from pipelines.benchmarks.unpie.metrics import MARGIN_BINS, margin_name
from pipelines.metrics.intervals import half_up
from tests.support.paths import GOLDEN
from tests.support.unpie_rows import cell, judged, metric_of, prediction, reduced, sample, samples, scored, similar

GOLDEN_ROWS = GOLDEN / "unpie" / "metrics.jsonl"
ROWS = [json.loads(line) for line in GOLDEN_ROWS.read_text().splitlines()]
CLOSE = (0.9132, 0.8870)
FEW = samples(4)


def placed(good: bool, meaning: int) -> Mapping[str, Any]:
    """Return a translation nearer to the requested meaning, or to the other."""
    return similar(*(CLOSE if good == (meaning == 0) else CLOSE[::-1]))


def verdicts(index: int) -> Mapping[str, Any]:
    """Return 1,000 verdicts: 300 yes, 650 no, 30 unread, 20 empty."""
    if index < 300:
        return {"output": "A pun.", "verdict": judged(True)}
    if index < 950:
        return {"output": "A pun.", "verdict": judged(False)}
    if index < 980:
        return {"output": "A pun.", "verdict": Verdict(state="invalid", tries=3)}
    return {"output": "", "verdict": judged(False)}


# ------------------------------------------------------------------------------------------------------ worked counts


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_category_all_is_the_mean_of_both_kinds(row: dict[str, Any]) -> None:
    of = samples(500)
    right = {"Homo": row["homo"], "Hetero": row["hetero"]}
    rows = []
    for pun in of.values():
        for meaning in range(2):
            index = 2 * int(pun.sample_id[-4:]) + meaning
            how = {"output": "A pun.", "verdict": judged(index < right[pun.category])}
            rows.append(_light(pun, f"de/{meaning}", float(how["verdict"].accepted)))
    metrics = reduced(rows, of)
    whole = metric_of(metrics, "correct_pct", "lm", subset="De-En", category="All")
    assert whole.value == pytest.approx(row["all"])
    assert str(half_up(100 * (whole.value or 0), 1)) == row["printed"]
    assert (whole.n, metric_of(metrics, "correct_pct", "lm", subset="De-En", category="Homo").n) == (2000, 1000)


def _light(pun: Sample, variant: str, accepted: float) -> dict[str, Any]:
    """Return an unread judged row, cheap enough for two thousand."""
    return {
        "sample_id": pun.sample_id, "task": "reconstruction", "setting": "lm", "variant": variant, "subset": "",
        "category": pun.category, "cluster": pun.cluster, "status": "ok", "answer": "A pun.", "flags": [],
        "verdict_state": "ok", "accepted": accepted,
    }  # fmt: skip


def test_judge_verdicts_are_counted_over_a_thousand_variants() -> None:
    pun = sample("homographic", 0)
    names = {f"homographic/{index:04d}": replace(pun, sample_id=f"homographic/{index:04d}") for index in range(1000)}
    rows = [
        scored(prediction(each, "reconstruction", "lm", "de/0", **verdicts(index)))
        for index, each in enumerate(names.values())
    ]
    metrics = reduced(rows, names)
    correct = metric_of(metrics, "correct_pct", "lm")
    assert (correct.value, correct.n, correct.n_failed) == (0.3, 1000, 0)
    counts = {name: metric_of(metrics, name, "lm").value for name in ("judge_invalid", "invalid", "judged_by_rule")}
    assert counts == {"judge_invalid": 30, "invalid": 20, "judged_by_rule": 20}


def test_excluded_and_failed_rows_are_in_no_denominator() -> None:
    pun = sample("homographic", 0)
    names = {f"homographic/{index:04d}": replace(pun, sample_id=f"homographic/{index:04d}") for index in range(1000)}
    rows = []
    for index, each in enumerate(names.values()):
        how = {"status": "excluded", "output": None} if index < 40 else {"status": "error", "output": None}
        rows.append(
            scored(prediction(each, "disambiguation", "vlm", "de/0", **(how if index < 45 else placed(index < 525, 0))))
        )
    metrics = reduced(rows, names)
    accuracy = metric_of(metrics, "accuracy", subset="En-De", category="Homo")
    assert (accuracy.n, accuracy.n_failed) == (955, 5)
    assert round(accuracy.value or 0, 4) == 0.5026
    assert metric_of(metrics, "coverage", subset="En-De").value == 0.96
    assert metric_of(metrics, "errors").value == 5


@pytest.mark.parametrize(
    ("first", "second", "accuracy", "pair", "same", "invalid"),
    [
        (similar(0.91, 0.88), similar(0.91, 0.88), 0.5, 0.0, 1.0, 0),
        (placed(True, 0), {"output": ""}, 0.5, 0.0, 0.0, 1),
        (placed(True, 0), {**placed(True, 1), "output": "Ein anderer Satz."}, 1.0, 1.0, 0.0, 0),
        ({"output": ""}, {"output": ""}, 0.0, 0.0, 0.0, 2),
    ],
)
def test_pair_accuracy_needs_both_meanings(
    first: Any, second: Any, accuracy: float, pair: float, same: float, invalid: int
) -> None:
    pun = sample("homographic", 0)
    rows = [
        scored(prediction(pun, "disambiguation", "vlm", f"de/{meaning}", **how))
        for meaning, how in enumerate((first, second))
    ]
    metrics = reduced(rows, {pun.sample_id: pun})
    assert metric_of(metrics, "accuracy").value == accuracy
    assert (metric_of(metrics, "pair_accuracy").value, metric_of(metrics, "pair_accuracy").n) == (pair, 1)
    assert metric_of(metrics, "same_output_rate").value == same
    assert metric_of(metrics, "invalid").value == invalid


def test_pair_with_a_failure_is_not_counted() -> None:
    pun = sample("homographic", 0)
    rows = [
        scored(prediction(pun, "disambiguation", "vlm", "de/0", **placed(True, 0))),
        scored(prediction(pun, "disambiguation", "vlm", "de/1", status="error", output=None)),
    ]
    pair = metric_of(reduced(rows, {pun.sample_id: pun}), "pair_accuracy")
    assert (pair.value, pair.n, pair.n_failed) == (None, 0, 1)


# --------------------------------------------------------------------------------------------- answers of known quality


def everything(quality: str) -> list[dict[str, Any]]:
    """Return all cells, answered perfectly, or all with the same answer."""
    perfect = quality == "perfect"
    rows: list[dict[str, Any]] = []
    for setting in ("lm", "sm", "vlm"):
        rows += cell(FEW, "grounding", setting, lambda s, _: {"output": s.data["phrase"] if perfect else "bread"})
        rows += cell(
            FEW,
            "reconstruction",
            setting,
            lambda s, _: {"output": s.data["sentence"] if perfect else "No.", "verdict": judged(perfect)},
        )
        if setting != "lm":
            rows += cell(
                FEW, "disambiguation", setting, lambda _, v: placed(True, int(v[-1])) if perfect else similar(*CLOSE)
            )
    return rows


@pytest.fixture(scope="module")
def perfect() -> list[Metric]:
    return reduced(everything("perfect"), FEW)


@pytest.fixture(scope="module")
def constant() -> list[Metric]:
    return reduced(everything("constant"), FEW)


def test_metrics_of_constant_answers(constant: list[Metric]) -> None:
    assert metric_of(constant, "exact_match").value == 0.0
    assert metric_of(constant, "accuracy", category="All").value == 0.5
    assert metric_of(constant, "pair_accuracy").value == 0.0
    assert metric_of(constant, "same_output_rate").value == 1.0
    assert metric_of(constant, "correct_pct", category="Homo").value == 0.0
    assert metric_of(constant, "margin").value == pytest.approx(0.0)


def test_no_agreement_is_measured_without_human_labels(perfect: list[Metric]) -> None:
    assert not [m for m in perfect if m.metric.startswith("agreement")]


def test_random_exact_match_is_the_chance_of_one_word(perfect: list[Metric]) -> None:
    word_counts = [len(pun.data["sentence"].split()) for pun in FEW.values()]
    assert metric_of(perfect, "random_exact_match").value == pytest.approx(np.mean([1 / n for n in word_counts]))


def test_margins_are_counted_in_bins() -> None:
    rows = cell(FEW, "disambiguation", "vlm", lambda _, v: placed(True, int(v[-1])))
    metrics = reduced(rows, FEW)
    counts = [metric_of(metrics, margin_name(index)).value for index in range(len(MARGIN_BINS) + 1)]
    assert sum(value or 0 for value in counts) == 48
    assert counts[1 + MARGIN_BINS.index(0.02)] == 48


# ---------------------------------------------------------------------------------------------------------------- gaps


def test_accuracy_is_null_without_a_scorer() -> None:
    rows = cell(FEW, "disambiguation", "vlm", lambda _, v: {"output": "Ein Satz." if v != "ko/1" else ""})
    metrics = reduced(rows, FEW)
    for name in ("accuracy", "pair_accuracy", "margin", "tie_rate", margin_name(3)):
        metric = metric_of(metrics, name)
        assert (metric.value, metric.note) == (None, "no scorer model")
    assert metric_of(metrics, "same_output_rate").value == pytest.approx(2 / 3)


def test_bleu_needs_no_judge() -> None:
    metrics = reduced(cell(FEW, "reconstruction", "lm", lambda s, _: {"output": s.data["sentence"]}), FEW)
    for name in ("correct_pct", "judge_invalid", "judged_by_rule"):
        metric = metric_of(metrics, name, "lm")
        assert (metric.value, metric.note) == (None, "no judge: give one with --judge")
    assert metric_of(metrics, "bleu4", "lm", subset="De-En").value == pytest.approx(1.0)
    assert metric_of(metrics, "bleu4_sentence", "lm").value == pytest.approx(1.0)


def test_failed_verdicts_count_as_failures_and_absent_ones_make_the_metric_null() -> None:
    def say(_: Sample, variant: str) -> Mapping[str, Any]:
        state = "failed" if variant == "de/0" else "ok"
        return {"output": "A pun.", "verdict": Verdict(state=state, accepted=True)}  # type: ignore[arg-type]

    rows = cell(FEW, "reconstruction", "lm", say)
    correct = metric_of(reduced(rows, FEW), "correct_pct", "lm", subset="De-En")
    assert (correct.value, correct.n, correct.n_failed) == (1.0, 8, 8)
    rows[-1] = {**rows[-1], "verdict_state": "absent", "accepted": np.nan}
    gap = metric_of(reduced(rows, FEW), "correct_pct", "lm", subset="Ko-En")
    assert (gap.value, gap.note) == (None, "some answers were not judged")


def test_notes_of_excluded_and_missing_rows() -> None:
    excluded = cell(FEW, "grounding", "sm", lambda *_: {"status": "excluded", "output": None})
    metric = metric_of(reduced(excluded, FEW), "exact_match", "sm")
    assert (metric.value, metric.n, metric.note) == (
        None,
        0,
        "8 requests lack a caption (no captioner, or none for the picture)",
    )
    missing = [scored(prediction(of, "grounding", "lm"), "missing") for of in FEW.values()]
    missing[0] = scored(prediction(FEW["homographic/0000"], "grounding", "lm", output="kneaded"))
    partly = metric_of(reduced(missing, FEW), "exact_match", "lm")
    assert (partly.value, partly.n, partly.note) == (1.0, 1, "7 requests were never run")


def test_one_kind_alone_has_no_category_all() -> None:
    of = {name: pun for name, pun in FEW.items() if pun.category == "Homo"}
    metrics = reduced(cell(of, "grounding", "lm", lambda *_: {"output": "kneaded"}), of)
    assert {m.category for m in metrics if m.metric == "exact_match"} == {"", "Homo"}


def test_errors_are_not_in_the_denominator() -> None:
    def say(of: Sample, _: str) -> Mapping[str, Any]:
        return {"status": "error", "output": None} if of.category == "Homo" else {"output": "kneaded"}

    metrics = reduced(cell(FEW, "grounding", "lm", say), FEW)
    whole, homo = metric_of(metrics, "exact_match", "lm"), metric_of(metrics, "exact_match", "lm", category="Homo")
    assert (whole.value, whole.n, whole.n_failed) == (1.0, 4, 4)
    assert (homo.value, homo.n, homo.note) == (None, 0, "no request was answered")
    assert metric_of(metrics, "exact_match", "lm", category="All").value is None


# --------------------------------------------------------------------------------------------------------- frequency


def test_correct_pct_is_split_by_frequency_of_the_meaning() -> None:
    of = samples(4, frequent=1)

    def say(_: Sample, variant: str) -> Mapping[str, Any]:
        return {"output": "A pun.", "verdict": judged(variant.endswith("1"))}

    metrics = reduced(cell(of, "reconstruction", "lm", say), of)
    for pair in ("De-En", "Fr-En"):
        assert metric_of(metrics, "correct_pct", "lm", subset=pair, category="Freq↑").value == 1.0
        assert metric_of(metrics, "correct_pct", "lm", subset=pair, category="Freq↓").value == 0.0


# ----------------------------------------------------------------------------------------------------------- intervals


def test_metric_without_value_has_a_note(perfect: list[Metric], constant: list[Metric]) -> None:
    for metric in (*perfect, *constant):
        assert metric.value is not None or metric.note
        if metric.ci_low is not None and metric.ci_high is not None and metric.value is not None:
            assert metric.ci_low - 1e-6 <= metric.value <= metric.ci_high + 1e-6


def test_deltas_are_of_unrounded_values() -> None:
    rows = cell(FEW, "grounding", "lm", lambda s, _: {"output": "kneaded" if s.sample_id.endswith("0") else "x"})
    rows += cell(FEW, "grounding", "vlm", lambda *_: {"output": "kneaded"})
    rows[-1] = scored(prediction(FEW["heterographic/0003"], "grounding", "vlm", status="error", output=None))
    metrics = reduced(rows, FEW)
    homo = metric_of(metrics, "delta_vs_lm", category="Homo")
    assert homo.value == 0.75
    assert homo.ci_low is not None
    hetero = metric_of(metrics, "delta_vs_lm", category="Hetero")
    assert (hetero.value, hetero.n_failed) == (0.75, 1)
    assert (hetero.ci_low or 1) < 0.75  # the settings differ in their rows, and still share puns
    assert "3 rows and 4 of lm" in hetero.note


def test_puns_and_those_that_need_context_are_counted() -> None:
    alike = {
        name: replace(pun, data={**pun.data, "translation": [pun.data["translation"][0]] * 2}) if index else pun
        for index, (name, pun) in enumerate(FEW.items())
    }
    metrics = {m.metric: m for m in reduced(cell(alike, "grounding", "lm", lambda *_: {"output": "x"}), alike)}
    assert (metrics["ambiguous"].value, metrics["puns"].value) == (1 / len(FEW), len(FEW))
