"""The demo's pictures, drawn from lines of words: a line places a thing, a thing is a few shapes.

A picture is a list of lines, drawn one over the other:

    room                       a backdrop, which fills the picture
    person 90 230 0.9 blue     a thing at x, y (its lowest point), perhaps its size and the colour of its clothes
    words 160 30 24 black MONDAY

Things are declared in `props_*.yaml`, in coordinates of their own: (0, 0) is the lowest point, y points down. There a
line is a shape, its colour (`tint` is the one that the picture gives) and its numbers: `box L,T R,B [CORNER]`,
`disc X,Y RADIUS`, `oval X,Y HALF_WIDTH HALF_HEIGHT`, `shape X,Y X,Y ...`, `stroke WIDTH X,Y X,Y ...`,
`bow X,Y RADIUS FROM,TO WIDTH` in degrees, `words HEIGHT X,Y TEXT`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import yaml
from PIL import Image

from tests.tools.demo_data.drawing import Canvas, Color, Point

__all__ = ["COLORS", "Box", "draw", "encoded", "people_in", "things"]

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels of the picture."""

COLORS: Mapping[str, Color] = {
    "bark": (92, 62, 42), "beam": (255, 236, 150, 150), "black": (32, 30, 34), "blue": (66, 110, 190),
    "brick": (186, 92, 72), "brown": (140, 94, 58), "cream": (250, 238, 208), "dusk": (58, 52, 84),
    "foam": (228, 244, 250), "glass": (176, 218, 236), "glow": (255, 240, 170, 120), "gold": (250, 202, 70),
    "grass": (116, 180, 92), "green": (74, 150, 84), "haze": (120, 100, 90, 70), "indigo": (44, 42, 78),
    "leaf": (76, 146, 80), "moss": (104, 162, 100), "navy": (44, 60, 104), "night": (24, 28, 58),
    "orange": (240, 140, 56), "pear": (190, 208, 90), "red": (212, 58, 56), "rose": (236, 130, 130),
    "sand": (226, 200, 150), "sea": (70, 150, 200), "silver": (196, 202, 210), "skin": (238, 196, 160),
    "sky": (174, 220, 246), "slate": (92, 98, 112), "snow": (244, 248, 252), "stone": (166, 166, 172),
    "straw": (186, 158, 84), "white": (255, 255, 255), "wine": (128, 36, 60), "wood": (196, 150, 100),
}  # fmt: skip
_FILES = ("props_places.yaml", "props_home.yaml", "props_beings.yaml", "props_things.yaml")
_PLAIN = "slate"
_PEOPLE: Mapping[str, Box] = {
    **dict.fromkeys(("person", "red-person", "sad-person"), (-32.0, -122.0, 32.0, 2.0)),
    "sitter": (-28.0, -114.0, 28.0, 2.0),
}
"""What wears a number in VAGUE's pictures, and its box in its own coordinates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A thing with its place and size."""

    name: str
    at: Point = (0.0, 0.0)
    size: float = 1.0
    tint: str = _PLAIN
    text: str = ""

    @classmethod
    def read(cls, line: str) -> _Placed:
        """Read a line of a picture."""
        name, *rest = line.split()
        if name == "words":
            x, y, height, color, *text = rest
            return cls(name=name, at=(float(x), float(y)), size=float(height), tint=color, text=" ".join(text))
        if name not in things():
            raise ValueError(f"no thing {name!r}; there are {', '.join(things())}")
        tint = rest.pop() if rest and rest[-1] in COLORS else _PLAIN
        numbers = [float(number) for number in rest]
        if len(numbers) not in (0, 2, 3):
            raise ValueError("give x and y, then perhaps size and colour")
        at = (numbers[0], numbers[1]) if numbers else (0.0, 0.0)
        return cls(name=name, at=at, size=numbers[2] if len(numbers) == 3 else 1.0, tint=tint)

    def point(self, text: str) -> Point:
        """Convert a point from the thing's coordinates to the picture's."""
        x, _, y = text.partition(",")
        return (self.at[0] + self.size * float(x), self.at[1] + self.size * float(y))

    def box(self, relative_box: Box) -> Box:
        """Convert a box from the thing's coordinates to the picture's."""
        remaining, top, right, bottom = (self.size * edge for edge in relative_box)
        (x, y) = self.at
        return (x + remaining, y + top, x + right, y + bottom)


