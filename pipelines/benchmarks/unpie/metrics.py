"""UNPIE's metrics: from the scored rows of one model to the numbers of the paper, and to ours.

The paper's (Chung et al., EMNLP 2024, arXiv 2410.01023), for homographic and heterographic puns and the mean of both:

- `exact_match` of the pun's phrase; `accuracy` of translations, right when closer to the meaning that the picture
  shows; `correct_pct`, the share of puns that the judge finds written again; `bleu4`, `meteor`; `delta_vs_lm`.

Failed requests are told beside a metric and are in no denominator; neither are those that could not be asked, whose
share is what `coverage` lacks to one. What was never run is left out and noted. Intervals resample puns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.unpie.aggregate import KINDS, Bools, MetricSpec, Place, kinds_in, mean_of_kinds
from pipelines.benchmarks.unpie.agreement import agreement
from pipelines.benchmarks.unpie.column_map import LANGUAGES
from pipelines.benchmarks.unpie.deltas import deltas

if TYPE_CHECKING:
    import pandas as pd

FREQUENT: Final = "Freq↑"
RARE: Final = "Freq↓"
"""Categories of reconstruction by how common the meaning of the given translation is."""
MARGIN_BINS: Final = tuple(round(-0.1 + 0.02 * i, 2) for i in range(11))
"""Edges of the histogram of margins; beyond both ends lies one more bin."""
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
)
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "grounding": ("extra_text", "truncated"),
    "disambiguation": ("untranslated", "wrong_script", "refusal", "truncated"),
    "reconstruction": ("untranslated", "wrong_script", "refusal", "truncated"),
}


def subset_name(task: str, lang: str) -> str:
    """A language pair as the tables name it."""
    name = lang.capitalize()
    return f"En-{name}" if task == "disambiguation" else f"{name}-En"


def margin_name(place: int) -> str:
    """Name of the count of margins in a bin: 0 is below the first of `MARGIN_BINS`."""
    return f"margin_bin_{place:02d}"


def reduce_unpie(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
    """All metrics of one model.

    Args:
        scores: see `Benchmark.reduce`; a column that no row has may be absent.
        samples: by id, for the original sentences.

    Returns:
        Metrics by task and setting; what cannot be given is None, and its note says why.
    """
    frame = _prepared(scores)
    made: list[Metric] = []
    cells: dict[tuple[str, str], pd.DataFrame] = {}
    tasks: Mapping[str, Callable[[_Rows, Mapping[str, Sample]], Iterator[Metric]]] = {
        "grounding": _grounding,
        "disambiguation": _disambiguation,
        "reconstruction": _reconstruction,
    }
    for task, measure in tasks.items():
        for setting in ("lm", "sm", "vlm"):
            cell = frame[(frame["task"] == task) & (frame["setting"] == setting)]
            if cell.empty:
                continue
            cells[task, setting] = cell
            for subset, rows in _subsets(task, cell):
                one = _Rows(Place(task, setting, subset), rows)
                made += [*measure(one, samples), *one.coverage(), *one.counts()]
    return made + list(deltas(made, cells))


def _prepared(scores: pd.DataFrame) -> pd.DataFrame:
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
    """The whole, then each language that occurs."""
    yield "", cell
    if task != "grounding":
        for lang in LANGUAGES:
            rows = cell[cell["lang"] == lang]
            if not rows.empty:
                yield subset_name(task, lang), rows


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one place."""

    place: Place
    frame: pd.DataFrame

    @property
    def ok(self) -> Bools:
        """Answered."""
        return self._is("ok")

    def _is(self, status: str) -> Bools:
        return np.asarray(self.frame["status"] == status, dtype=np.bool_)

    def measure(self, name: str, column: str, **how: Any) -> Iterator[Metric]:
        """The mean of a column over the rows that were answered; `how` as for `MetricSpec`."""
        usual = {"counted": self.ok, "failed": self._is("error"), "note": self.gaps(), "empty": self.nothing()}
        return MetricSpec(
            place=self.place,
            metric=name,
            values=self.frame[column].to_numpy(dtype=np.float64),
            kind=self.frame["category"].to_numpy(),
            cluster=self.frame["cluster"].to_numpy(),
            **{**usual, **how},
        ).metrics()

    def gaps(self) -> str:
        """What to say of requests that were never run."""
        missing = int(self._is("missing").sum())
        return f"{missing:,} request{'s were' if missing > 1 else ' was'} never run" if missing else ""

    def nothing(self) -> str:
        """Why there is no answer at all."""
        excluded = int(self._is("excluded").sum())
        if not excluded:
            return self.gaps() or "no request was answered"
        lacking = (
            "a caption (no captioner, or none for the picture)" if self.place.setting == "sm" else "a picture or text"
        )
        return f"{excluded:,} requests lack {lacking}"

    def coverage(self) -> Iterator[Metric]:
        """Which share could be asked."""
        excluded = self._is("excluded")
        for category in ("", *kinds_in(self.frame["category"].to_numpy())):
            here = (
                np.asarray(self.frame["category"] == category) if category else np.ones(len(excluded), dtype=np.bool_)
            )
            rows = int(here.sum())
            yield self.place.metric("coverage", 1 - int((here & excluded).sum()) / rows, rows, category=category)

    def counts(self) -> Iterator[Metric]:
        """Errors, and answers that are odd."""
        answered = self.frame[self.ok]
        n, failed = len(answered), int(self._is("error").sum())
        yield self.count("errors", failed, int((~self._is("missing") & ~self._is("excluded")).sum()))
        yield self.count("invalid", int(answered["answer"].isna().sum()), n)
        for flag in _FLAGS[self.place.task]:
            yield self.count(flag, self.flagged(flag), n)

    def flagged(self, flag: str) -> int:
        """Answers with a flag."""
        return sum(flag in flags for flags in self.frame.loc[self.ok, "flags"] if flags is not None)

    def count(self, name: str, value: int | None, n: int, note: str = "") -> Metric:
        """A count over the place."""
        return self.place.metric(name, value, n, unit="count", n_failed=int(self._is("error").sum()), note=note)


