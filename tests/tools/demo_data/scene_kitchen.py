"""Clip 3: a pot steams on a stove, a hand puts the lid on, and the clock on the wall goes on."""

from __future__ import annotations

import math

from PIL import Image

from tests.tools.demo_data.drawing import HEIGHT, WIDTH, Canvas, Point, between, move, smooth

__all__ = ["SECONDS", "draw_kitchen"]

SECONDS = 5.0
COMES, COVERS, LETS_GO, GONE = 1.7, 2.9, 3.2, 4.3
"""Seconds: the hand enters, the lid is on, the hand turns back, it has left."""
POT = (166.0, 141.0)
RIM_Y = 117.0
WALL = (240, 212, 166)
PUFFS = 14
"""Puffs of steam that are born between the first moment and the lid."""
LIFE = 1.5
"""Seconds that a puff lasts."""


def draw_kitchen(time: float) -> Image.Image:
    """Draw the picture at a moment, in seconds."""
    canvas = Canvas(WALL)
    _outside(canvas, time)
    _wall(canvas)
    _clock(canvas, time)
    _furniture(canvas)
    _tomatoes(canvas)
    _basil(canvas)
    _flames(canvas, time)
    _steam(canvas, time)
    _pot(canvas)
    hand = _hand_at(time)
    _lid(canvas, hand if time < COVERS else (POT[0], RIM_Y - 14))
    if COMES <= time <= GONE:
        _hand(canvas, hand)
    return canvas.done()


def _hand_at(time: float) -> Point:
    """Return where the fingers are: on the knob of the lid while they hold it."""
    away, knob = (WIDTH + 40.0, 56.0), (POT[0], RIM_Y - 14)
    if time < LETS_GO:
        x, y = move(away, knob, smooth(between(time, COMES, COVERS)))
        return (x, y - 26 * math.sin(math.pi * between(time, COMES, COVERS)))
    return move(knob, away, smooth(between(time, LETS_GO, GONE)))


def _outside(canvas: Canvas, time: float) -> None:
    """Draw sky, a hill, and a grey cat that walks out of the window to the left."""
    canvas.box(18, 30, 106, 118, (150, 208, 246))
    canvas.oval((84, 130), 60, 34, (136, 190, 110))
    x, y = 62 - 46 * time, 101.0
    grey, dark = (124, 126, 140), (92, 94, 110)
    swing = 4 * math.sin(9 * time)
    canvas.stroke([(x + 14, y - 4), (x + 22, y - 14), (x + 19, y - 26)], grey, 4)
    for dx, step in ((-10, swing), (-5, -swing), (8, -swing), (13, swing)):
        canvas.stroke([(x + dx, y + 4), (x + dx + step, y + 16)], dark, 4)
    canvas.oval((x, y), 18, 8.5, grey)
    head = (x - 17, y - 9)
    canvas.disc(head, 8.5, grey)
    for side in (-1, 1):
        tip = (head[0] + side * 6, head[1] - 14)
        canvas.shape([(head[0] + side * 8, head[1] - 3), tip, (head[0] + side, head[1] - 7)], dark)
    canvas.disc((head[0] - 3.5, head[1] - 1), 1.4, (240, 230, 90))
    canvas.disc((head[0] - 8, head[1] + 2), 1.5, (240, 160, 160))


def _wall(canvas: Canvas) -> None:
    for edges in ((0, 0, 18, 180), (106, 0, WIDTH, 180), (0, 0, WIDTH, 30), (0, 118, WIDTH, 180)):
        canvas.box(*edges, WALL)
    for row in range(2):
        for column in range(12):
            remaining, top = 28 * column - 14 * row, 128 + 24 * row
            canvas.box(remaining + 1, top + 1, remaining + 27, top + 23, (178, 216, 212), corner=2)
    white = (255, 255, 255)
    for edges in ((14, 26, 110, 31), (14, 26, 19, 118), (105, 26, 110, 118), (60, 26, 64, 118), (10, 116, 114, 122)):
        canvas.box(*edges, white)


def _clock(canvas: Canvas, time: float) -> None:
    """Draw the clock: noon at the first moment, a quarter past at the last."""
    x, y = 262.0, 52.0
    canvas.disc((x + 1, y + 2), 27, (120, 90, 60, 70))
    canvas.disc((x, y), 27, (156, 92, 52))
    canvas.disc((x, y), 23, (255, 253, 246))
    for hour in range(12):
        a = math.radians(30 * hour)
        inner = 17 if hour % 3 == 0 else 19
        ends = [(x + r * math.cos(a), y + r * math.sin(a)) for r in (inner, 20.5)]
        canvas.stroke(ends, (90, 80, 80), 1.6 if hour % 3 == 0 else 1)
    quarter = between(time, 0, SECONDS)
    for angle, length, width in ((7.5 * quarter, 10.0, 3.0), (90 * quarter, 16.5, 2.0)):
        a = math.radians(angle - 90)
        canvas.stroke([(x, y), (x + length * math.cos(a), y + length * math.sin(a))], (40, 40, 50), width)
    canvas.disc((x, y), 2, (200, 50, 50))