@lru_cache(maxsize=1)
def things() -> Mapping[str, Sequence[str]]:
    """Read all things that can be drawn: name -> its shapes."""
    results: dict[str, list[str]] = {}
    for name in _FILES:
        results |= yaml.safe_load((files("tests.tools.demo_data") / name).read_text(encoding="utf-8"))
    return results


def draw(lines: Sequence[str]) -> Image.Image:
    """Draw a picture: RGB, 320 x 240.

    Raises:
        ValueError: a line that cannot be read; it is named.
    """
    canvas = Canvas()
    for line in lines:
        try:
            _draw_thing(canvas, _Placed.read(line))
        except (ValueError, KeyError) as error:
            raise ValueError(f"picture line {line!r}: {error}") from error
    return canvas.done()


def people_in(lines: Sequence[str]) -> list[Box]:
    """Return boxes around the people who can be spoken to, in the order drawn."""
    placed = [_Placed.read(line) for line in lines]
    return [item.box(_PEOPLE[item.name]) for item in placed if item.name in _PEOPLE]


def encoded(picture: Image.Image, form: str = "PNG") -> bytes:
    """Encode the picture; one version of Pillow always writes the same bytes."""
    sink = io.BytesIO()
    picture.save(sink, form, **({"quality": 92} if form == "JPEG" else {}))
    return sink.getvalue()


def _draw_thing(canvas: Canvas, placed: _Placed) -> None:
    if placed.name == "words":
        canvas.words(placed.at, placed.text, placed.size, COLORS[placed.tint])
        return
    for line in things()[placed.name]:
        kind, color, *rest = line.split()
        if kind == "words":
            height, at, *text = rest
            canvas.words(placed.point(at), " ".join(text), placed.size * float(height), COLORS[color])
        else:
            _SHAPES[kind](canvas, placed, rest, COLORS[placed.tint if color == "tint" else color])


def _box(canvas: Canvas, placed: _Placed, words: Sequence[str], color: Color) -> None:
    corner = placed.size * float(words[2]) if len(words) > 2 else 0.0
    canvas.box(*placed.point(words[0]), *placed.point(words[1]), color, corner=corner)


def _disc(canvas: Canvas, placed: _Placed, words: Sequence[str], color: Color) -> None:
    canvas.disc(placed.point(words[0]), placed.size * float(words[1]), color)


def _oval(canvas: Canvas, placed: _Placed, words: Sequence[str], color: Color) -> None:
    canvas.oval(placed.point(words[0]), placed.size * float(words[1]), placed.size * float(words[2]), color)


def _shape(canvas: Canvas, placed: _Placed, words: Sequence[str], color: Color) -> None:
    canvas.shape([placed.point(word) for word in words], color)


def _stroke(canvas: Canvas, placed: _Placed, words: Sequence[str], color: Color) -> None:
    canvas.stroke([placed.point(word) for word in words[1:]], color, placed.size * float(words[0]))


def _bow(canvas: Canvas, placed: _Placed, words: Sequence[str], color: Color) -> None:
    start, _, end = words[2].partition(",")
    radius, width = placed.size * float(words[1]), placed.size * float(words[3])
    canvas.bow(placed.point(words[0]), radius, (float(start), float(end)), color, width)


_Shape = Callable[[Canvas, _Placed, Sequence[str], Color], None]
_SHAPES: Mapping[str, _Shape] = {
    "box": _box,
    "disc": _disc,
    "oval": _oval,
    "shape": _shape,
    "stroke": _stroke,
    "bow": _bow,
}
