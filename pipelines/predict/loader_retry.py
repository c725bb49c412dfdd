"""From which a worker builds the loader of a sweep's units."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.media.frame_cache import FrameSource
from pipelines.plan.requests import Asker
from pipelines.predict.loader import Loader


@dataclass(frozen=True, kw_only=True)
class UnitLoaderSpec:
    """Light and hashable, so that a worker process keeps one loader for all units of a run."""

    data: str
    out: str
    askers: tuple[str, ...]
    """JSON of each benchmark's `Asker`."""
    max_pixels: int | None = None
    max_frames: int | None = None

    def build(self, frames: FrameSource | None = None) -> Loader:
        """The loader, with a decoder of its own; what others have decoded comes from `frames`."""
        return Loader(
            data=self.data,
            out=self.out,
            askers=[Asker.from_json(text) for text in self.askers],
            max_pixels=self.max_pixels,
            max_frames=self.max_frames,
            frames=frames,
        )