def _furniture(canvas: Canvas) -> None:
    canvas.box(0, 174, WIDTH, HEIGHT, (226, 214, 196))
    for remaining in (6, 222):
        canvas.box(remaining, 192, remaining + 92, 236, (238, 228, 212), corner=3)
        canvas.disc((remaining + 46, 200), 3, (150, 130, 110))
    canvas.box(0, 174, WIDTH, 186, (182, 128, 80))
    canvas.box(106, 170, 226, HEIGHT, (74, 80, 92), corner=3)
    canvas.box(116, 204, 216, 234, (34, 38, 48), corner=4)
    canvas.box(122, 209, 210, 229, (88, 66, 52), corner=3)
    for x in (126, 146, 186, 206):
        canvas.disc((x, 190), 5, (206, 210, 216))
        canvas.stroke([(x, 190), (x, 187)], (74, 80, 92), 1.4)
    canvas.box(136, 167, 196, 171, (30, 32, 38), corner=2)


def _tomatoes(canvas: Canvas) -> None:
    canvas.box(18, 169, 92, 175, (214, 172, 116), corner=2)
    for x in (33, 55, 77):
        canvas.disc((x, 160), 10, (214, 48, 40))
        canvas.disc((x - 3, 156), 3, (248, 130, 116))
        for lean in (-5, 0, 5):
            canvas.stroke([(x, 151), (x + lean, 148)], (60, 130, 60), 1.8)


def _basil(canvas: Canvas) -> None:
    canvas.shape([(268, 148), (302, 148), (297, 174), (273, 174)], (200, 104, 66))
    canvas.box(265, 144, 305, 151, (216, 122, 82), corner=2)
    for x, y in ((274, 138), (296, 138), (285, 140), (279, 128), (292, 128), (285, 120)):
        canvas.oval((x, y), 8, 6.5, (58, 144, 70))
        canvas.stroke([(x - 4, y), (x + 4, y)], (96, 178, 96), 1)


def _flames(canvas: Canvas, time: float) -> None:
    for index, x in enumerate(range(142, 192, 8)):
        height = 8 + 1.5 * math.sin(11 * time + 2 * index)
        canvas.shape([(x - 3.5, 168), (x, 168 - height), (x + 3.5, 168)], (70, 130, 240))


def _steam(canvas: Canvas, time: float) -> None:
    for index in range(-4, PUFFS):
        born = index * COVERS / PUFFS
        age = (time - born) / LIFE
        if not 0 <= age < 1:
            continue
        drift = 9 * math.sin(2.4 * index + 3 * age)
        center = (POT[0] + 13 * math.sin(1.9 * index) + drift, RIM_Y - 78 * age)
        opacity = round(190 * (1 - age) * min(1.0, 6 * age))
        for size in (1.0, 0.8, 0.6):
            canvas.disc(center, (8 + 11 * age) * size, (250, 252, 255, opacity // 2))


def _pot(canvas: Canvas) -> None:
    x, y = POT
    orange, dark = (242, 148, 52), (206, 112, 28)
    for side in (-1, 1):
        middle = 90.0 - 90.0 * side
        canvas.bow((x + side * 37, RIM_Y + 12), 7, (middle - 90, middle + 90), dark, 4)
    canvas.box(x - 36, RIM_Y, x + 36, y + 20, orange, corner=9)
    canvas.box(x - 36, RIM_Y, x + 36, RIM_Y + 10, orange)
    canvas.box(x - 39, RIM_Y - 2, x + 39, RIM_Y + 4, dark, corner=3)
    ink = (92, 44, 10)
    for dx in (-11, 11):
        canvas.disc((x + dx, y - 5), 3, ink)
    canvas.bow((x, y - 1), 10, (25, 155), ink, 2.2)


def _lid(canvas: Canvas, knob: Point) -> None:
    x, y = knob
    blue = (58, 106, 196)
    canvas.disc((x, y), 4.5, (30, 62, 130))
    right = ((12, 3), (30, 6), (38, 13))
    canvas.shape([(x - dx, y + dy) for dx, dy in reversed(right)] + [(x + dx, y + dy) for dx, dy in right], blue)
    canvas.box(x - 39, y + 11, x + 39, y + 15, (38, 78, 158), corner=2)


def _hand(canvas: Canvas, fingers: Point) -> None:
    """Draw a right arm that comes from the upper right, in a green sleeve."""
    x, y = fingers
    skin, line = (240, 192, 156), (214, 156, 118)
    canvas.shape([(x + 42, y - 36), (x + 50, y - 12), (x + 300, y - 70), (x + 300, y - 110)], (62, 148, 92))
    canvas.shape([(x + 38, y - 36), (x + 47, y - 9), (x + 57, y - 12), (x + 48, y - 39)], (40, 112, 68))
    canvas.oval((x + 24, y - 16), 20, 12, skin)
    canvas.shape([(x + 24, y - 28), (x + 40, y - 33), (x + 46, y - 12), (x + 26, y - 4)], skin)
    for dx, dy in ((-5, 1), (-1, 4), (4, 5)):
        canvas.stroke([(x + 14, y - 15), (x + 4 + dx, y - 9), (x + dx, y + dy - 3)], skin, 6)
    for dx in (0, 5):
        canvas.stroke([(x + dx + 3, y - 8), (x + dx + 1, y - 1)], line, 1)
