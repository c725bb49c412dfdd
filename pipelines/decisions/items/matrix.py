"""Answers of many models to the same items, from one output or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.records import RIGHT, is_person, split_variant
from pipelines.plan.run_manifest import load_existing_runs
from pipelines.report.scored_pair import ScoreRows
from pipelines.storage.backend import short_labels
from pipelines.storage.store import Store

Item: TypeAlias = tuple[str, str]  # sample and variant

BLIND: Final = ("no-image", "lm", "black-video", "black-1-frame", "unimodal")  # their models see no medium


@dataclass(frozen=True, slots=True, eq=False)
class AnswerMatrix:
    """Answers of models to the items of one task in one setting."""

    benchmark: str
    task: str
    setting: str
    models: tuple[str, ...]
    items: tuple[Item, ...]
    right: NDArray[np.float64]  # (models, items): 1, 0, or NaN where there is no score
    answers: NDArray[Any]  # (models, items) texts as read; None where there is none

    @property
    def is_blind(self) -> bool:
        """Whether the models did not see the medium."""
        return self.setting in BLIND

    def rows_of(self, items: Sequence[Item]) -> NDArray[np.float64]:
        """Return the columns of these items, (models, items); NaN for one that is not here."""
        places = {item: place for place, item in enumerate(self.items)}
        indices = np.array([places.get(item, -1) for item in items])
        return np.where(indices >= 0, self.right[:, indices], np.nan)


def read_matrices(uris: Sequence[str], benchmarks: Sequence[str] = ()) -> list[AnswerMatrix]:
    """Read the matrices of outputs by benchmark, task and setting; a model of several outputs has each one's label."""
    columns: dict[tuple[str, str, str], dict[str, dict[Item, tuple[float, str | None]]]] = {}
    uris = list(dict.fromkeys(uris))
    outs = [Store(uri) for uri in uris]
    for out, run, label in zip(outs, load_existing_runs(outs), short_labels(uris), strict=True):
        for entry in run.entries:
            if is_person(entry.model) or (benchmarks and entry.benchmark not in benchmarks):
                continue
            name = entry.model if len(uris) == 1 else f"{entry.model} ({label})"
            rows = ScoreRows.read(out, entry)
            values = _right(rows)
            keys = zip(*(rows.texts[key].tolist() for key in ("task", "setting", "sample_id", "variant")), strict=True)
            for (task, setting, sample, variant), value, answer in zip(keys, values, rows.texts["answer"], strict=True):
                if split_variant(variant)[1]:
                    continue
                cell = columns.setdefault((entry.benchmark, task, setting), {}).setdefault(name, {})
                cell[sample, variant] = (float(value), answer)
    return [_matrix(*key, by_model) for key, by_model in sorted(columns.items())]


def _right(rows: ScoreRows) -> NDArray[np.float64]:
    right = np.full(len(rows.texts["task"]), np.nan)
    for name in RIGHT:
        if name in rows.values:
            right = np.where(np.isnan(right), rows.values[name], right)
    return np.where(np.isin(right, (0.0, 1.0)), right, np.nan)


def _matrix(
    name: str, task: str, setting: str, by_model: dict[str, dict[Item, tuple[float, str | None]]]
) -> AnswerMatrix:
    by_model = {model: cells for model, cells in by_model.items() if not all(math.isnan(r) for r, _ in cells.values())}
    items = sorted({item for cells in by_model.values() for item, (right, _) in cells.items() if not math.isnan(right)})
    right = np.full((len(by_model), len(items)), np.nan)
    answers = np.full((len(by_model), len(items)), None, dtype=object)
    for row, cells in enumerate(by_model.values()):
        for column, item in enumerate(items):
            if item in cells:
                right[row, column], answers[row, column] = cells[item]
    return AnswerMatrix(name, task, setting, tuple(by_model), tuple(items), right, answers)
