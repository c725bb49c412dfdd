"""Clip 2: a blue cart climbs a slope and stops, a bird lands on it, and it rolls down again."""

from __future__ import annotations

import math

from PIL import Image

from tests.tools.demo_data.drawing import HEIGHT, WIDTH, Canvas, Color, Point, between, move, smooth, turned

__all__ = ["SECONDS", "draw_cart"]

SECONDS = 6.0
FOOT, CREST = (46.0, 216.0), (284.0, 116.0)
SLOPE = math.atan2(CREST[1] - FOOT[1], CREST[0] - FOOT[0])
"""Radians; negative, since it rises to the right."""
LOW, HIGH = 0.17, 0.72
"""Where the cart starts and where it stops, as parts of the slope."""
STOPS, LANDS, LEAVES, BACK = 2.2, 3.2, 4.0, 5.8
"""Seconds."""
WHEEL = 9.0
INK = (40, 44, 70)


def draw_cart(time: float) -> Image.Image:
    """Draw the picture at a moment, in seconds."""
    canvas = Canvas()
    _far(canvas)
    _balloon(canvas, time)
    _firs(canvas)
    _slope(canvas)
    _flag(canvas, time)
    cart = _cart_at(time)
    _cart(canvas, cart, smiles=time >= LANDS)
    if time >= STOPS - 0.3:
        _bird(canvas, _bird_at(time, cart), flying=time < LANDS, time=time)
    return canvas.done()


def _cart_at(time: float) -> Point:
    """Return the point of the slope below the middle of the cart."""
    if time < LEAVES:
        part = LOW + (HIGH - LOW) * smooth(between(time, 0, STOPS))
    else:
        part = HIGH + (LOW - HIGH) * smooth(between(time, LEAVES, BACK))
    return move(FOOT, CREST, part)


def _bird_at(time: float, cart: Point) -> Point:
    perch = turned((-15, -48), SLOPE, cart)
    x, y = move((WIDTH + 24, 8), perch, smooth(between(time, STOPS - 0.3, LANDS)))
    # The cart gives a little under the weight.
    since = time - LANDS
    dip = 2.5 * math.exp(-5 * since) * math.sin(14 * since) if since > 0 else 0.0
    return (x, y + dip)


def _far(canvas: Canvas) -> None:
    canvas.fade(0, HEIGHT, ((136, 200, 242), (232, 244, 250)))
    for x, y in ((205, 34), (222, 28), (240, 34)):
        canvas.oval((x, y), 15, 9, (255, 255, 255))
    for remaining, peak, right, top in ((-40, 52, 140, 96), (80, 168, 262, 80), (200, 286, 380, 104)):
        canvas.shape([(remaining, 216), (peak, top), (right, 216)], (150, 170, 196))
        snow = 0.26
        lower = [move((peak, top), (remaining, 216), snow), move((peak, top), (right, 216), snow)]
        middle = (peak, top + 22)
        canvas.shape(
            [(peak, top), lower[0], (peak - 10, top + 20), middle, (peak + 12, top + 20), lower[1]], (250,) * 3
        )


def _balloon(canvas: Canvas, time: float) -> None:
    """Draw the balloon; it leaves through the left edge after about two and a half seconds."""
    x, y = 104 - 52 * time, 46 - 5 * time
    green, white = (60, 160, 96), (250, 250, 246)
    for dx in (-10, 10):
        canvas.stroke([(x + dx, y + 16), (x + dx * 0.5, y + 33)], (110, 90, 70), 1)
    canvas.disc((x, y), 21, green)
    canvas.oval((x, y), 14, 21, white)
    canvas.oval((x, y), 6, 21, green)
    canvas.box(x - 6, y + 32, x + 6, y + 41, (168, 118, 66), corner=2)


def _firs(canvas: Canvas) -> None:
    for x, size in ((14, 1.0), (38, 0.8)):
        canvas.box(x - 3, 200, x + 3, 220, (112, 78, 52))
        for step in range(3):
            base, half = 206 - 22 * size * step, (20 - 4 * step) * size
            canvas.shape([(x - half, base), (x, base - 34 * size), (x + half, base)], (36, 104 + 12 * step, 80))


