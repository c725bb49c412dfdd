"""Generated scenes, each a function of the seed, its number of objects and its number among scenes of that count."""

from dataclasses import dataclass

from pipelines.benchmarks.mate.generator.appearance import ObjectSet, draw_objects
from pipelines.benchmarks.mate.generator.camera import Camera, Point, camera_for
from pipelines.benchmarks.mate.generator.parameters import Plan, stream
from pipelines.benchmarks.mate.generator.placement import place_objects, solid
from pipelines.benchmarks.mate.generator.solids import Solid
from pipelines.benchmarks.mate.scene import TEXTUAL, Scene, SceneObject, unique_values
from pipelines.errors import UsageError

_RESTARTS = 100  # attempts at one scene; at ten objects two are enough on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A scene before anything is asked about it."""

    count: int  # objects
    turn: int  # its number among the scenes of that count, from 0
    object_set: ObjectSet  # the objects, and the values that point
    positions: tuple[Point, ...]  # their centres, in the same order
    camera: Camera

    @property
    def scene(self) -> Scene:
        """Return the scene as data."""
        objects = [
            SceneObject(
                name=f"Object_{number}",
                shape=appearance.shape,
                size=appearance.size,
                material=appearance.material,
                coords=position,
                rotation=appearance.rotation,
                color=appearance.color,
            )
            for number, (appearance, position) in enumerate(
                zip(self.object_set.appearances, self.positions, strict=True)
            )
        ]
        return Scene(self.camera.location, tuple(objects))

    @property
    def solids(self) -> list[Solid]:
        """Return the scene as solids to draw."""
        return [
            solid(appearance, position)
            for appearance, position in zip(self.object_set.appearances, self.positions, strict=True)
        ]


def make_layout(plan: Plan, index: int) -> Layout:
    """Make the scene at one position of a data set, in any order; UsageError where the objects have no room."""
    return draw_layout(plan, *plan.scene_at(index))


def draw_layout(plan: Plan, count: int, turn: int) -> Layout:
    """Draw a scene by its number of objects and its number among those; UsageError where the objects have no room."""
    options = plan.options
    rng = stream(plan.seed, count, turn)
    camera = camera_for(count, options.width, options.height)
    for _ in range(_RESTARTS):
        object_set = draw_objects(rng, count, options)
        positions = place_objects(rng, object_set.appearances, camera, options)
        if positions is not None:
            layout = Layout(count=count, turn=turn, object_set=object_set, positions=tuple(positions), camera=camera)
            if all(len(unique_values(layout.scene, key)) == count for key in TEXTUAL if key != "size"):
                return layout
    raise UsageError(
        f"min_visible_px, min_visible_share: no scene of {count} objects in {_RESTARTS} attempts shows"
        f" {options.min_visible_px} pixels and {options.min_visible_share:.0%} of each; lower them or ask for"
        " fewer objects"
    )
