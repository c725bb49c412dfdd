"""Clip 1: a red ball rolls over a meadow, passes behind a house and comes out, and the sun sets."""

from __future__ import annotations

import math

from PIL import Image

from tests.tools.demo_data.drawing import HEIGHT, WIDTH, Canvas, Color, Point, between, mix, smooth, turned

__all__ = ["SECONDS", "draw_ball"]

SECONDS = 6.0
RADIUS = 13.0
SPEED = 60.0
"""Pixels a second, until the ball is past the house."""
START, PAST_HOUSE, REST = 18.0, 191.0, 252.0
BALL_Y = 181.0
LIGHT_ON = 5.3
"""Seconds; the ball rests since 4.9."""

SKY = (((98, 176, 240), (206, 236, 252)), ((96, 88, 160), (255, 168, 98)), ((24, 30, 76), (84, 78, 136)))
"""Upper and lower colour by day, at sunset and after it."""
STARS = ((34, 30), (72, 62), (108, 22), (150, 48), (188, 26), (226, 66), (262, 34), (300, 54))
GRASS = ((14, 214), (48, 226), (88, 206), (112, 230), (150, 216), (196, 228), (232, 212), (270, 230), (306, 218))


def draw_ball(time: float) -> Image.Image:
    """Draw the picture at a moment, in seconds."""
    canvas = Canvas()
    _sky(canvas, time)
    _land(canvas)
    _tree(canvas)
    _flowers(canvas)
    _ball(canvas, _ball_x(time))
    _house(canvas)
    _butterfly(canvas, time)
    dusk = round(118 * smooth(between(time, 2.8, 5.0)))
    canvas.box(0, 0, WIDTH, HEIGHT, (18, 18, 62, dusk))
    _stars(canvas, time)
    if time >= LIGHT_ON:
        _lit_window(canvas)
    return canvas.done()


def _ball_x(time: float) -> float:
    """Return the ball's place: constant speed past the house, then slowing down to rest."""
    passed = (PAST_HOUSE - START) / SPEED
    if time <= passed:
        return START + SPEED * time
    way = REST - PAST_HOUSE
    part = between(time, passed, passed + 2 * way / SPEED)
    return PAST_HOUSE + way * (2 * part - part * part)


def _sky(canvas: Canvas, time: float) -> None:
    day, dusk, night = SKY
    part = smooth(between(time, 0.8, 3.4))
    colors = (mix(day[0], dusk[0], part), mix(day[1], dusk[1], part))
    part = smooth(between(time, 3.6, 5.2))
    canvas.fade(0, 170, (mix(colors[0], night[0], part), mix(colors[1], night[1], part)))
    fall = between(time, 0, 4.4)
    sun = (268.0, 46 + 130 * fall)
    color = mix((255, 226, 92), (255, 116, 54), smooth(fall))
    canvas.disc(sun, 30, (*color, 50))
    canvas.disc(sun, 25, (*color, 60))
    canvas.disc(sun, 20, color)
    cloud = mix((255, 255, 255), (150, 120, 160), smooth(between(time, 1.5, 4.6)))
    for x, y, size in ((92, 50, 12), (108, 44, 16), (126, 50, 12)):
        canvas.oval((x - 4 * time, y), size * 1.3, size * 0.8, cloud)


def _land(canvas: Canvas) -> None:
    canvas.oval((70, 216), 170, 82, (112, 178, 104))
    canvas.oval((270, 222), 150, 80, (96, 164, 98))
    canvas.fade(166, HEIGHT, ((122, 196, 92), (74, 150, 66)))
    for x, y in GRASS:
        for lean in (-4, 0, 4):
            canvas.stroke([(x, y), (x + lean, y - 7)], (58, 128, 56), 1.2)