def _slope(canvas: Canvas) -> None:
    ground = [(0, FOOT[1]), FOOT, CREST, (WIDTH, CREST[1])]
    canvas.shape([*ground, (WIDTH, HEIGHT), (0, HEIGHT)], (196, 168, 116))
    canvas.shape([*((x, y + 12) for x, y in ground), (WIDTH, HEIGHT), (0, HEIGHT)], (176, 146, 98))
    canvas.stroke(ground, (112, 168, 84), 5)
    for x, y in ((120, 222), (176, 206), (214, 226), (252, 178), (292, 206), (300, 150)):
        canvas.oval((x, y), 6, 3.5, (154, 124, 84))


def _flag(canvas: Canvas, time: float) -> None:
    x, top = 302.0, 66.0
    canvas.stroke([(x, CREST[1]), (x, top)], (96, 74, 60), 3)
    wave = 3 * math.sin(5 * time)
    canvas.shape([(x, top), (x - 14, top + 5 + wave), (x - 28, top + 10 - wave), (x, top + 20)], (222, 52, 60))


def _cart(canvas: Canvas, foot: Point, *, smiles: bool) -> None:
    def spot(dx: float, dy: float) -> Point:
        return turned((dx, dy), SLOPE, foot)

    for dx, size in ((9, 9), (22, 7.5)):
        _pumpkin(canvas, spot(dx, -39), size)
    body = [(-30, -36), (31, -36), (25, -12), (-25, -12)]
    canvas.shape([spot(*p) for p in body], (34, 96, 190))
    canvas.shape([spot(*p) for p in ((-30, -36), (31, -36), (30, -31), (-29, -31))], (74, 138, 226))
    for dx in (-7, 7):
        canvas.disc(spot(dx, -25), 3.4, (255, 255, 255))
        canvas.disc(spot(dx - 0.6, -24.6), 1.7, INK)
    corners = range(20, 161, 20) if smiles else range(210, 331, 20)
    rise = -21.0 if smiles else -11.5
    mouth = [math.radians(a) for a in corners]
    canvas.stroke([spot(5.5 * math.cos(a), rise + 5.5 * math.sin(a)) for a in mouth], (255, 255, 255), 1.8)
    for hub in (-17, 17):
        _wheel(canvas, spot(hub, -WHEEL - 2), foot[0] / math.cos(SLOPE) / WHEEL)


def _wheel(canvas: Canvas, center: Point, angle: float) -> None:
    canvas.disc(center, WHEEL, INK)
    canvas.disc(center, WHEEL - 2.4, (246, 196, 60))
    for quarter in range(2):
        ends = [turned((side * (WHEEL - 3), 0), angle + quarter * math.pi / 2, center) for side in (-1, 1)]
        canvas.stroke(ends, INK, 1.6)


def _pumpkin(canvas: Canvas, center: Point, size: float) -> None:
    x, y = center
    canvas.stroke([(x, y - size * 0.6), (x + 2, y - size - 3)], (70, 120, 50), 2.4)
    colors: tuple[Color, ...] = ((232, 122, 30), (246, 146, 44), (232, 122, 30))
    for dx, color in zip((-0.5, 0.5, 0.0), colors, strict=True):
        canvas.oval((x + dx * size, y), size * 0.75, size * 0.85, color)


def _bird(canvas: Canvas, center: Point, *, flying: bool, time: float) -> None:
    """Draw a yellow bird that looks to the left."""
    x, y = center
    yellow, shade = (252, 214, 60), (232, 178, 34)
    canvas.shape([(x + 6, y), (x + 17, y - 4), (x + 16, y + 4)], shade)
    if not flying:
        for dx in (-2, 3):
            canvas.stroke([(x + dx, y + 6), (x + dx, y + 11)], (224, 120, 40), 1.6)
    canvas.oval((x, y), 10, 7.5, yellow)
    canvas.disc((x - 8, y - 6), 6, yellow)
    canvas.shape([(x - 13, y - 8), (x - 20, y - 5), (x - 13, y - 3)], (240, 128, 40))
    canvas.disc((x - 9.5, y - 7.5), 1.4, INK)
    if flying:
        tip = 16 * math.sin(18 * time)
        canvas.shape([(x - 3, y - 1), (x + 6, y - 1), (x + 8, y - tip)], shade)
    else:
        canvas.oval((x + 3, y - 0.5), 6, 3.6, shade)
