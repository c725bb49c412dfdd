"""An endpoint that reads the numbers in pictures as far as it sees them, and what may be done to them before."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tests.support.endpoint_script import EndpointRequest

LEAST_HEIGHT = 9  # pixels of a digit, below which it is not read
CELL = (20, 30)

Change = Callable[[list[Image.Image]], Sequence[Image.Image]]


def seeing(change: Change = lambda pictures: pictures) -> Callable[[EndpointRequest], str]:
    """Return a script that answers with the numbers in the pictures that are left after a change."""

    def script(request: EndpointRequest) -> str:
        pictures = [Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) for uri in request.pictures]
        return ", ".join(filter(None, map(number_in, change(pictures)))) or "I see no number."

    return script


def downsized(side: int) -> Change:
    """Return what servers do with large pictures."""

    def change(pictures: list[Image.Image]) -> list[Image.Image]:
        for picture in pictures:
            picture.thumbnail((side, side))
        return pictures

    return change


def number_in(picture: Image.Image) -> str:
    """Return the number in a picture, '' where its digits are too small."""
    dark = np.asarray(picture.convert("L")) < 140
    rows = np.flatnonzero(dark.any(axis=1))
    if not rows.size or rows[-1] - rows[0] + 1 < LEAST_HEIGHT:
        return ""
    columns = np.flatnonzero(dark.any(axis=0))
    digits = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    return "".join(_digit(dark[rows[0] : rows[-1] + 1, digit[0] : digit[-1] + 1]) for digit in digits)


def _digit(dark: np.ndarray) -> str:
    return min(templates(), key=lambda name: np.abs(templates()[name] - _scaled(dark)).sum())


@cache
def templates() -> dict[str, np.ndarray]:
    """Return how each digit looks."""
    looks = {}
    for name in "0123456789":
        picture = Image.new("L", (200, 200), 255)
        ImageDraw.Draw(picture).text((100, 100), name, 0, ImageFont.load_default(120), anchor="mm")
        dark = np.asarray(picture) < 140
        rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
        looks[name] = _scaled(dark[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    return looks


def _scaled(dark: np.ndarray) -> np.ndarray:
    picture = Image.fromarray((dark * 255).astype(np.uint8)).resize(CELL, Image.Resampling.BILINEAR)
    ratio = dark.shape[1] / dark.shape[0]  # a 1 is narrow
    return np.append(np.asarray(picture, np.float64) / 255, ratio * 60)
