"""Generated scenes, each a function of the seed, its number of objects and its number among scenes of that count."""

from dataclasses import dataclass

from pipelines.benchmarks.mate.generator.camera import Camera, Point, camera_for
from pipelines.benchmarks.mate.generator.looks import Cast, draw_cast
from pipelines.benchmarks.mate.generator.parameters import Plan, stream
from pipelines.benchmarks.mate.generator.placement import place, solid
from pipelines.benchmarks.mate.generator.solids import Solid
from pipelines.benchmarks.mate.scene import TEXTUAL, Scene, SceneObject, unique_values
from pipelines.errors import UsageError

_RESTARTS = 100  # attempts at one scene; at ten objects two are enough on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A scene before anything is asked about it."""

    count: int  # objects
    turn: int  # its number among the scenes of that count, from 0
    cast: Cast  # the objects, and the values that point
    spots: tuple[Point, ...]  # their centres, in the same order
    camera: Camera

    @property
    def scene(self) -> Scene:
        """Return the scene as data."""
        objects = [
            SceneObject(
                name=f"Object_{number}",
                shape=look.shape,
                size=look.size,
                material=look.material,
                coords=spot,
                rotation=look.rotation,
                color=look.color,
            )
            for number, (look, spot) in enumerate(zip(self.cast.looks, self.spots, strict=True))
        ]
        return Scene(self.camera.location, tuple(objects))

    @property
    def solids(self) -> list[Solid]:
        """Return the scene as solids to draw."""
        return [solid(look, spot) for look, spot in zip(self.cast.looks, self.spots, strict=True)]


def make_layout(plan: Plan, index: int) -> Layout:
    """Make the scene at one position of a data set, in any order; UsageError where the objects have no room."""
    count, turn = plan.scene_at(index)
    options = plan.options
    rng = stream(plan.seed, count, turn)
    camera = camera_for(count, options.width, options.height)
    for _ in range(_RESTARTS):
        cast = draw_cast(rng, count, options)
        spots = place(rng, cast.looks, camera, options)
        if spots is not None:
            layout = Layout(count=count, turn=turn, cast=cast, spots=tuple(spots), camera=camera)
            if all(len(unique_values(layout.scene, key)) == count for key in TEXTUAL if key != "size"):
                return layout
    raise UsageError(
        f"min_visible_px, min_visible_share: no scene of {count} objects in {_RESTARTS} attempts shows"
        f" {options.min_visible_px} pixels and {options.min_visible_share:.0%} of each; lower them or ask for"
        " fewer objects"
    )
