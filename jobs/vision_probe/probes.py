"""Drawn pictures and clips, each with a number in it, and what is asked of them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from models.media_sampling import shrunk_size, uniform_indices
from models.messages import Call, Frames, Generation, Media, user
from models.spec import ModelSpec

SIDES = (256, 512, 1024, 2048)
"""Pixels of a side of the square pictures with small print."""
SMALL_PRINT = 16
"""Pixels of the height of its digits' font, at which nothing is left of them in a picture of half the side."""
SIDE, LARGE_PRINT = 448, 160
"""Of pictures and frames that show nothing but their number."""
PICTURES, FRAMES = 8, 32
_ONE = "Which number is written in this picture? Answer with its digits alone."
_EACH = (
    "A number of three digits is written in each {thing}. Write down all numbers in the order in which you see them, "
    "separated by commas, and nothing else."
)
_TOKENS_OF_A_NUMBER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question about drawn pictures or a clip."""

    name: str
    codes: tuple[str, ...]
    """The numbers, in the order of the pictures or frames."""
    call: Call
    media: Mapping[Media, Frames] = field(repr=False)


def picture_probe(name: str, side: int, print_size: int) -> Probe:
    """Return the question about one picture."""
    (code,) = _codes(name, 1)
    return _probe(name, [code], {Media("image", _source(name)): _frames([_drawn(code, side, print_size)])}, _ONE)


def pictures_probe() -> Probe:
    """Return the question about several pictures of one message."""
    codes = _codes("pictures", PICTURES)
    media = {Media("image", _source(f"pictures {code}")): _frames([_drawn(code, SIDE, LARGE_PRINT)]) for code in codes}
    return _probe("pictures", codes, media, _EACH.format(thing="picture"))


def clip_probe() -> Probe:
    """Return the question about a clip."""
    codes = _codes("frames", FRAMES)
    frames = _frames([_drawn(code, SIDE, LARGE_PRINT) for code in codes])
    return _probe("frames", codes, {Media("video", _source("frames"), FRAMES): frames}, _EACH.format(thing="frame"))


def within_limits(media: Mapping[Media, Frames], spec: ModelSpec) -> dict[Media, Frames]:
    """Return media as a run decodes them for an entry: within its `max_pixels` and `max_frames`."""
    from PIL import Image

    limited = {}
    for medium, frames in media.items():
        count, height, width = frames.pixels.shape[:3]
        size = shrunk_size(width, height, spec.limits.max_pixels)
        indices = uniform_indices(count, spec.limits.max_frames)
        pixels = frames.pixels[indices]
        if size != (width, height):
            pictures = (Image.fromarray(each).resize(size, Image.Resampling.BICUBIC) for each in pixels)
            pixels = np.stack([np.asarray(picture) for picture in pictures])
        limited[medium] = _frames(pixels)
    return limited


def _probe(name: str, codes: Sequence[str], media: Mapping[Media, Frames], question: str) -> Probe:
    generation = Generation(max_new_tokens=_TOKENS_OF_A_NUMBER * (len(codes) + 1))
    call = Call(call_id=f"{name}/0", turns=(user(*media, question),), generation=generation)
    return Probe(name=name, codes=tuple(codes), call=call, media=media)


def _codes(name: str, count: int) -> list[str]:
    """Return different numbers of three digits, drawn by a name."""
    codes: dict[str, None] = {}
    for number in range(20 * count):
        digest = hashlib.sha256(f"{name}|{number}".encode()).digest()
        codes[str(100 + int.from_bytes(digest[:4], "big") % 900)] = None
        if len(codes) == count:
            break
    return list(codes)


def _source(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _frames(pictures: Sequence[np.ndarray] | np.ndarray) -> Frames:
    count = len(pictures)
    if count == 1:
        return Frames(pixels=np.stack(list(pictures)))
    seconds = tuple(float(index) for index in range(count))
    return Frames(pixels=np.stack(list(pictures)), seconds=seconds, fps=1.0, total_frames=count)


def _drawn(code: str, side: int, print_size: int) -> np.ndarray:
    """Return a white square with a number in its middle."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (side, side), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(print_size)
    advance = 0.8 * print_size
    for index, digit in enumerate(code):
        x = side / 2 + (index - (len(code) - 1) / 2) * advance
        draw.text((x, side / 2), digit, "black", font, anchor="mm")
    return np.asarray(picture)
