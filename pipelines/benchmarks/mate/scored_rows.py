"""Join MATE's scored rows with the facts of their scenes: object count, pointer, target, links, chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from pipelines.benchmarks.mate.error_analysis import chance
from pipelines.benchmarks.mate.linking import link_category, linking
from pipelines.benchmarks.mate.rows import CROSSMODAL, question_of
from pipelines.benchmarks.mate.scene import Scene, parse_scene
from pipelines.benchmarks.records import Sample
from pipelines.metrics.stats import FloatArray

if TYPE_CHECKING:
    import pandas as pd

COORDS_ONLY: Final = "3D coords only"
HEADS: Final[Mapping[str, str]] = {
    "color": "Color",
    "shape": "Shape",
    "name": "Name",
    "3d_coords": "Coords",
    "rotation": "Rotation",
    "size": "Size",
}
"""Attributes as the paper's tables name them."""
LINK_TYPES: Final = (
    COORDS_ONLY,
    "Shape",
    "Material",
    "Color",
    "Size",
    "Shape+Material",
    "Shape+Size",
    "Material+Color",
    "Material+Size",
    "Color+Size",
    "Shape+Material+Size",
    "Material+Color+Size",
)
"""Rows of the table by linking type; shape and color never meet, for one of them is always hidden."""
_VALUES: Final = (
    "correct",
    "format_ok",
    "lenient",
    "in_scene",
    "overlap",
    "closer",
    "closer_depth",
    "closer_horizontal",
    "closer_alone",
)


def facts_of(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> pd.DataFrame:
    """Return scored rows joined with the facts of their scenes; each scene is parsed once."""
    import pandas as pd

    keys = scores[["sample_id", "task", "setting"]].itertuples(index=False, name=None)
    facts_by_key: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name in dict.fromkeys(scores["sample_id"]):
        facts_by_key |= _facts(samples[name])
    facts = pd.DataFrame([facts_by_key[key] for key in keys], index=scores.index)
    columns = {name: scores.get(name, np.nan) for name in _VALUES}
    same = scores[["sample_id", "task", "setting", "status", "flags"]]
    return pd.concat([same.assign(**columns), facts], axis=1)


def _facts(sample: Sample) -> dict[tuple[str, str, str], dict[str, Any]]:
    scene = parse_scene(sample.data["scene"])
    return {(sample.sample_id, row["task"], row["setting"]): _row_facts(scene, row) for row in sample.data["rows"]}


def _row_facts(scene: Scene, row: Mapping[str, Any]) -> dict[str, Any]:
    question = question_of(row)
    crossmodal = question.task in CROSSMODAL
    link = linking(scene, question.object_index(scene), question.hidden)
    return {
        "kind": "crossmodal" if crossmodal else "unimodal",
        "count": len(scene.objects),
        "pointer": question.pointer_attribute,
        "target": question.target_attribute,
        "shows": row["shot_shows_target"],
        "k": link.k if crossmodal else -1,
        "link": link_category(link) if crossmodal else None,
        "chance": chance(scene, question.target_attribute, row["gold"]),
    }


@dataclass(frozen=True, slots=True)
class Scored:
    """A value of some rows, 0 or 1, and the indices of these rows."""

    values: FloatArray
    rows: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: NDArray[np.bool_]) -> Scored:
        """Return the chosen rows."""
        return Scored(self.values[chosen], self.rows[chosen])

    def same(self, value: float) -> Scored:
        """Return whether each row has this value."""
        return Scored((self.values == value).astype(np.float64), self.rows)

    @property
    def total(self) -> int:
        """Number of rows whose value is 1."""
        return int(self.values.sum())


class ScoredRows:
    """A selection of the scored rows: columns as arrays, and the indices of the selected rows."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], rows: NDArray[np.intp]) -> None:
        self._columns, self._rows = columns, rows

    @classmethod
    def of(cls, frame: pd.DataFrame) -> ScoredRows:
        """Select all rows of a frame."""
        return cls({str(name): frame[name].to_numpy() for name in frame}, np.arange(len(frame)))

    def __len__(self) -> int:
        return len(self._rows)

    def where(self, **values: Any) -> ScoredRows:
        """Select the rows whose columns have these values."""
        rows = self._rows
        for name, value in values.items():
            rows = rows[(self._columns[name][rows] == value).astype(np.bool_)]
        return ScoredRows(self._columns, rows)

    def all(self, column: str) -> FloatArray:
        """Return a column over all rows, (rows,)."""
        return self._columns[column][self._rows].astype(np.float64)

    def scored(self, column: str, failed_as: float | None = None) -> Scored:
        """Return a score of the answered rows; with `failed_as`, failed ones follow with that score."""
        values: FloatArray = self._columns[column][self._answers].astype(np.float64)
        if failed_as is None:
            return Scored(values, self._answers)
        failed = self._rows[self._columns["status"][self._rows] == "error"]
        rows = np.concatenate([self._answers, failed])
        return Scored(np.concatenate([values, np.full(len(failed), failed_as)]), rows)

    @property
    def scenes(self) -> NDArray[np.str_]:
        """Scene of every row of the sweep, whichever rows these are."""
        return self._columns["sample_id"].astype(np.str_)

    @cached_property
    def _answers(self) -> NDArray[np.intp]:
        chosen: NDArray[np.intp] = self._rows[self._columns["status"][self._rows] == "ok"]
        return chosen

    @cached_property
    def failed(self) -> int:
        """Number of rows that ended in an error."""
        return int((self._columns["status"][self._rows] == "error").sum())

    @property
    def truncated(self) -> int:
        """Number of answers cut at the token limit."""
        flags = self._columns["flags"][self._answers]
        return sum("truncated" in row_flags for row_flags in flags if row_flags is not None)

    def counts(self) -> list[int]:
        """Return the numbers of objects of the scenes, ascending."""
        return sorted({int(count) for count in self._columns["count"][self._rows]})

    def links(self) -> list[str]:
        """Return the linking types that occur, in the order of the table."""
        occurring = set(self._columns["link"][self._rows])
        return [name for name in LINK_TYPES if name in occurring]

    def answered(self) -> dict[tuple[str, str, int], float]:
        """Return (sample, task, object count) -> 1 where right, else 0."""
        names, tasks, counts, right = (
            self._columns[name][self._answers] for name in ("sample_id", "task", "count", "correct")
        )
        return {
            (str(name), str(task), int(count)): float(correct)
            for name, task, count, correct in zip(names, tasks, counts, right, strict=True)
        }