def _grounding(rows: _Rows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    yield from rows.measure("exact_match", "correct")
    yield from rows.measure("exact_match_strict", "strict")
    words = [len(samples[name].data["sentence"].split()) for name in rows.frame["sample_id"]]
    guessed = rows.frame.assign(correct=1 / np.asarray(words, dtype=np.float64))
    for metric in _Rows(rows.place, guessed).measure("random_exact_match", "correct"):
        yield replace(metric, n_failed=0, ci_low=None, ci_high=None)


# --------------------------------------------------------------------------------------------- disambiguation


def _disambiguation(rows: _Rows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    del samples
    why = "no scorer model"
    yield from rows.measure("accuracy", "correct", why=why)
    valid = rows.ok & rows.frame["answer"].notna().to_numpy()
    yield from rows.measure("margin", "margin", why=why, counted=valid, unit="")
    yield from rows.measure("tie_rate", "tie", why=why, counted=valid)
    pairs = _Rows(rows.place, _pairs(rows.frame))
    yield from pairs.measure("pair_accuracy", "correct", why=why)
    yield from pairs.measure("same_output_rate", "same")
    margins = rows.frame.loc[valid, "margin"].dropna().to_numpy(dtype=np.float64)
    known = not valid.any() or bool(margins.size)
    filled = np.bincount(np.searchsorted(MARGIN_BINS, margins, side="right"), minlength=len(MARGIN_BINS) + 1)
    for place, found in enumerate(filled.tolist()):
        yield rows.count(margin_name(place), found if known else None, int(margins.size), "" if known else why)
    yield from agreement(rows.place, rows.frame[rows.ok], "correct")


def _pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a pun and language: right when both meanings are; `same` when both outputs are one text."""
    names = ["sample_id", "lang"]
    first, second = (frame[frame["meaning"] == meaning] for meaning in "01")
    both = first.merge(second, on=names, suffixes=("", "_1"))
    status = np.where((both["status"] == "ok") & (both["status_1"] == "ok"), "ok", "excluded")
    for worse in ("missing", "error"):
        status = np.where((both["status"] == worse) | (both["status_1"] == worse), worse, status)
    # One wrong answer settles a pair, whatever is known of the other.
    correct = np.where((both["correct"] == 0) | (both["correct_1"] == 0), 0.0, both["correct"] * both["correct_1"])
    said = both["answer"].notna() & (both["answer"] == both["answer_1"])
    return both.assign(status=status, correct=correct, same=said.astype("float64"))


# --------------------------------------------------------------------------------------------- reconstruction


def _reconstruction(rows: _Rows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    states = rows.frame["verdict_state"].to_numpy()
    judged = bool(np.isin(states[rows.ok], ["ok", "invalid", "failed"]).any())
    # A verdict that the judge's engine failed to give is no verdict: told, and in no denominator.
    counted = rows.ok & (states != "failed")
    how = {
        "counted": counted,
        "failed": np.asarray(rows.frame["status"] == "error") | (rows.ok & ~counted),
        "why": "some answers were not judged" if judged else "no judge",
    }
    yield from rows.measure("correct_pct", "accepted", **how)
    yield from _by_frequency(rows, samples, how)
    note = "" if judged else "no judge"
    answered = int(rows.ok.sum())
    invalid = int((states[rows.ok] == "invalid").sum())
    yield rows.count("judge_invalid", invalid if judged else None, answered, note)
    yield rows.count("judged_by_rule", rows.flagged("judged_by_rule") if judged else None, answered, note)
    yield from rows.measure("bleu4_sentence", "bleu4_sentence")
    yield from _bleu(rows, samples)
    with_wordnet = not rows.frame["meteor"].isna().all()
    name = "meteor" if with_wordnet or rows.frame["meteor_nowordnet"].isna().all() else "meteor_nowordnet"
    yield from rows.measure(name, name)
    yield from agreement(rows.place, rows.frame[rows.ok], "accepted")


def _by_frequency(rows: _Rows, samples: Mapping[str, Sample], how: Mapping[str, Any]) -> Iterator[Metric]:
    """Correct by whether the translation given is that of the more common meaning, where the data tell."""
    frequent = [samples[name].data.get("frequent") for name in rows.frame["sample_id"]]
    known = np.array([place is not None for place in frequent], dtype=np.bool_)
    if not known.any():
        return
    common = np.array([str(place) for place in frequent]) == rows.frame["meaning"].to_numpy()
    for category, here in ((FREQUENT, known & common), (RARE, known & ~common)):
        part = _Rows(rows.place, rows.frame[here])
        own = {**how, "counted": how["counted"][here], "failed": how["failed"][here]}
        yield replace(next(part.measure("correct_pct", "accepted", **own)), category=category)


def _bleu(rows: _Rows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    """Corpus BLEU-4, pooled, of each kind, and the mean of both; outputs that could not be read are empty."""
    from pipelines.metrics.text import corpus_bleu

    def over(category: str) -> Metric:
        here = rows.frame if not category else rows.frame[rows.frame["category"] == category]
        answered = here[here["status"] == "ok"]
        said = ["" if not isinstance(text, str) else text for text in answered["answer"]]
        originals = [[str(samples[name].data["sentence"])] for name in answered["sample_id"]]
        return rows.place.metric(
            "bleu4",
            corpus_bleu(said, originals) if said else None,
            len(said),
            n_failed=int((here["status"] == "error").sum()),
            category=category,
            note=rows.gaps() if said else rows.nothing(),
        )

    if not rows.place.subset:
        return  # a corpus of three languages is nobody's number
    yield over("")
    parts = [over(kind) for kind in kinds_in(rows.frame["category"].to_numpy())]
    yield from parts
    if len(parts) == len(KINDS):
        yield mean_of_kinds(parts)
