"""How much of the variance of scores lies between items, settings, prompts and repeats of one request."""

from collections.abc import Mapping
from typing import Final

from pipelines.metrics.intervals import FloatArray

FACTORS: Final = ("items", "settings", "prompts")  # axes of the scores before the last one, the repeats


def variance_components(scores: FloatArray) -> Mapping[str, float]:
    """Return the variance of each part: those of `FACTORS` with two levels or more, `interaction`, `repeats`.

    Crossed random effects by the method of moments: mean squares less what the parts within them contribute, at least
    0 (Searle, Casella and McCulloch 1992, Variance Components, 4.7; interactions pooled). With one repeat
    `interaction` holds the variance of repeats too, and `repeats` is absent.

    `scores` are (items, settings, prompts, repeats), all there.
    """
    *levels, repeats = scores.shape
    cells = scores.mean(axis=3)
    count, rest, degrees = cells.size, cells - cells.mean(), cells.size - 1
    squares = {}
    for axis, name in enumerate(FACTORS):
        if levels[axis] < 2:
            continue
        others = tuple(other for other in range(3) if other != axis)
        effect = cells.mean(axis=others, keepdims=True) - cells.mean()
        per_level = count // levels[axis] * repeats
        squares[name] = (per_level * float((effect**2).sum()) / (levels[axis] - 1), per_level)
        rest, degrees = rest - effect, degrees - (levels[axis] - 1)
    within = float(((scores - cells[..., None]) ** 2).sum()) / (count * (repeats - 1)) if repeats > 1 else 0.0
    between = repeats * float((rest**2).sum()) / degrees if degrees else within
    parts = {name: max(0.0, (square - between) / per_level) for name, (square, per_level) in squares.items()}
    if degrees:
        parts["interaction"] = max(0.0, (between - within) / repeats)
    if repeats > 1:
        parts["repeats"] = within
    return parts
