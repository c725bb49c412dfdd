"""Compute UNPIE's metrics from the scored rows of one model.

The paper's (Chung et al., EMNLP 2024, arXiv 2410.01023), for homographic and heterographic puns and the mean of both:

- `exact_match` of the pun's phrase; `accuracy` of translations, right when closer to the meaning that the picture
  shows; `correct_pct`, the share of puns that the judge finds reconstructed; `bleu4`, `meteor`; `delta_vs_lm`.

Failed and excluded requests are in no denominator: failed ones are counted in `n_failed`, the share of the others is
`coverage`. Requests that were never run are skipped and noted. Intervals resample puns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.unpie.aggregate import BoolArray, MeanMetric, MetricScope, kinds_in
from pipelines.benchmarks.unpie.column_map import LANGUAGES
from pipelines.benchmarks.unpie.deltas import deltas
from pipelines.benchmarks.unpie.people.agreement import agreement, translation_agreement
from pipelines.benchmarks.unpie.reconstruction_bleu import bleu_metrics, sentence_counts

if TYPE_CHECKING:
    import pandas as pd

FREQUENT: Final = "Freq↑"
RARE: Final = "Freq↓"  # categories of reconstruction by how common the meaning of the given translation is
MARGIN_BINS: Final = tuple(round(-0.1 + 0.02 * i, 2) for i in range(11))  # edges; one more bin beyond each end
_FLOATS: Final = (
    "correct",
    "strict",
    "accepted",
    "tie",
    "margin",
    "bleu4_sentence",
    "meteor",
    "meteor_nowordnet",
    "human",
    "gpteval",
)
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "grounding": ("extra_text", "truncated"),
    "disambiguation": ("untranslated", "wrong_script", "refusal", "truncated"),
    "reconstruction": ("untranslated", "wrong_script", "refusal", "truncated"),
}


def subset_name(task: str, lang: str) -> str:
    """Return the tables' name of a language pair."""
    name = lang.capitalize()
    return f"En-{name}" if task == "disambiguation" else f"{name}-En"


def margin_name(index: int) -> str:
    """Return the metric that counts the margins of a bin: 0 is below the first of `MARGIN_BINS`."""
    return f"margin_bin_{index:02d}"


