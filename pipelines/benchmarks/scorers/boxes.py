"""Scorers of boxes and points."""

import re
from collections.abc import Sequence
from typing import Final

from pipelines.benchmarks.scorers.records import Box, Gold, Scored

RIGHT_IOU: Final = 0.5
FURTHER_IOUS: Final = (0.3, 0.7, 0.9)
_NUMBER: Final = r"-?(?:\d+(?:\.\d+)?|\.\d+)"
_BOX = re.compile(rf"\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*,\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\]")
_PART: Final = rf"({_NUMBER}\s*%?)"
_TAGGED = re.compile(r"<bbox>(.{0,500}?)</bbox>", re.DOTALL | re.IGNORECASE)
_PAIR = re.compile(rf"[\[(]\s*{_PART}\s*[,\s]\s*{_PART}\s*[\])]")
_NAMED = re.compile(
    rf"\bx['\"]?\s*[:=]\s*{_PART}" r".{0,200}?" rf"\by['\"]?\s*[:=]\s*{_PART}", re.IGNORECASE | re.DOTALL
)
_SAYS_BOX = re.compile(r"box|rect", re.IGNORECASE)
_ANY = re.compile(_PART)


def _gold_box(gold: Gold) -> Box:
    """Return the right box in shares of the picture."""
    if gold.box is None:
        raise ValueError("a row without a box is scored by boxes")
    (width, height), (left, top, right, bottom) = gold.size, gold.box
    return left / width, top / height, right / width, bottom / height


def _overlap(first: Box, second: Box) -> float:
    """Return the intersection of two boxes over their union."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    both = max(width, 0.0) * max(height, 0.0)
    areas = sum(max(right - left, 0.0) * max(bottom - top, 0.0) for left, top, right, bottom in (first, second))
    return both / (areas - both) if areas > both else 0.0


def iou(reply: str, gold: Gold) -> Scored:
    """Score the first `[x1, y1, x2, y2]` of a reply by its overlap with the right box."""
    match = _BOX.search(reply)
    overlap, answer = 0.0, None
    if match:
        width, height = {"0-1": (1.0, 1.0), "0-1000": (1000.0, 1000.0)}.get(gold.coordinates, gold.size)
        x1, y1, x2, y2 = map(float, match.groups())
        overlap, answer = _overlap((x1 / width, y1 / height, x2 / width, y2 / height), _gold_box(gold)), match[0]
    shares = {f"iou_at_{least}": float(overlap >= least) for least in FURTHER_IOUS}
    return Scored(float(overlap >= RIGHT_IOU), answer, {"iou": overlap, **shares})


def read_point(reply: str) -> tuple[float, float] | None:
    """Return the point of a reply, of a box its centre; None for a reply without one."""
    if (tagged := _TAGGED.search(reply)) and len(numbers := _numbers(tagged[1])) >= 4:
        return _centre(numbers)
    for form in (_PAIR, _NAMED):
        if match := form.search(reply):
            return _number(match[1]), _number(match[2])
    numbers = _numbers(reply)
    if len(numbers) >= 4 and _SAYS_BOX.search(reply):
        return _centre(numbers)
    return (numbers[0], numbers[1]) if len(numbers) >= 2 else None


def point(reply: str, gold: Gold) -> Scored:
    """Score whether the point of a reply is in the right box; above 1 it is in pixels."""
    found = read_point(reply)
    if found is None:
        return Scored(0.0, None)
    x, y = found
    if x > 1 or y > 1:
        x, y = x / gold.size[0], y / gold.size[1]
    left, top, right, bottom = _gold_box(gold)
    return Scored(float(left <= x <= right and top <= y <= bottom), f"{x:.6g}, {y:.6g}")


def _number(text: str) -> float:
    return float(text.rstrip("% \n\t")) / (100 if text.endswith("%") else 1)


def _numbers(text: str) -> list[float]:
    return [_number(match) for match in _ANY.findall(text)]


def _centre(numbers: Sequence[float]) -> tuple[float, float]:
    return (numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2
