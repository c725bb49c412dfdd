"""What an interval says about a limit: how far above it the number lies, on the scale on which the interval was made.

A report keeps of a number its value, 95% interval and degrees of freedom. Both ends of Wilson's interval of a share
solve one equation, as those of a logit interval do, and ends of a mean are equally far from it: so the scale is
recognised from the ends.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from pipelines.metrics.intervals import student_p, student_quantile

NORMAL: Final = NormalDist()
Z95: Final = NORMAL.inv_cdf(0.975)
POWER: Final = 0.8
_SAME: Final = 1e-6  # relative difference of two numbers that are equal but for rounding


@dataclass(frozen=True, slots=True)
class Evidence:
    """A number with its 95% interval over `n` rows."""

    value: float
    low: float
    high: float
    n: int
    freedom: float = math.inf  # of the t of the interval; infinitely many are normal

    def deviations_above(self, limit: float, *, continuous: bool = True) -> float:
        """Return by how many standard deviations the number lies above a limit; below 0 where it lies below.

        Not continuous: a share lies half an effective row nearer, since it takes steps of a row (Yates 1934).
        """
        if self.value == limit:
            return 0.0
        end = self.low if limit < self.value else self.high
        if width := self._wilson_width:
            spread = limit * (1 - limit)
            step = 0.0 if continuous else 0.5 * width / self._quantile**2
            distance = max(0.0, abs(self.value - limit) - step)
            squared = distance**2 / spread / width if spread > 0 else math.inf
            return math.copysign(self._quantile * math.sqrt(squared), self.value - limit)
        reach = abs(self.value - end)
        if reach == 0:
            return math.copysign(math.inf, self.value - limit)
        return self._quantile * (self.value - limit) / reach

    def chance_below(self, deviations: float) -> float:
        """Return the chance of a number that lies no higher above the limit, if it is the true value."""
        beyond = student_p(deviations, self.freedom) / 2
        return beyond if deviations < 0 else 1 - beyond

    @property
    def standard_error(self) -> float:
        """The standard error of a number whose interval is as wide to both sides."""
        return (self.high - self.low) / 2 / self._quantile

    @property
    def _quantile(self) -> float:
        return Z95 if math.isinf(self.freedom) else student_quantile(self.freedom)

    @property
    def _wilson_width(self) -> float | None:
        """Squared quantile by rows, which both ends of Wilson's interval solve (value - x)^2 / (x (1 - x)) for.

        None of another interval.
        """
        ends = [end for end in (self.low, self.high) if 0 < end < 1 and end != self.value]
        if not 0 <= self.value <= 1 or not ends or not 0 <= self.low <= self.high <= 1:
            return None
        widths = [(self.value - end) ** 2 / (end * (1 - end)) for end in ends]
        is_wilson = self.value in (0.0, 1.0) or (len(ends) == 2 and math.isclose(*widths, rel_tol=_SAME))
        return widths[0] if is_wilson else None


def quantile(alpha: float) -> float:
    """Return the standard deviations within which 1 - alpha of a normal distribution lie."""
    return NORMAL.inv_cdf(1 - alpha / 2)


def rows_for(n: int, deviations: float, needed: float) -> int | None:
    """Return the rows with which the same distance would be `needed` deviations; None at a distance of 0."""
    return None if not deviations else max(n + 1, math.ceil(n * (needed / deviations) ** 2))