def reduce_scores(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """Compute all metrics of one model, by task and setting; one without a value is None, with a note.

    `scores` are as of `Reporter.reduce`; `samples` have the original sentences.
    """
    frame = _prepare(scores)
    metrics: list[Metric] = []
    cells: dict[tuple[str, str], pd.DataFrame] = {}
    tasks: Mapping[str, Callable[[_ScopeRows, Mapping[str, Sample]], Iterator[Metric]]] = {
        "grounding": _grounding,
        "disambiguation": _disambiguation,
        "reconstruction": _reconstruction,
    }
    for task, task_metrics in tasks.items():
        for setting in ("lm", "sm", "vlm"):
            cell = frame[(frame["task"] == task) & (frame["setting"] == setting)]
            if cell.empty:
                continue
            cells[task, setting] = cell
            for subset, frame_rows in _subsets(task, cell):
                rows = _ScopeRows(MetricScope(task, setting, subset), frame_rows)
                metrics += [*task_metrics(rows, samples), *rows.coverage(), *rows.counts()]
    return metrics + list(deltas(metrics, cells))


def _prepare(scores: pd.DataFrame) -> pd.DataFrame:
    frame = scores.reset_index(drop=True).copy()
    for name in _FLOATS:
        frame[name] = frame[name].astype("float64") if name in frame else np.nan
    for name in ("answer", "flags", "verdict_state"):
        if name not in frame:
            frame[name] = None
    frame["lang"] = frame["variant"].str.slice(0, 2)
    frame["meaning"] = frame["variant"].str.slice(3)
    return frame


def _subsets(task: str, cell: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "", cell
    if task != "grounding":
        for lang in LANGUAGES:
            rows = cell[cell["lang"] == lang]
            if not rows.empty:
                yield subset_name(task, lang), rows


@dataclass(frozen=True, slots=True)
class _ScopeRows:
    scope: MetricScope
    frame: pd.DataFrame

    @property
    def ok(self) -> BoolArray:
        return self._has_status("ok")

    def _has_status(self, status: str) -> BoolArray:
        return np.asarray(self.frame["status"].to_numpy(dtype=object) == status, dtype=np.bool_)

    def mean(self, name: str, column: str, **fields: Any) -> Iterator[Metric]:
        """Yield the mean of a column over the answered rows; `fields` are those of `MeanMetric`."""
        defaults = {
            "counted": self.ok,
            "failed": self._has_status("error"),
            "note": self.not_run_note(),
            "empty_reason": self.empty_reason(),
        }
        return MeanMetric(
            scope=self.scope,
            metric=name,
            values=self.frame[column].to_numpy(dtype=np.float64),
            kind=self.frame["category"].to_numpy(),
            cluster=self.frame["cluster"].to_numpy(),
            **{**defaults, **fields},
        ).metrics()

    def not_run_note(self) -> str:
        missing = int(self._has_status("missing").sum())
        return f"{missing:,} request{'s were' if missing > 1 else ' was'} never run" if missing else ""

    def empty_reason(self) -> str:
        excluded = int(self._has_status("excluded").sum())
        if not excluded:
            return self.not_run_note() or "no request was answered"
        missing = (
            "a caption (no captioner, or none for the picture)" if self.scope.setting == "sm" else "a picture or text"
        )
        return f"{excluded:,} requests lack {missing}"

    def coverage(self) -> Iterator[Metric]:
        excluded = self._has_status("excluded")
        for category in ("", *kinds_in(self.frame["category"].to_numpy())):
            in_category = (
                np.asarray(self.frame["category"] == category) if category else np.ones(len(excluded), dtype=np.bool_)
            )
            rows = int(in_category.sum())
            yield self.scope.metric("coverage", 1 - int((in_category & excluded).sum()) / rows, rows, category=category)

    def counts(self) -> Iterator[Metric]:
        answered = self.frame[self.ok]
        n, failed = len(answered), int(self._has_status("error").sum())
        yield self.count("errors", failed, int((~self._has_status("missing") & ~self._has_status("excluded")).sum()))
        yield self.count("invalid", int(answered["answer"].isna().sum()), n)
        for flag in _FLAGS[self.scope.task]:
            yield self.count(flag, self.count_flag(flag), n)

    def count_flag(self, flag: str) -> int:
        return sum(flag in flags for flags in self.frame.loc[self.ok, "flags"] if flags is not None)

    def count(self, name: str, value: int | None, n: int, note: str = "") -> Metric:
        return self.scope.metric(name, value, n, unit="count", n_failed=int(self._has_status("error").sum()), note=note)


def _grounding(rows: _ScopeRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    yield from rows.mean("exact_match", "correct")
    yield from rows.mean("exact_match_strict", "strict")
    word_counts = [len(samples[name].data["sentence"].split()) for name in rows.frame["sample_id"]]
    random_rows = rows.frame.assign(correct=1 / np.asarray(word_counts, dtype=np.float64))
    for metric in _ScopeRows(rows.scope, random_rows).mean("random_exact_match", "correct"):
        yield replace(metric, n_failed=0, ci_low=None, ci_high=None)


# --------------------------------------------------------------------------------------------- disambiguation


def _disambiguation(rows: _ScopeRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    no_scorer = "no scorer model"
    yield from rows.mean("accuracy", "correct", missing_reason=no_scorer)
    valid = rows.ok & rows.frame["answer"].notna().to_numpy()
    yield from rows.mean("margin", "margin", missing_reason=no_scorer, counted=valid, unit="")
    yield from rows.mean("tie_rate", "tie", missing_reason=no_scorer, counted=valid)
    pairs = _ScopeRows(rows.scope, _pairs(rows.frame))
    yield from pairs.mean("pair_accuracy", "correct", missing_reason=no_scorer)
    yield from pairs.mean("same_output_rate", "same")
    margins = rows.frame.loc[valid, "margin"].dropna().to_numpy(dtype=np.float64)
    has_margins = not valid.any() or bool(margins.size)
    histogram = np.bincount(np.searchsorted(MARGIN_BINS, margins, side="right"), minlength=len(MARGIN_BINS) + 1)
    for index, translations in enumerate(histogram.tolist()):
        value, note = (translations, "") if has_margins else (None, no_scorer)
        yield rows.count(margin_name(index), value, int(margins.size), note)
    yield from agreement(rows.scope, rows.frame[rows.ok], "correct")
    yield from translation_agreement(rows.scope, rows.frame[rows.ok], samples)


def _pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pun and language: correct if both meanings are, `same` if both outputs are one text."""
    names = ["sample_id", "lang"]
    first, second = (frame[frame["meaning"] == meaning] for meaning in "01")
    merged = first.merge(second, on=names, suffixes=("", "_1"))
    status = np.where((merged["status"] == "ok") & (merged["status_1"] == "ok"), "ok", "excluded")
    for worse in ("missing", "error"):
        status = np.where((merged["status"] == worse) | (merged["status_1"] == worse), worse, status)
    # One wrong answer decides a pair, whatever the other is.
    correct = np.where(
        (merged["correct"] == 0) | (merged["correct_1"] == 0), 0.0, merged["correct"] * merged["correct_1"]
    )
    same = merged["answer"].notna() & (merged["answer"] == merged["answer_1"])
    return merged.assign(status=status, correct=correct, same=same.astype("float64"))


# --------------------------------------------------------------------------------------------- reconstruction


def _reconstruction(rows: _ScopeRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    states = rows.frame["verdict_state"].to_numpy()
    judged = bool(np.isin(states[rows.ok], ["ok", "invalid", "failed"]).any())
    # A verdict that failed in the judge's engine is no verdict: it is counted as failed, and in no denominator.
    counted = rows.ok & (states != "failed")
    judged_fields = {
        "counted": counted,
        "failed": np.asarray(rows.frame["status"] == "error") | (rows.ok & ~counted),
        "missing_reason": "some answers were not judged" if judged else "no judge",
    }
    yield from rows.mean("correct_pct", "accepted", **judged_fields)
    yield from _by_frequency(rows, samples, judged_fields)
    note = "" if judged else "no judge"
    answered = int(rows.ok.sum())
    invalid = int((states[rows.ok] == "invalid").sum())
    yield rows.count("judge_invalid", invalid if judged else None, answered, note)
    yield rows.count("judged_by_rule", rows.count_flag("judged_by_rule") if judged else None, answered, note)
    yield from rows.mean("bleu4_sentence", "bleu4_sentence")
    yield from _bleu(rows, samples)
    with_wordnet = not rows.frame["meteor"].isna().all()
    name = "meteor" if with_wordnet or rows.frame["meteor_nowordnet"].isna().all() else "meteor_nowordnet"
    yield from rows.mean(name, name)
    yield from agreement(rows.scope, rows.frame[rows.ok], "accepted")


def _by_frequency(rows: _ScopeRows, samples: Mapping[str, Sample], fields: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield Correct % by whether the given translation is of the more frequent meaning, where the data tell."""
    frequent = [samples[name].data.get("frequent") for name in rows.frame["sample_id"]]
    is_ranked = np.array([meaning is not None for meaning in frequent], dtype=np.bool_)
    if not is_ranked.any():
        return
    is_frequent = np.array([str(meaning) for meaning in frequent]) == rows.frame["meaning"].to_numpy()
    for category, chosen in ((FREQUENT, is_ranked & is_frequent), (RARE, is_ranked & ~is_frequent)):
        part = _ScopeRows(rows.scope, rows.frame[chosen])
        part_fields = {**fields, "counted": fields["counted"][chosen], "failed": fields["failed"][chosen]}
        yield replace(next(part.mean("correct_pct", "accepted", **part_fields)), category=category)


def _bleu(rows: _ScopeRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    if not rows.scope.subset:
        return  # a corpus of three languages is not meaningful
    answered = rows.frame[rows.ok]
    yield from bleu_metrics(
        rows.scope,
        rows.frame["category"].to_numpy(),
        sentence_counts(list(answered["answer"]), list(answered["sample_id"]), samples),
        {
            "answered": rows.ok,
            "failed": np.asarray(rows.frame["status"] == "error"),
            "cluster": rows.frame["cluster"].to_numpy(),
        },
        (rows.not_run_note(), rows.empty_reason()),
    )
