"""The clips of the demo: three short drawn scenes, the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from PIL import Image

from tests.tools.demo_data import scene_ball, scene_cart, scene_kitchen
from tests.tools.demo_data.drawing import HEIGHT, WIDTH

__all__ = ["CLIPS", "FPS", "Clip", "write_clip"]

FPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A drawn scene."""

    number: int
    """Names the file, `1.mp4`."""
    seconds: float
    draw: Callable[[float], Image.Image]
    """From a moment in seconds to a picture."""

    @property
    def frames(self) -> int:
        """Number of frames."""
        return round(self.seconds * FPS)

    def pictures(self) -> Iterator[Image.Image]:
        """Return all pictures in order, RGB, 320 x 240."""
        return (self.draw(index / FPS) for index in range(self.frames))


CLIPS = (
    Clip(number=1, seconds=scene_ball.SECONDS, draw=scene_ball.draw_ball),
    Clip(number=2, seconds=scene_cart.SECONDS, draw=scene_cart.draw_cart),
    Clip(number=3, seconds=scene_kitchen.SECONDS, draw=scene_kitchen.draw_kitchen),
)


def write_clip(clip: Clip, path: Path) -> None:
    """Encode a clip as H.264 in mp4, without sound.

    One version of the encoder shall always write the same bytes: hence one thread, no marks of the writing library, and
    no B frames, with which libx264 (core 165) was seen to write 39 to 39.3 kB for the same pictures, by chance.
    """
    import av

    with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact", "movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, FPS)
        stream.options = {"crf": "23", "preset": "veryslow", "tune": "animation", "threads": "1", "bf": "0"}
        stream.codec_context.thread_count = 1
        for index, picture in enumerate(clip.pictures()):
            frame = av.VideoFrame.from_image(picture)
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
