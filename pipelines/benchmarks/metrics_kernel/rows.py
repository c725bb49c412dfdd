"""One model's scored rows as columns, with the labels of the metrics that are computed over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Metric
from pipelines.metrics.intervals import FRACTION, FloatArray, Term, interval
from pipelines.metrics.ngrams import COLUMNS, bleu_counts

if TYPE_CHECKING:
    import pandas as pd

Bools: TypeAlias = NDArray[np.bool_]

NO_JUDGE: Final = "no judge: give one with --judge"
_WORST_FIRST: Final = ("error", "missing", "excluded")


def not_run_note(requests: int) -> str:
    """Return the note that so many planned requests have no result; '' for none."""
    return f"{requests:,} request{'s were' if requests > 1 else ' was'} never run" if requests else ""


def coverage_note(rows: ScoredRows) -> str:
    """Return the note of the requests of these rows that were never run."""
    return not_run_note(int(rows.missing.sum()))


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """A selection of one model's scored rows as columns, and what metrics over it are called."""

    columns: Mapping[str, NDArray[Any]]  # over all rows, (rows,) or (rows, K)
    index: NDArray[np.intp]  # of the selected rows
    task: str = ""
    setting: str = ""
    subset: str = ""
    category: str = ""
    note: str = ""  # how to read every number of these rows
    blocked: str = ""  # why no metric of these rows has a value

    @classmethod
    def of(cls, scores: pd.DataFrame, **labels: str) -> ScoredRows:
        """Select all rows of `Reporter.reduce`'s scores; rows without a cluster are clusters of their sample."""
        columns = {str(name): scores[name].to_numpy() for name in scores}
        clusters = np.where(scores["cluster"].to_numpy() != "", scores["cluster"], scores["sample_id"])
        columns["cluster"] = clusters.astype(np.str_)
        return cls(columns, np.arange(len(scores)), **labels)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column as it is; None in every row where there is none of the name."""
        return self.columns[name][self.index] if name in self.columns else np.full(len(self), None, dtype=object)

    def where(self, chosen: Bools | None = None, **values: Any) -> ScoredRows:
        """Select rows by a mask, and those whose columns have these values."""
        keep = np.ones(len(self), dtype=np.bool_) if chosen is None else chosen
        for name, value in values.items():
            keep = keep & (self[name] == value)
        return self.at(np.flatnonzero(keep))

    def at(self, places: NDArray[np.intp]) -> ScoredRows:
        """Select rows by their places in this selection."""
        return replace(self, index=self.index[places])

    def named(self, **labels: str) -> ScoredRows:
        """Return the same rows under other labels."""
        return replace(self, **labels)  # type: ignore[arg-type] # labels are texts

    def with_columns(self, **columns: NDArray[Any]) -> ScoredRows:
        """Return the rows with further columns, or other ones of the same name, over the selected rows."""
        selected = {name: column[self.index] for name, column in self.columns.items()}
        return replace(self, columns={**selected, **columns}, index=np.arange(len(self)))

    def floats(self, name: str) -> FloatArray:
        """Return a column of numbers; NaN where a row has none."""
        return self[name].astype(np.float64) if name in self.columns else np.full(len(self), np.nan)

    def texts(self, name: str) -> NDArray[Any]:
        """Return a column of texts; None where a row has none."""
        texts = np.empty(len(self), dtype=object)
        texts[:] = [text if isinstance(text, str) else None for text in self[name]]
        return texts

    def flagged(self, flag: str) -> Bools:
        """Return which answers have a flag."""
        has_flag = [isinstance(flags, list | tuple | np.ndarray) and flag in flags for flags in self["flags"]]
        return np.array(has_flag, dtype=np.bool_) & self.ok

    @property
    def read(self) -> Bools:
        """Rows whose answer could be read."""
        return np.array([text is not None for text in self.texts("answer")], dtype=np.bool_)

    def _has_status(self, status: str) -> Bools:
        return np.asarray(self["status"] == status, dtype=np.bool_)

    @cached_property
    def ok(self) -> Bools:
        """Rows with an answer."""
        return self._has_status("ok")

    @cached_property
    def failed(self) -> Bools:
        """Rows whose request ended in an error."""
        return self._has_status("error")

    @cached_property
    def missing(self) -> Bools:
        """Rows whose request was never run."""
        return self._has_status("missing")

    @cached_property
    def excluded(self) -> Bools:
        """Rows that could not be asked."""
        return self._has_status("excluded")

    @property
    def is_judged(self) -> Bools:
        """Rows whose answer a judge was asked about, and replied."""
        return np.isin(self["verdict_state"].astype(str), ("ok", "invalid"))

    @property
    def has_unread_verdict(self) -> Bools:
        """Rows with an answer about which the judge said nothing that could be read."""
        return self.ok & np.asarray(self["verdict_state"] == "invalid", dtype=np.bool_)

    def metric(self, name: str, value: float | None, n: int | None = None, **fields: Any) -> Metric:
        """Return a metric of these rows; `n` is by default the number of answers."""
        labels = {label: getattr(self, label) for label in ("task", "setting", "subset", "category")}
        counts = {"n": int(self.ok.sum()) if n is None else n, "n_failed": int(self.failed.sum())}
        return Metric(**{"metric": name, "value": value, **labels, **counts, **fields})

    def count(self, name: str, value: int | None, n: int | None = None, **fields: Any) -> Metric:
        """Return a count as a metric."""
        return self.metric(name, value, n, unit="count", **fields)

    def count_of(self, name: str, chosen: Bools, **fields: Any) -> Metric:
        """Return how many answered rows are chosen, with n times the interval of their share."""
        columns = np.stack([chosen, np.ones(len(self))], axis=1).astype(np.float64)[self.ok]
        n = len(columns)
        if n and (ends := interval([Term(columns, self["cluster"][self.ok])], FRACTION)):
            fields |= {"ci_low": n * ends.low, "ci_high": n * ends.high, "ci_df": ends.freedom or None}
        return self.count(name, int(columns[:, 0].sum()) if n else None, n, **fields)


def unjudged_note(rows: ScoredRows) -> str:
    """Return why answers have no verdict of a judge."""
    failed = int((rows["verdict_state"] == "failed").sum())
    return f"{failed:,} verdict{'s' if failed > 1 else ''} failed" if failed else NO_JUDGE


def answers_bleu_counts(
    rows: ScoredRows, chosen: Bools, references: Sequence[Sequence[str]], **form: bool
) -> FloatArray:
    """Return BLEU's counts of the chosen answers, each with its references, as columns; zeros in the other rows."""
    counts = np.zeros((len(rows), COLUMNS))
    counts[chosen] = bleu_counts([answer or "" for answer in rows.texts("answer")[chosen]], references, **form)
    return counts


def worst_status(*statuses: NDArray[Any]) -> NDArray[Any]:
    """Return the status of items that are made of several rows each: `ok` only where all of them are."""
    worst = np.full(len(statuses[0]), "ok", dtype=object)
    for status in reversed(_WORST_FIRST):
        worst[np.any([rows == status for rows in statuses], axis=0)] = status
    return worst


def aligned(a: ScoredRows, b: ScoredRows, *keys: str) -> tuple[ScoredRows, ScoredRows]:
    """Return the rows of A and B with the same keys, such as sample and variant, in the same order."""
    names, others = (
        np.array(["\x1f".join(key) for key in zip(*(rows[key] for key in keys), strict=True)]) for rows in (a, b)
    )
    _, left, right = np.intersect1d(names, others, return_indices=True)
    return a.at(left), b.at(right)
