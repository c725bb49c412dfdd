"""MAIA's scores as arrays: eight pairs and one answer a question, side by side for one model in one setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.maia.answers import COLUMNS
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.intp]

POOL: Final = 8
"""Statement pairs of a question, and human answers to it."""

_TEXTS = ("sample_id", "task", "setting", "variant", "category", "cluster", "status", "rule", "verdict_state")
_FLOATS = ("correct", "ts_at_a", "accepted", "rouge", "meteor", "bertscore")


def prepare(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores with every column that MAIA may have, sorted by question and pair, and with numbers for names.

    Args:
        scores: as `Benchmark.reduce` gets them; a column that no row has may be absent.

    Returns:
        Columns as there, texts '' and floats NaN where absent; `column` is the place of the category in `COLUMNS`,
        `video` numbers the clusters in the order of their names.

    Raises:
        ValueError: a category is none of the twelve columns.
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
    frame["column"] = frame["category"].map({name: place for place, name in enumerate(COLUMNS)}).astype(np.intp)
    frame["video"] = pd.factorize(frame["cluster"], sort=True)[0].astype(np.intp)
    return frame.sort_values(["sample_id", "variant"], kind="stable", ignore_index=True)


def not_run(requests: int) -> str:
    """Says that requests of the plan have no result; '' for none."""
    return f"{requests:,} request{'s were' if requests > 1 else ' was'} never run" if requests else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionGrid:
    """One task in one setting: Q questions with `width` rows each, 8 of `vsv` or 1 of `oevqa`.

    A question with an excluded row is left out as a whole, so that a pool is always of eight pairs.
    """

    rows: pd.DataFrame
    """Q * width rows, sorted by question and pair."""
    width: int
    ids: NDArray[Any]
    """(Q,), sorted."""
    column: Numbers
    """(Q,), places in `COLUMNS`."""
    video: Numbers
    """(Q,)."""
    ok: Bools
    """(Q, width): the model answered."""
    failed: Bools
    """(Q, width): the request ended in an error."""
    missing: Bools
    """(Q, width): the request was never run."""
    left_out: frozenset[str]
    """Questions with an excluded row."""

    @classmethod
    def of(cls, rows: pd.DataFrame, width: int) -> QuestionGrid:
        """Lay out the rows of one task in one setting, as `prepare` gives them."""
        left_out = frozenset(rows.loc[rows["status"] == "excluded", "sample_id"])
        if left_out:
            rows = rows[~rows["sample_id"].isin(left_out)]
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
            left_out=left_out,
        )

    def floats(self, name: str) -> FloatArray:
        """A float column, (Q, width)."""
        return self.rows[name].to_numpy(dtype=np.float64).reshape(-1, self.width)

    def texts(self, name: str) -> NDArray[Any]:
        """A text column, (Q, width)."""
        return self.rows[name].to_numpy(dtype=object).reshape(-1, self.width)

    @property
    def asked(self) -> bool:
        """Whether this task is part of the sweep in this setting."""
        return bool(len(self.ids) or self.left_out)

    @property
    def never_run(self) -> int:
        """Requests of the plan without a result."""
        return int(self.missing.sum())

    @property
    def unread(self) -> Bools:
        """Rows from which no answer could be read, (Q, width)."""
        return self.rows["answer"].isna().to_numpy().reshape(-1, self.width)

    @property
    def right(self) -> Bools:
        """Pairs whose true statement was chosen, (Q, width); of `vsv`."""
        chosen: Bools = self.floats("correct") == 1
        return chosen & self.ok

    @property
    def hit(self) -> Bools:
        """Questions with a request that ended in an error, (Q,)."""
        return np.asarray(self.failed.any(axis=1), dtype=np.bool_)

    @property
    def pools(self) -> FloatArray:
        """1 where all pairs of a question are right, (Q,); of `vsv`."""
        return np.asarray(self.right.all(axis=1), dtype=np.float64)

    @property
    def accepted(self) -> FloatArray:
        """1 where the judge accepts, 0 where not or without an answer, NaN without a verdict, (Q,); of `oevqa`."""
        return np.where(self.failed[:, 0], 0.0, self.floats("accepted")[:, 0])

    def flagged(self, flag: str) -> int:
        """How many answers carry a flag."""
        flags = self.rows.loc[self.ok.ravel(), "flags"]
        return sum(flag in found for found in flags if not isinstance(found, float | None))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingScores:
    """Both tasks in one setting; a task that is not part of the sweep has no rows."""

    setting: str
    vsv: QuestionGrid
    oevqa: QuestionGrid

    @classmethod
    def of(cls, rows: pd.DataFrame, setting: str) -> SettingScores:
        """Part the rows of one setting, as `prepare` gives them, by task."""
        vsv, oevqa = (
            QuestionGrid.of(rows[rows["task"] == task], width) for task, width in (("vsv", POOL), ("oevqa", 1))
        )
        return cls(setting=setting, vsv=vsv, oevqa=oevqa)

    @property
    def incomplete(self) -> str:
        """Why metrics over questions must not be given; '' where every request of both tasks has a result."""
        return not_run(self.vsv.never_run + self.oevqa.never_run)
