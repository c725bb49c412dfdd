"""Person tags of VAGUE's pictures: detect them, and draw them where they are missing.

The tag of person k is the number k in white digits, 40 pixels high, on a black rectangle at the centre of the person's
box. With w the width of the digits and (x, y) the centre, it covers (x-w/2-2, y-w/2-2) to (x+w/2+2, y+w+2).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from pipelines.errors import DecodeError

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

Box: TypeAlias = tuple[float, float, float, float]
Pixels: TypeAlias = "Callable[[bytes], np.ndarray]"
"""Decodes image bytes to uint8 [H, W, 3], or raises DecodeError, as `Source.pixels` does."""
_Corners: TypeAlias = tuple[float, float, float, float]

MIN_TAGGED_SHARE: Final = 0.9  # share of boxes with a tag below which pictures count as untagged
_DIGIT_HEIGHT: Final = 40
_MARGIN: Final = 2
_INSET: Final = 2  # pixels from the corner inwards, clear of JPEG blur
_NEAR_BLACK: Final = 64  # of 255, in each channel
_JPEG_QUALITY: Final = 95


@lru_cache(maxsize=1)
def _font() -> FreeTypeFont | ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size=_DIGIT_HEIGHT)


def _open_image(content: bytes, pixels: Pixels) -> Image | None:
    """Decode a picture to RGB; None where it cannot be decoded."""
    from PIL import Image

    try:
        return Image.fromarray(pixels(content))
    except DecodeError:
        return None


def _centres(picture: Image, boxes: Sequence[Box], size: tuple[float, float] | None) -> Iterator[tuple[float, float]]:
    """Yield the centres of the boxes in pixels of the picture; `size` is what the boxes are measured in."""
    width, height = size or (picture.width, picture.height)
    x_scale, y_scale = picture.width / width, picture.height / height
    for x0, y0, x1, y1 in boxes:
        yield (x0 + x1) / 2 * x_scale, (y0 + y1) / 2 * y_scale


def _rectangle(centre: tuple[float, float], number: int) -> _Corners:
    (x, y), width = centre, _font().getlength(str(number))
    return x - width / 2 - _MARGIN, y - width / 2 - _MARGIN, x + width / 2 + _MARGIN, y + width + _MARGIN


def count_tagged_boxes(
    content: bytes, boxes: Sequence[Box], size: tuple[float, float] | None, pixels: Pixels
) -> tuple[int, int]:
    """Count the boxes that carry a tag, near-black just inside all corners of its rectangle, and all those checked.

    A box is (x0, y0, x1, y1), that of person k at k-1, measured in a picture of `size` (width, height), or of the
    actual size for None. The result is (0, 0) where the picture cannot be decoded.
    """
    picture = _open_image(content, pixels) if boxes else None
    if picture is None:
        return 0, 0
    tagged = checked = 0
    for number, centre in enumerate(_centres(picture, boxes, size), start=1):
        x0, y0, x1, y1 = _rectangle(centre, number)
        points = [(round(x), round(y)) for x in (x0 + _INSET, x1 - _INSET) for y in (y0 + _INSET, y1 - _INSET)]
        points = [(x, y) for x, y in points if 0 <= x < picture.width and 0 <= y < picture.height]
        if points:
            checked += 1
            tagged += all(max(picture.getpixel(point)) <= _NEAR_BLACK for point in points)  # type: ignore[arg-type]
    return tagged, checked


def draw_tags(content: bytes, boxes: Sequence[Box], size: tuple[float, float] | None, pixels: Pixels) -> bytes:
    """Draw a tag on every box; return `content` unchanged without boxes or where it cannot be decoded."""
    picture = _open_image(content, pixels) if boxes else None
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
        picture.save(sink, "JPEG", quality=_JPEG_QUALITY, subsampling=0)
    else:
        picture.save(sink, "PNG")
    return sink.getvalue()
