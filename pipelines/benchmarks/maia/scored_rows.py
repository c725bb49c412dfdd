"""MAIA's scores as arrays: eight pairs and one open answer per question, for one model in one setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.aggregation import SharedDraws
from pipelines.benchmarks.maia.categories import COLUMNS, POOL_SIZE
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]

_TEXTS = ("sample_id", "task", "setting", "variant", "category", "cluster", "status", "rule", "verdict_state")
_FLOATS = ("correct", "ts_at_a", "accepted", "rouge", "meteor", "bertscore")


def prepare(scores: pd.DataFrame) -> pd.DataFrame:
    """Complete the scores with every column that MAIA may have, and sort them by question and pair.

    Absent texts are '' and absent floats NaN; `column` is the index of the category in `COLUMNS`, `video` numbers the
    clusters in the order of their names. A category that is none of the twelve columns raises ValueError.
    """
    import pandas as pd

    frame = scores.reindex(columns=[*_TEXTS, *_FLOATS, "answer", "flags"])
    for name in _TEXTS:
        frame[name] = frame[name].astype(object).where(frame[name].notna(), "")
    for name in _FLOATS:
        frame[name] = frame[name].astype(np.float64)
    unknown = sorted(set(frame["category"]) - set(COLUMNS))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no category column of MAIA; there are {', '.join(COLUMNS)}")
    frame["column"] = frame["category"].map({name: index for index, name in enumerate(COLUMNS)}).astype(np.intp)
    frame["video"] = pd.factorize(frame["cluster"], sort=True)[0].astype(np.intp)
    return frame.sort_values(["sample_id", "variant"], kind="stable", ignore_index=True)


def not_run_note(requests: int) -> str:
    """Return the note that so many planned requests have no result; '' for none."""
    return f"{requests:,} request{'s were' if requests > 1 else ' was'} never run" if requests else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionGrid:
    """One task in one setting: Q questions with `width` rows each, 8 of `vsv` or 1 of `oevqa`.

    A question with an excluded row is skipped as a whole, so that a pool always holds eight pairs.
    """

    rows: pd.DataFrame  # Q * width rows, sorted by question and pair
    width: int
    ids: NDArray[Any]  # (Q,), sorted sample ids
    column: IntArray  # (Q,), indices in `COLUMNS`
    video: IntArray  # (Q,), the clusters of the bootstrap
    ok: BoolArray  # (Q, width): the model answered
    failed: BoolArray  # (Q, width): the request ended in an error
    missing: BoolArray  # (Q, width): the request was never run
    excluded_ids: frozenset[str]  # questions with an excluded row

    @classmethod
    def from_rows(cls, rows: pd.DataFrame, width: int) -> QuestionGrid:
        """Arrange the rows of one task in one setting, as `prepare` returns them."""
        excluded_ids = frozenset(rows.loc[rows["status"] == "excluded", "sample_id"])
        if excluded_ids:
            rows = rows[~rows["sample_id"].isin(excluded_ids)]
        ids, counts = np.unique(rows["sample_id"].to_numpy(dtype=object), return_counts=True)
        assert (counts == width).all(), f"{ids[counts != width][0]} has not {width} rows in this setting"
        variants = [str(index) for index in range(width)] if width > 1 else [""]
        assert (rows["variant"].to_numpy() == np.tile(variants, len(ids))).all(), "a pair of a pool occurs twice"
        status = rows["status"].to_numpy(dtype=object).reshape(-1, width)
        return cls(
            rows=rows,
            width=width,
            ids=ids,
            column=rows["column"].to_numpy()[::width],
            video=rows["video"].to_numpy()[::width],
            ok=status == "ok",
            failed=status == "error",
            missing=status == "missing",
            excluded_ids=excluded_ids,
        )

    def floats(self, name: str) -> FloatArray:
        """Return a float column, (Q, width)."""
        return self.rows[name].to_numpy(dtype=np.float64).reshape(-1, self.width)

    def texts(self, name: str) -> NDArray[Any]:
        """Return a text column, (Q, width)."""
        return self.rows[name].to_numpy(dtype=object).reshape(-1, self.width)

    @property
    def is_planned(self) -> bool:
        """Whether this task is part of the sweep in this setting."""
        return bool(len(self.ids) or self.excluded_ids)

    @property
    def missing_requests(self) -> int:
        """Number of planned requests without a result."""
        return int(self.missing.sum())

    @property
    def unreadable(self) -> BoolArray:
        """Rows from which no answer could be read, (Q, width)."""
        return self.rows["answer"].isna().to_numpy().reshape(-1, self.width)

    @property
    def correct(self) -> BoolArray:
        """Pairs whose true statement was chosen, (Q, width); of `vsv`."""
        is_true: BoolArray = self.floats("correct") == 1
        return is_true & self.ok

    @property
    def has_error(self) -> BoolArray:
        """Questions with a request that ended in an error, (Q,)."""
        return np.asarray(self.failed.any(axis=1), dtype=np.bool_)

    @property
    def pool_correct(self) -> FloatArray:
        """1 where all pairs of a question are correct, (Q,); of `vsv`."""
        return np.asarray(self.correct.all(axis=1), dtype=np.float64)

    @property
    def accepted(self) -> FloatArray:
        """1 where the judge accepts, 0 where not or where the request failed, NaN without a verdict, (Q,); `oevqa`."""
        return np.where(self.failed[:, 0], 0.0, self.floats("accepted")[:, 0])

    def count_flag(self, flag: str) -> int:
        """Return the number of answers with a flag."""
        flags = self.rows.loc[self.ok.ravel(), "flags"]
        return sum(flag in row_flags for row_flags in flags if not isinstance(row_flags, float | None))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingScores:
    """Both tasks in one setting; a task that is not part of the sweep has no rows."""

    setting: str
    vsv: QuestionGrid
    oevqa: QuestionGrid
    draws: SharedDraws  # of all settings

    @classmethod
    def from_rows(cls, rows: pd.DataFrame, setting: str, draws: SharedDraws) -> SettingScores:
        """Split the rows of one setting, as `prepare` returns them, by task."""
        vsv, oevqa = (
            QuestionGrid.from_rows(rows[rows["task"] == task], width)
            for task, width in (("vsv", POOL_SIZE), ("oevqa", 1))
        )
        return cls(setting=setting, vsv=vsv, oevqa=oevqa, draws=draws)

    @property
    def incomplete(self) -> str:
        """The reason why metrics over questions have no value; '' where every request of both tasks has a result."""
        return not_run_note(self.vsv.missing_requests + self.oevqa.missing_requests)
