"""The scored rows of one V-FLUTE setting as arrays, and which of them are right at a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import Sample
from pipelines.benchmarks.vflute.explanation_score import ROBUST
from pipelines.benchmarks.vflute.facts import LABELS
from pipelines.metrics.f1 import THRESHOLDS
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The answers that count as right at a threshold."""

    right: Bools
    labelled: Bools
    unknown: Bools
    """The label is right and the explanation is not scored. Any such row leaves F1@k undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRows:
    """The counted rows of one setting, (rows,) each: those that were answered and those that failed."""

    setting: str
    never_run: int
    """Planned rows of the whole setting that were never run; they are not counted."""
    ids: NDArray[Any]
    subset: NDArray[Any]
    category: NDArray[Any]
    cluster: NDArray[Any]
    entailment: Bools
    """Gold."""
    failed: Bools
    truncated: Bools
    label: FloatArray
    """1, 0, NaN for none."""
    label_robust: FloatArray
    es: FloatArray
    """Explanation score; NaN where it is unknown, 1 where explanations are not scored."""
    es_robust: FloatArray
    empty: FloatArray
    """1 where there is no explanation; NaN for failed rows."""

    @classmethod
    def of(cls, frame: pd.DataFrame, setting: str, samples: Mapping[str, Sample]) -> SettingRows:
        """Select the rows of one setting; a column without values may be absent."""
        planned = frame[frame["setting"] == setting]
        counted = planned[planned["status"].isin(["ok", "error"])]
        ids = counted["sample_id"].to_numpy(dtype=object)
        failed = (counted["status"] == "error").to_numpy(dtype=np.bool_)

        def floats(name: str) -> FloatArray:
            column = counted[name].to_numpy(dtype=np.float64) if name in counted else np.full(len(counted), np.nan)
            # A value in a failed row does not come from the model.
            return np.where(failed, np.nan, column)

        label_only = setting == "label-only"
        return cls(
            setting=setting,
            never_run=int((planned["status"] == "missing").sum()),
            ids=ids,
            subset=counted["subset"].to_numpy(dtype=object),
            category=counted["category"].to_numpy(dtype=object),
            cluster=counted["cluster"].to_numpy(dtype=object).astype(str),
            entailment=np.array([LABELS[samples[name].data["label"]] == 1 for name in ids], dtype=np.bool_),
            failed=failed,
            truncated=np.array(["truncated" in _as_list(flags) for flags in counted["flags"]], dtype=np.bool_),
            label=floats("label"),
            label_robust=floats(f"label{ROBUST}"),
            es=np.ones(len(counted)) if label_only else floats("es"),
            es_robust=np.ones(len(counted)) if label_only else floats(f"es{ROBUST}"),
            empty=floats("empty"),
        )

    def of_rows(self, rows: Bools | NDArray[np.intp]) -> SettingRows:
        """Select rows by mask or by index."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        selected = {name: column[rows] for name, column in columns.items() if isinstance(column, np.ndarray)}
        return SettingRows(setting=self.setting, never_run=self.never_run, **selected)

    def labelled_right(self, *, robust: bool = False) -> Bools:
        """Return which labels equal gold."""
        label = self.label_robust if robust else self.label
        return np.asarray(label == self.entailment, dtype=np.bool_)

    def right_at(self, k: int, *, robust: bool = False) -> Right:
        """Return which labels are right with an explanation that scores above k hundredths."""
        score = self.es_robust if robust else self.es
        labelled = self.labelled_right(robust=robust)
        return Right(right=labelled & (score > THRESHOLDS[k]), labelled=labelled, unknown=labelled & np.isnan(score))


def _as_list(flags: Any) -> list[str]:
    return list(flags) if isinstance(flags, list | tuple | np.ndarray) else []
