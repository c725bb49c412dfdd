"""Compute UNPIE's metrics from the scored rows of one model.

The paper's (Chung et al., EMNLP 2024, arXiv 2410.01023), for homographic and heterographic puns and the mean of both:

- `exact_match` of the pun's phrase; `accuracy` of translations, right when closer to the meaning that the picture
  shows; `correct_pct`, the share of puns that the judge finds reconstructed; `bleu4`, `meteor`; `delta_vs_lm`.

Failed and excluded requests are in no denominator: failed ones are counted in `n_failed`, the share of the others is
`coverage`. Requests that were never run are skipped and noted. Intervals are over puns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from pipelines.benchmarks.layout import View, coverage_notes
from pipelines.benchmarks.metrics_kernel.definitions import (
    Estimate,
    Grouping,
    Measure,
    MetricDef,
    estimates,
    with_intervals,
)
from pipelines.benchmarks.metrics_kernel.rows import NO_JUDGE, Bools, ScoredRows, aligned, coverage_note, worst_status
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.unpie.answers import verdict
from pipelines.benchmarks.unpie.files import LANGUAGES
from pipelines.metrics.agreement import phi
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.meteor import meteor_by_words
from pipelines.metrics.ngrams import bleu_counts, bleu_of_counts, bleu_of_sums
from pipelines.metrics.text import rouge_l, sentence_bleu

KINDS: Final = ("Homo", "Hetero")
ALL: Final = "All"  # category of the mean of both kinds; the pooled value has category ''
TYPES: Final[Mapping[str, str]] = {"lm": "LM", "sm": "SM", "vlm": "VLM"}  # settings in the paper's order and words
INPUTS: Final[Mapping[str, str]] = {"lm": "L", "sm": "V+L", "vlm": "V+L"}
PAIRS: Final[Mapping[str, tuple[str, ...]]] = {
    "disambiguation": tuple(f"En-{lang.capitalize()}" for lang in LANGUAGES),
    "reconstruction": tuple(f"{lang.capitalize()}-En" for lang in LANGUAGES),
}
HEADLINES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "grounding": ("exact_match", ("",)),
    "disambiguation": ("accuracy", PAIRS["disambiguation"]),
    "reconstruction": ("correct_pct", PAIRS["reconstruction"]),
}
"""Task -> headline metric and subsets."""
MIN_COVERAGE: Final = 0.99  # share of requests that must not be excluded for ours to be compared with the published
_FULL_SET: Final[Mapping[str, int]] = {"grounding": 1000, "disambiguation": 6000, "reconstruction": 6000}


def has_low_coverage(view: View) -> bool:
    """Return whether too many of a model's requests are excluded for a comparison with the published."""
    _, task, setting, *_, model = view.key
    shares = [
        view.results.value(Key("coverage", task, setting, subset, category, model))
        for subset in ("", *PAIRS.get(task, ()))
        for category in ("", *KINDS)
    ]
    return any(share is not None and share < MIN_COVERAGE for share in shares)


def subset_notes(results: Results, task: str) -> tuple[str, ...]:
    """Return the notes of tables where ours is not the full set."""
    sizes = results.sizes(lambda key: key.of("", "") == Key("coverage", task))
    words = "subset: {size:,} of {full:,} requests; not comparable with the published full-set values"
    return coverage_notes(sizes, _FULL_SET[task], words)


FREQUENT: Final = "Freq↑"
RARE: Final = "Freq↓"  # categories of reconstruction by how common the meaning of the given translation is
MARGIN_BINS: Final = tuple(round(-0.1 + 0.02 * i, 2) for i in range(11))  # edges; one more bin beyond each end
_BY_KIND: Final = Grouping(names=KINDS, mean_category=ALL)
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "grounding": ("extra_text", "truncated"),
    "disambiguation": ("untranslated", "wrong_script", "refusal", "truncated"),
    "reconstruction": ("untranslated", "wrong_script", "refusal", "truncated"),
}
_NO_SCORER: Final = "no scorer model"
_GAIN: Final = "delta_vs_lm"


def subset_name(task: str, lang: str) -> str:
    """Return the tables' name of a language pair."""
    name = lang.capitalize()
    return f"En-{name}" if task == "disambiguation" else f"{name}-En"


def margin_name(index: int) -> str:
    """Return the metric that counts the margins of a bin: 0 is below the first of `MARGIN_BINS`."""
    return f"margin_bin_{index:02d}"


