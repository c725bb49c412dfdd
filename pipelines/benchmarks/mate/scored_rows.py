"""Join MATE's scored rows with the facts of their scenes: object count, pointer, target, links, chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipelines.benchmarks.mate.error_analysis import chance
from pipelines.benchmarks.mate.linking import link_category, linking
from pipelines.benchmarks.mate.rows import CROSSMODAL, question_of
from pipelines.benchmarks.mate.scene import Scene, parse_scene
from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.records import Sample

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


def rows_with_facts(scores: pd.DataFrame, samples: Mapping[str, Sample]) -> ScoredRows:
    """Return scored rows with the facts of their scenes; each scene is parsed once."""
    import pandas as pd

    keys = scores[["sample_id", "task", "setting"]].itertuples(index=False, name=None)
    facts: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name in dict.fromkeys(scores["sample_id"]):
        sample = samples[name]
        scene = parse_scene(sample.data["scene"])
        facts |= {(name, row["task"], row["setting"]): _row_facts(scene, row) for row in sample.data["rows"]}
    of_rows = pd.DataFrame([facts[key] for key in keys], index=scores.index)
    return ScoredRows.of(scores.assign(**of_rows))


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