def _tree(canvas: Canvas) -> None:
    canvas.shape([(57, 178), (59, 118), (67, 118), (70, 178)], (120, 80, 50))
    for x, y, size in ((46, 110, 20), (80, 110, 20), (63, 90, 24)):
        canvas.disc((x, y), size, (50, 132, 70))
    for x, y, size in ((42, 104, 11), (76, 104, 11), (58, 82, 14)):
        canvas.disc((x, y), size, (72, 156, 86))


def _flowers(canvas: Canvas) -> None:
    for x, top in ((281, 166), (293, 160), (305, 167)):
        canvas.stroke([(x, 194), (x, top)], (44, 118, 54), 2)
        canvas.shape([(x, 190), (x - 7, 180), (x - 1, 184)], (44, 118, 54))
        canvas.oval((x, top), 5, 6, (255, 212, 64))
        canvas.shape([(x - 5, top), (x - 5, top - 8), (x, top - 3), (x + 5, top - 8), (x + 5, top)], (255, 212, 64))


def _ball(canvas: Canvas, x: float) -> None:
    center = (x, BALL_Y)
    angle = (x - REST) / RADIUS

    def spot(dx: float, dy: float) -> Point:
        return turned((dx, dy), angle, center)

    canvas.oval((x + 3, BALL_Y + RADIUS), RADIUS, 3, (30, 70, 30, 90))
    canvas.disc(center, RADIUS, (196, 36, 40))
    canvas.disc((x - 1, BALL_Y - 1), RADIUS - 1.5, (230, 58, 56))
    canvas.disc((x - 5, BALL_Y - 6), 3, (255, 170, 160, 150))
    dark = (70, 10, 14)
    canvas.disc(spot(-4.5, -3), 2, dark)
    canvas.disc(spot(4.5, -3), 2, dark)
    smile = [math.radians(degrees) for degrees in range(20, 161, 14)]
    canvas.stroke([spot(7 * math.cos(a), 7 * math.sin(a)) for a in smile], dark, 1.6)


def _house(canvas: Canvas) -> None:
    canvas.oval((166, 198), 46, 5, (30, 70, 30, 90))
    canvas.box(186, 84, 197, 112, (150, 84, 62))
    canvas.box(128, 118, 204, 199, (250, 236, 204))
    canvas.box(128, 190, 204, 199, (206, 186, 150))
    canvas.shape([(117, 122), (166, 76), (215, 122)], (146, 82, 52))
    canvas.shape([(117, 122), (121, 118), (211, 118), (215, 122)], (112, 60, 40))
    canvas.box(137, 150, 157, 199, (52, 104, 178), corner=2)
    canvas.disc((153, 176), 1.6, (250, 220, 120))
    _window(canvas, (92, 112, 134))


def _window(canvas: Canvas, pane: Color) -> None:
    canvas.box(168, 140, 196, 168, (255, 255, 255))
    canvas.box(170, 142, 194, 166, pane)
    canvas.box(181, 142, 183, 166, (255, 255, 255))
    canvas.box(170, 153, 194, 155, (255, 255, 255))


def _lit_window(canvas: Canvas) -> None:
    for radius in range(20, 38, 3):
        canvas.disc((182, 154), radius, (255, 220, 110, 14))
    _window(canvas, (255, 222, 96))


def _butterfly(canvas: Canvas, time: float) -> None:
    """Draw the butterfly; it leaves through the upper edge after about two seconds."""
    x = 104 - 6 * time + 7 * math.sin(4 * time)
    y = 132 - 70 * time
    wing = 3 + 5 * abs(math.cos(9 * time))
    for side in (-1, 1):
        canvas.oval((x + side * wing, y - 3), wing, 6, (150, 62, 190))
        canvas.oval((x + side * wing * 0.8, y + 4), wing * 0.8, 4.5, (190, 110, 220))
    canvas.stroke([(x, y - 6), (x, y + 6)], (60, 30, 80), 2)


def _stars(canvas: Canvas, time: float) -> None:
    opacity = round(255 * between(time, 4.6, 5.2))
    for x, y in STARS:
        canvas.disc((x, y), 1.6, (255, 250, 214, opacity))