def _lacking(rows: ScoredRows) -> str:
    """Return why no request was answered."""
    excluded = int(rows.excluded.sum())
    if not excluded:
        return coverage_note(rows) or "no request was answered"
    missing = "a caption (no captioner, or none for the picture)" if rows.setting == "sm" else "a picture or text"
    return f"{excluded:,} requests lack {missing}"


def _translated(rows: ScoredRows) -> Bools:
    return rows.ok & rows.read


_metric: Final = partial(MetricDef, empty=_lacking)
_EXACT_MATCH: Final = _metric(name="exact_match", value="correct", form="both")
_EXACT_MATCH_STRICT: Final = _metric(name="exact_match_strict", value="strict")
_RANDOM: Final = _metric(name="random_exact_match", value="chance", is_exact=True)
_ACCURACY: Final = _metric(name="accuracy", value="correct", missing=_NO_SCORER, form="both")
_MARGIN: Final = _metric(name="margin", value="margin", missing=_NO_SCORER, counted=_translated, unit="")
_TIE_RATE: Final = _metric(name="tie_rate", value="tie", missing=_NO_SCORER, counted=_translated)
_PAIR_ACCURACY: Final = _metric(name="pair_accuracy", value="correct", missing=_NO_SCORER, form="both")
_SAME_OUTPUT: Final = _metric(name="same_output_rate", value="same")
_CORRECT: Final = _metric(name="correct_pct", value="accepted", missing=NO_JUDGE, form="both", judged=True)
_SENTENCE_BLEU: Final = _metric(name="bleu4_sentence", value="bleu4_sentence")
_BLEU: Final = _metric(
    name="bleu4", value=lambda rows: rows["bleu"], statistic=bleu_of_sums, from_totals=bleu_of_counts, form="both"
)
_HEADLINES: Final = {"grounding": "exact_match", "reconstruction": "correct_pct"}


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model, by task and setting; one without a value is None, with a note.

    `scores` are as of `Reporter.reduce`; `samples` have the original sentences.
    """
    metrics: list[Metric] = []
    computed: list[Estimate] = []
    for rows in _scopes(scores):
        numbers = estimates(_MEASURES[rows.task](rows, samples))
        computed += numbers
        metrics += with_intervals(numbers)
        counts = _COUNTS[rows.task](rows, samples) if rows.task in _COUNTS else ()
        metrics += [*counts, *_counts(rows)]
    return [*metrics, *with_intervals(_gains(computed)), *_data_facts(samples)]


def _data_facts(samples: Mapping[str, Sample]) -> Iterator[Metric]:
    """Yield how many puns there are, and how many of them need context: their meanings are translated differently."""
    pairs: list[Sequence[Mapping[str, str]]] = [sample.data.get("translation") or () for sample in samples.values()]
    complete = [pair for pair in pairs if len(pair) == 2]
    ambiguous = sum(all(pair[0].get(lang) != pair[1].get(lang) for lang in pair[0]) for pair in complete)
    if samples:
        yield Metric(task="", setting="", metric="puns", value=len(samples), n=len(samples), unit="count")
    if complete:
        yield Metric(task="", setting="", metric="ambiguous", value=ambiguous / len(complete), n=len(complete))


def paired_measures(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    """Yield the headline of each task, the accuracy of pairs, and BLEU-4 of reconstructed puns."""
    for rows in _scopes(scores):
        if rows.subset or rows.task == "grounding":
            yield from _MEASURES[rows.task](rows, samples)


def _scopes(scores: pd.DataFrame) -> Iterator[ScoredRows]:
    """Yield the rows of each task and setting, whole and by language."""
    variant = scores["variant"].str
    every = ScoredRows.of(scores.assign(lang=variant.slice(0, 2), meaning=variant.slice(3)))
    for task in _MEASURES:
        for setting in ("lm", "sm", "vlm"):
            rows = every.where(task=task, setting=setting).named(task=task, setting=setting)
            languages = LANGUAGES if task != "grounding" else ()
            scopes = [rows, *(rows.where(lang=lang).named(subset=subset_name(task, lang)) for lang in languages)]
            yield from (scope.named(note=coverage_note(scope)) for scope in scopes if len(scope))


def _counts(rows: ScoredRows) -> Iterator[Metric]:
    for part in (rows, *_BY_KIND.groups(rows)):
        yield part.metric("coverage", 1 - int(part.excluded.sum()) / len(part), len(part), n_failed=0)
    yield rows.count("errors", int(rows.failed.sum()), int((~rows.missing & ~rows.excluded).sum()))
    yield rows.count("invalid", int((rows.ok & ~_translated(rows)).sum()))
    for flag in _FLAGS[rows.task]:
        yield rows.count(flag, int(rows.flagged(flag).sum()))


def _grounding(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    words = [len(samples[name].data["sentence"].split()) for name in rows["sample_id"]] if samples else [1] * len(rows)
    with_chance = rows.with_columns(chance=1 / np.asarray(words, dtype=np.float64))
    for definition in (_EXACT_MATCH, _EXACT_MATCH_STRICT, _RANDOM):
        yield from _BY_KIND.measures(definition, with_chance)


def _disambiguation(rows: ScoredRows, _samples: Mapping[str, Sample]) -> Iterator[Measure]:
    for definition in (_ACCURACY, _MARGIN, _TIE_RATE):
        yield from _BY_KIND.measures(definition, rows)
    pairs = _pairs(rows)
    for definition in (_PAIR_ACCURACY, _SAME_OUTPUT):
        yield from _BY_KIND.measures(definition, pairs)


def _pairs(rows: ScoredRows) -> ScoredRows:
    """Return one row per pun and language: correct if both meanings are, `same` if both outputs are one text."""
    first, second = aligned(rows.where(meaning="0"), rows.where(meaning="1"), "sample_id", "lang")
    right, other = first.floats("correct"), second.floats("correct")
    return first.with_columns(
        status=worst_status(first["status"], second["status"]),
        # One wrong answer decides a pair, whatever the other is.
        correct=np.where((right == 0) | (other == 0), 0.0, right * other),
        same=first.read & (first.texts("answer") == second.texts("answer")),
    )


def _disambiguation_counts(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    valid = _translated(rows)
    margins = rows.floats("margin")[valid]
    margins = margins[~np.isnan(margins)]
    has_margins = not valid.any() or bool(margins.size)
    histogram = np.bincount(np.searchsorted(MARGIN_BINS, margins, side="right"), minlength=len(MARGIN_BINS) + 1)
    for index, translations in enumerate(histogram.tolist()):
        value, note = (translations, "") if has_margins else (None, _NO_SCORER)
        yield rows.count(margin_name(index), value, int(margins.size), note=note)
    yield from agreement(rows, "correct")
    yield from translation_agreement(rows, samples)


def _reconstruction(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Measure]:
    # A verdict that failed in the judge's engine is no verdict: it is counted as failed, and in no denominator.
    status = np.where(rows.ok & (rows["verdict_state"] == "failed"), "error", rows["status"])
    judged = rows.with_columns(status=status)
    correct = replace(_CORRECT, missing="some answers were not judged") if _is_judged(rows) else _CORRECT
    yield from _BY_KIND.measures(correct, judged)
    for category, part in _by_frequency(judged, samples).items():
        yield Measure(definition=correct, parts=(part.named(category=category),), compared=False)
    yield from _BY_KIND.measures(_SENTENCE_BLEU, rows)
    if rows.subset and samples:  # a corpus of three languages is not meaningful
        references = [[str(samples[name].data["sentence"])] for name in rows["sample_id"]]
        counts = bleu_counts([answer or "" for answer in rows.texts("answer")], references)
        yield from _BY_KIND.measures(_BLEU, rows.with_columns(bleu=counts))
    scored = [name for name in ("meteor", "meteor_nowordnet") if not np.isnan(rows.floats(name)).all()]
    name = (scored or ["meteor"])[0]
    yield from _BY_KIND.measures(_metric(name=name, value=name), rows)


def _is_judged(rows: ScoredRows) -> bool:
    """Return whether a judge was asked about any of these answers."""
    return any(state in {"ok", "invalid", "failed"} for state in rows["verdict_state"][rows.ok])


def _by_frequency(rows: ScoredRows, samples: Mapping[str, Sample]) -> Mapping[str, ScoredRows]:
    """Return rows by whether the given translation is of the more frequent meaning, where the data tell."""
    frequent = [samples[name].data.get("frequent") if samples else None for name in rows["sample_id"]]
    is_ranked = np.array([meaning is not None for meaning in frequent], dtype=np.bool_)
    if not is_ranked.any():
        return {}
    is_frequent = np.array([str(meaning) for meaning in frequent]) == rows["meaning"]
    return {FREQUENT: rows.where(is_ranked & is_frequent), RARE: rows.where(is_ranked & ~is_frequent)}


def _reconstruction_counts(rows: ScoredRows, _samples: Mapping[str, Sample]) -> Iterator[Metric]:
    judged, by_rule = _is_judged(rows), rows.flagged("judged_by_rule")
    for name, chosen in (("judge_invalid", rows.has_unread_verdict), ("judged_by_rule", by_rule)):
        yield rows.count(name, int(chosen.sum()) if judged else None, note="" if judged else NO_JUDGE)
    yield from agreement(rows, "accepted")


def _gains(computed: Sequence[Estimate]) -> Iterator[Estimate]:
    """Yield the gain of a picture or its caption: the headline of `sm` and `vlm` minus that of `lm`, unrounded."""
    headlines = [number for number in computed if number.metric.metric == _HEADLINES.get(number.metric.task)]
    text_alone = {
        (number.metric.task, number.metric.subset, number.metric.category): number
        for number in headlines
        if number.metric.setting == "lm"
    }
    for number in headlines:
        metric = number.metric
        base = text_alone.get((metric.task, metric.subset, metric.category))
        if base is None or metric.setting == "lm":
            continue
        note = metric.note or base.metric.note
        if None not in (metric.value, base.metric.value) and metric.n != base.metric.n:
            note = "; ".join(filter(None, (note, f"over {metric.n:,} rows and {base.metric.n:,} of lm")))
        yield number.minus(base, metric=_GAIN, n_failed=metric.n_failed + base.metric.n_failed, note=note)


_MEASURES: Final[Mapping[str, Callable[[ScoredRows, Mapping[str, Sample]], Iterator[Measure]]]] = {
    "grounding": _grounding,
    "disambiguation": _disambiguation,
    "reconstruction": _reconstruction,
}
_COUNTS: Final[Mapping[str, Callable[[ScoredRows, Mapping[str, Sample]], Iterator[Metric]]]] = {
    "disambiguation": _disambiguation_counts,
    "reconstruction": _reconstruction_counts,
}


BERTSCORE: Final = "BERTScore"
GPTEVAL: Final = "GPTEval"
VERDICT_METRICS: Final = ("BLEU", "METEOR", "Rouge-L", BERTSCORE, GPTEVAL)
"""Metrics in the order of Table 8: right is a translation closer to the wanted one; GPTEval is the judge."""
_SIMILARITIES: Final = {"BLEU": sentence_bleu, "METEOR": meteor_by_words, "Rouge-L": rouge_l}


def translation_agreement(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    """Yield the agreement of each metric's verdicts on labelled translations, the metric's name as category."""
    labelled = rows.where(rows.ok & rows.read & _is_verdict(rows.floats("human")))
    if not len(labelled):
        return
    texts, meanings = list(labelled["answer"]), [int(meaning) for meaning in labelled["meaning"]]
    targets = [
        [str(translation[lang]) for translation in samples[name].data["translation"]]
        for name, lang in zip(labelled["sample_id"], labelled["lang"], strict=True)
    ]
    verdicts: dict[str, Any] = {BERTSCORE: labelled.floats("correct"), GPTEVAL: labelled.floats("gpteval")}
    for name, similarity in _SIMILARITIES.items():
        to_each = [similarity(texts, [[pair[index]] for pair in targets]) for index in range(2)]
        verdicts[name] = [float(verdict(*pair)) for pair in zip(*to_each, meanings, strict=True)]
    for name in VERDICT_METRICS:
        yield from agreement(labelled.named(category=name).with_columns(verdict=np.asarray(verdicts[name])), "verdict")


def agreement(rows: ScoredRows, column: str) -> Iterator[Metric]:
    """Yield the agreement of `column` with `human` over the answers with both; nothing without human labels."""
    verdicts, labels = rows.floats(column), rows.floats("human")
    rated = rows.ok & _is_verdict(verdicts) & _is_verdict(labels)
    if not rated.any():
        return
    ours, human = verdicts[rated] == 1.0, labels[rated] == 1.0
    hits, predicted, actual = int((ours & human).sum()), int(ours.sum()), int(human.sum())
    correlation = phi(ours.tolist(), human.tolist())
    values = {
        "precision": hits / predicted if predicted else None,
        "recall": hits / actual if actual else None,
        "f1": 2 * hits / (predicted + actual) if predicted + actual else None,
        "accuracy": float((ours == human).mean()),
        "phi": correlation,
        "pearson": correlation,
    }
    for name, value in values.items():
        unit = "" if name in ("phi", "pearson") else "fraction"
        note = "" if value is not None else "undefined: one side has one verdict only"
        yield rows.metric(f"agreement_{name}", value, len(ours), n_failed=0, unit=unit, note=note)


def _is_verdict(values: FloatArray) -> Bools:
    return np.isin(values, [0.0, 1.0])
