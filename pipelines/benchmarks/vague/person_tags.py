"""The numbers that people in VAGUE's pictures wear: are they there, and how they are drawn where they are not.

Person k wears k in white digits, 40 pixels high, on a black rectangle around the centre of their box. With w the width
of the digits and (x, y) the centre, it reaches from (x-w/2-2, y-w/2-2) to (x+w/2+2, y+w+2).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

Box: TypeAlias = tuple[float, float, float, float]
Pixels: TypeAlias = "Callable[[bytes], np.ndarray]"
"""Decodes a picture's file to uint8 [H, W, 3], or raises a ValueError; `Source.pixels` is one."""
_Corners: TypeAlias = tuple[float, float, float, float]

BARE_BELOW: Final = 0.9
"""Share of boxes with a tag below which pictures count as bare."""
_DIGITS: Final = 40
_EDGE: Final = 2
_INSIDE: Final = 2  # pixels from the corner inwards, clear of the blur of JPEG
_NEAR_BLACK: Final = 64  # of 255, in each channel
_QUALITY: Final = 95


@lru_cache(maxsize=1)
def _font() -> FreeTypeFont | ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size=_DIGITS)


def _opened(content: bytes, pixels: Pixels) -> Image | None:
    """The picture as a viewer shows it, RGB; None where it cannot be decoded."""
    from PIL import Image

    try:
        return Image.fromarray(pixels(content))
    except ValueError:
        return None


def _centres(picture: Image, boxes: Sequence[Box], size: tuple[float, float] | None) -> Iterator[tuple[float, float]]:
    """Centres of the boxes in the picture's own pixels; `size` is the one that the boxes are measured in."""
    wide, high = size or (picture.width, picture.height)
    across, down = picture.width / wide, picture.height / high
    for x0, y0, x1, y1 in boxes:
        yield (x0 + x1) / 2 * across, (y0 + y1) / 2 * down


def _rectangle(centre: tuple[float, float], number: int) -> _Corners:
    (x, y), wide = centre, _font().getlength(str(number))
    return x - wide / 2 - _EDGE, y - wide / 2 - _EDGE, x + wide / 2 + _EDGE, y + wide + _EDGE


def tagged_boxes(
    content: bytes, boxes: Sequence[Box], size: tuple[float, float] | None, pixels: Pixels
) -> tuple[int, int]:
    """How many boxes of a picture carry a tag: near-black just inside all corners of its rectangle.

    Args:
        content: the picture's file.
        boxes: as (x0, y0, x1, y1); person k is box k-1.
        size: width and height of the picture that the boxes are measured in; None: this one's.
        pixels: decodes the picture.

    Returns:
        Boxes with a tag, and boxes that could be judged; (0, 0) for a file that cannot be decoded.
    """
    picture = _opened(content, pixels) if boxes else None
    if picture is None:
        return 0, 0
    tagged = judged = 0
    for number, centre in enumerate(_centres(picture, boxes, size), start=1):
        x0, y0, x1, y1 = _rectangle(centre, number)
        points = [(round(x), round(y)) for x in (x0 + _INSIDE, x1 - _INSIDE) for y in (y0 + _INSIDE, y1 - _INSIDE)]
        points = [(x, y) for x, y in points if 0 <= x < picture.width and 0 <= y < picture.height]
        if points:
            judged += 1
            tagged += all(_near_black(picture.getpixel(point)) for point in points)
    return tagged, judged


def _near_black(pixel: object) -> bool:
    assert isinstance(pixel, tuple), "RGB pixels are tuples"
    return all(channel <= _NEAR_BLACK for channel in pixel)


def drawn(content: bytes, boxes: Sequence[Box], size: tuple[float, float] | None, pixels: Pixels) -> bytes:
    """The picture's file with a tag on every box; as it was where it has no boxes or cannot be decoded.

    Args:
        content: the picture's file.
        boxes: as (x0, y0, x1, y1); person k is box k-1.
        size: width and height of the picture that the boxes are measured in; None: this one's.
        pixels: decodes the picture.
    """
    picture = _opened(content, pixels) if boxes else None
    if picture is None:
        return content
    from PIL import ImageDraw

    pen = ImageDraw.Draw(picture)
    for number, centre in enumerate(_centres(picture, boxes, size), start=1):
        x0, y0, x1, y1 = _rectangle(centre, number)
        pen.rectangle((x0, y0, x1, y1), fill="black")
        pen.text(((x0 + x1) / 2, (y0 + y1) / 2), str(number), fill="white", font=_font(), anchor="mm")
    sink = io.BytesIO()
    if content.startswith(b"\xff\xd8"):
        picture.save(sink, "JPEG", quality=_QUALITY, subsampling=0)
    else:
        picture.save(sink, "PNG")
    return sink.getvalue()
