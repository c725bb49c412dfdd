"""Agreement of raters and verdicts. An undefined coefficient is None, never 0; unequal lengths raise ValueError."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import repeat
from typing import TypeVar

import numpy as np

from pipelines.metrics.intervals import Interval, student_quantile

T = TypeVar("T")
_PARTS = 50


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable], counts: Sequence[int] | None = None) -> float | None:
    """Compute Cohen's kappa (1960) of two raters' N labels; None if only one label occurs.

    `counts` (N) is how often each pair of labels occurs, by default once.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"kappa needs two lists of labels of equal length, got {len(a)} and {len(b)}")
    pairs: Counter[tuple[Hashable, Hashable]] = Counter()
    for first, second, count in zip(a, b, repeat(1) if counts is None else counts, strict=counts is not None):
        pairs[first, second] += count
    counts_a, counts_b = Counter[Hashable](), Counter[Hashable]()
    for (first, second), count in pairs.items():
        counts_a[first] += count
        counts_b[second] += count
    total = pairs.total()
    expected = total * total - sum(
        counts_a[label] * counts_b[label] for label in counts_a
    )  # pairs of unequal labels by chance
    if not expected:
        return None
    unequal = total - sum(count for (first, second), count in pairs.items() if first == second)
    return 1.0 - unequal * total / expected


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | None:
    """Compute Fleiss' kappa (1971) of rater counts (items, categories); None if all agree on one category."""
    table = np.asarray(counts)
    if table.ndim != 2 or table.size == 0:
        raise ValueError("Fleiss' kappa needs a table of items by categories")
    raters = table.sum(axis=1)
    if raters.min() != raters.max() or raters.min() < 2:
        raise ValueError("Fleiss' kappa needs the same number of raters, at least 2, for every item")
    if np.count_nonzero(table.sum(axis=0)) == 1:
        return None
    totals, rated = table.sum(axis=0) / table.sum(), float(raters[0])
    observed = (((table * table).sum(axis=1) - rated) / (rated * (rated - 1.0))).mean()
    expected = (totals * totals).sum()
    return float((observed - expected) / (1 - expected))


def krippendorff_alpha(units: Sequence[Sequence[Hashable]]) -> float | None:
    """Compute Krippendorff's nominal alpha (2011) of the labels that each unit received, any number of raters a unit.

    Units with fewer than two labels do not count; None where only one label occurs, or no unit has two.
    """
    counts = [Counter(labels) for labels in units if len(labels) > 1]
    totals = sum(counts, Counter[Hashable]())
    n = totals.total()
    expected = n * n - sum(count * count for count in totals.values())
    if not expected:
        return None
    observed = sum(
        (unit.total() ** 2 - sum(count * count for count in unit.values())) / (unit.total() - 1) for unit in counts
    )
    return 1.0 - (n - 1) * observed / expected


def agreement_interval(
    statistic: Callable[[Sequence[T]], float | None], items: Sequence[T], *, least: float = -1.0
) -> Interval | None:
    """Compute the 95% interval of a coefficient of N items, at most 1: a jackknife of up to 50 parts of the items.

    None with fewer than two items, where the coefficient is undefined without a part, or where no part changes it.
    """
    parts = min(_PARTS, len(items))
    if parts < 2:
        return None
    whole = statistic(items)
    left_out = [statistic([item for place, item in enumerate(items) if place % parts != part]) for part in range(parts)]
    values = np.array([value for value in left_out if value is not None])
    if whole is None or len(values) < parts or np.ptp(values) == 0:
        return None
    error = math.sqrt((parts - 1) / parts * float(((values - values.mean()) ** 2).sum()))
    room = student_quantile(parts - 1) * error
    return Interval(max(least, whole - room), min(1.0, whole + room), parts - 1)


def phi(a: Sequence[bool], b: Sequence[bool]) -> float | None:
    """Compute phi, the Pearson correlation (-1..1) of N pairs of binary verdicts; None if one side is constant."""
    both, only_a, only_b, neither = _two_by_two(a, b)
    product = (both + only_a) * (both + only_b) * (neither + only_a) * (neither + only_b)
    if product == 0:
        return None
    return (both * neither - only_a * only_b) / math.sqrt(product)


def _two_by_two(a: Sequence[bool], b: Sequence[bool]) -> tuple[int, int, int, int]:
    if len(a) != len(b):
        raise ValueError(f"paired verdicts differ in length: {len(a)} and {len(b)}")
    first, second = np.asarray(a, dtype=bool), np.asarray(b, dtype=bool)
    both = int(np.count_nonzero(first & second))
    only_a = int(np.count_nonzero(first & ~second))
    only_b = int(np.count_nonzero(~first & second))
    return both, only_a, only_b, len(a) - both - only_a - only_b
