"""Small clips of numbered frames in the containers, codecs and cuts with which decoders go wrong."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from tests.support.maia_source import HEIGHT, WIDTH, frame_of, index_of

FRAMES = 60
_CORNER = 8


@dataclass(frozen=True)
class Clip:
    """One clip: how it is encoded, then how its packets are cut or turned."""

    name: str
    codec: str = "libx264"
    options: Mapping[str, str] = field(default_factory=dict)
    pixel_format: str = "yuv420p"
    rate: Fraction = Fraction(10)
    skipped: int = 0
    """Frames before an edit list's start: in the file, and not part of the clip."""
    rotation: int = 0
    gap: int = 0
    """Frame after which a pause of a second follows."""
    audio_cover: bool = False
    """A picture attached to a file without video."""
    still: bool = False
    """Frames differ in a corner alone, as those of a still camera."""

    def picture(self, index: int) -> np.ndarray:
        """Return a frame."""
        if not self.still:
            return frame_of(index)
        picture = np.full((HEIGHT, WIDTH, 3), 110, np.uint8)
        picture[: HEIGHT // _CORNER, : WIDTH // _CORNER] = frame_of(index)[::_CORNER, ::_CORNER]
        return picture

    def index_of(self, picture: np.ndarray) -> int:
        """Read the number of a frame."""
        return index_of(picture[: HEIGHT // _CORNER, : WIDTH // _CORNER] if self.still else picture)

    def expected(self) -> list[int]:
        """Return the numbers of the clip's frames, as a player shows them."""
        return list(range(self.skipped, FRAMES))


_X264 = {"crf": "8", "bf": "2", "g": "12"}
_X264_WAYS = {
    "plain": {},
    "no-b": {"bf": "0"},
    "one-gop": {"g": "250"},
    "intra": {"g": "1"},
    "open-gop": {"x264-params": "open-gop=1:keyint=12:min-keyint=12:scenecut=0"},
    "intra-refresh": {"x264-params": "intra-refresh=1:keyint=12"},
    "pyramid": {"bf": "4", "x264-params": "b-pyramid=normal"},
}
_X265 = "keyint=12:min-keyint=12:log-level=none:crf=8"
_MPEG = {"g": "12", "bf": "2", "qmin": "1", "qmax": "2", "b": "4M"}
CLIPS = (
    *(Clip(f"h264-{name}.mp4", options={**_X264, **options}) for name, options in _X264_WAYS.items()),
    *(Clip(f"h264-cut-{count}.mp4", options=_X264, skipped=count) for count in (1, 5, 7, 13, 30)),
    Clip("h264-still-open-gop.mp4", options={**_X264, "crf": "1", **_X264_WAYS["open-gop"]}, still=True),
    *(Clip(f"h264-turned-{angle}.mp4", options=_X264, rotation=angle) for angle in (90, 180, 270)),
    *(Clip(f"h264.{ending}", options=_X264) for ending in ("mkv", "mov", "avi", "ts", "flv")),
    Clip("h264-gap.mp4", options=_X264, gap=20),
    Clip("h264-ntsc.mp4", options=_X264, rate=Fraction(30000, 1001)),
    Clip("h264-444.mp4", options=_X264, pixel_format="yuv444p"),
    Clip("hevc-open-gop.mp4", codec="libx265", options={"x265-params": f"open-gop=1:{_X265}"}),
    Clip("hevc-closed-gop.mkv", codec="libx265", options={"x265-params": f"open-gop=0:{_X265}"}),
    Clip("hevc-cut.mp4", codec="libx265", options={"x265-params": _X265}, skipped=5),
    *(Clip(f"mpeg4.{ending}", codec="mpeg4", options=_MPEG) for ending in ("mp4", "avi")),
    Clip("mpeg2.ts", codec="mpeg2video", options=_MPEG, rate=Fraction(25)),
    Clip("vp9.webm", codec="libvpx-vp9", options={"crf": "10", "b": "0", "g": "12", "cpu-used": "8"}),
    Clip("vp8.webm", codec="libvpx", options={"crf": "6", "b": "2M", "g": "12"}),
    Clip("mjpeg.avi", codec="mjpeg", options={"qscale": "2"}, pixel_format="yuvj420p"),
    Clip("audio.mp4", audio_cover=True),
)


def write(clip: Clip, folder: Path) -> Path:
    """Write a clip into a folder."""
    path = folder / clip.name
    if clip.audio_cover:
        _write_audio_with_cover(path)
        return path
    with av.open(str(path), "w") as container:
        stream = container.add_stream(clip.codec, rate=clip.rate)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, clip.pixel_format
        stream.options = dict(clip.options)
        base = Fraction(1) / clip.rate
        stream.codec_context.time_base = base

        def mux(packets: list[Any]) -> None:
            for packet in packets:
                packet.pts -= round(clip.skipped * base / packet.time_base)
                packet.dts -= round(clip.skipped * base / packet.time_base)
                container.mux(packet)

        for index in range(FRAMES):
            frame = av.VideoFrame.from_ndarray(clip.picture(index), format="rgb24")
            frame.pts, frame.time_base = index + (round(clip.rate) if clip.gap and index > clip.gap else 0), base
            mux(stream.encode(frame))
        mux(stream.encode())
    if clip.rotation:
        set_matrix(path, {90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}[clip.rotation])
    return path


def set_matrix(path: Path, matrix: tuple[int, int, int, int]) -> None:
    """Write the matrix of the track, as a telephone that is held upright or a camera at its front does."""
    content = bytearray(path.read_bytes())
    a, b, c, d = (value << 16 for value in matrix)
    start = content.index(b"tkhd") + 44
    content[start : start + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(content)


def _write_audio_with_cover(path: Path) -> None:
    cover = path.with_suffix(".png")
    Image.fromarray(np.full((HEIGHT, WIDTH, 3), 90, np.uint8)).save(cover)
    with av.open(str(path), "w") as container, av.open(str(cover)) as source:
        sound = container.add_stream("aac", rate=8000)
        picture = container.add_stream_from_template(source.streams.video[0])
        picture.disposition = av.stream.Disposition.attached_pic
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = picture
                packet.pts = packet.dts = 0
                container.mux(packet)
        for start in range(0, 8000, 1024):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 8000, start
            container.mux(sound.encode(frame))
        container.mux(sound.encode())
    cover.unlink()
