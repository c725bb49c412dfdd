"""Intervals, paired tests and rounding.

Bootstrap draws are of clusters (rows that share a picture or clip go together) and a pure function of the
number of clusters, the number of resamples and the seed: the same for every metric and model on the same rows,
whatever the order of the rows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Values (rows,) and row weights (draws, rows) to one number a draw (draws,); NaN where a draw has none."""

RESAMPLES: Final = 10_000
SEED: Final = 42
LEVEL: Final = 0.95
_BLOCK_CELLS: Final = 4_000_000  # weights in memory at once, 32 MB; draws come in blocks of that size
_NOISE_DIGITS: Final = 9  # decimals beyond which a printed number is the arithmetic's noise
_LARGEST_PRINTED: Final = 1e15  # doubles of that size carry no tenths


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, in the unit of the number it belongs to."""

    low: float
    high: float


def _finite(values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("values must be one row of finite numbers: leave unscored rows out")
    return array


def _cluster_numbers(clusters: Sequence[Any] | NDArray[Any] | None, n_rows: int) -> NDArray[np.intp]:
    """Numbers the clusters in the order of their names, so that the order of rows changes nothing."""
    if clusters is None:
        return np.arange(n_rows)
    if len(clusters) != n_rows:
        raise ValueError(f"{n_rows} values but {len(clusters)} clusters")
    return np.unique(np.asarray(clusters), return_inverse=True)[1].reshape(-1)


def _draws(n_clusters: int, *, resamples: int, seed: int, width: int) -> Iterator[FloatArray]:
    """Blocks of how often each cluster was drawn, (draws, clusters); `width` cells a draw bound the block."""
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK_CELLS // max(width, n_clusters))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = generator.integers(0, n_clusters, size=(rows, n_clusters))
        flat = (drawn + np.arange(rows)[:, None] * n_clusters).ravel()
        counts = np.bincount(flat, minlength=rows * n_clusters)
        yield counts.reshape(rows, n_clusters).astype(np.float64)


def _cluster_totals(values: FloatArray, numbers: NDArray[np.intp]) -> FloatArray:
    """Sum and size of every cluster, (clusters, 2), added up in an order that row order does not touch."""
    order = np.lexsort((values, numbers))
    sums = np.bincount(numbers[order], weights=values[order])
    return np.stack([sums, np.bincount(numbers).astype(np.float64)], axis=1)


def bootstrap_replicates(
    values: ArrayLike,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    *,
    statistic: Literal["mean"] | Statistic = "mean",
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> FloatArray:
    """The statistic on resamples of whole clusters, drawn with replacement.

    A mean takes time and memory for clusters alone; any other statistic works on the rows, in blocks of draws.

    Args:
        values: N finite numbers, one a row.
        clusters: N cluster names, of one sortable type; None makes every row its own cluster.
        statistic: `mean` over the rows drawn, or a function of values and row weights.
        resamples: How many draws.
        seed: Of the draws.

    Returns:
        One number a draw, (resamples,); NaN where the statistic is undefined on a draw.

    Raises:
        ValueError: No rows, a number that is not finite, or lengths that differ.
    """
    rows = _finite(values)
    if rows.size == 0:
        raise ValueError("no rows to resample")
    numbers = _cluster_numbers(clusters, rows.size)
    if statistic == "mean":
        totals = _cluster_totals(rows, numbers)
        return drawn_ratios(totals[:, :1], totals[:, 1:], resamples=resamples, seed=seed)[:, 0]
    n_clusters = int(numbers.max()) + 1
    blocks = _draws(n_clusters, resamples=resamples, seed=seed, width=rows.size)
    return np.concatenate([statistic(rows, counts[:, numbers]) for counts in blocks])


def _percentiles(replicates: FloatArray, level: float) -> Interval | None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level} is not between 0 and 1")
    defined = replicates[~np.isnan(replicates)]
    if defined.size == 0:
        return None
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(defined, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def bootstrap_ci(
    values: ArrayLike,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    *,
    statistic: Literal["mean"] | Statistic = "mean",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
) -> Interval | None:
    """Percentile bootstrap interval of a statistic, resampling clusters.

    Args:
        values: N finite numbers, one a row.
        clusters: N cluster names, such as the clip or picture of the row; None makes every row its own.
        statistic: `mean`, or a function of values (rows,) and row weights (draws, rows).
        resamples: How many draws.
        seed: Of the draws.
        level: Share of draws between the ends.

    Returns:
        The interval in the unit of the statistic, or None with fewer than two clusters (resampling one says
        nothing of the spread) and where the statistic was defined on no draw.

    Raises:
        ValueError: A number that is not finite, lengths that differ, or a level outside 0..1.
    """
    rows = _finite(values)
    if np.unique(_cluster_numbers(clusters, rows.size)).size < 2:
        return None
    replicates = bootstrap_replicates(rows, clusters, statistic=statistic, resamples=resamples, seed=seed)
    return _percentiles(replicates, level)


def _difference(a: ArrayLike, b: ArrayLike, clusters: Sequence[Any] | NDArray[Any] | None, **how: Any) -> FloatArray:
    first, second = _finite(a), _finite(b)
    if first.size != second.size:
        raise ValueError(f"paired values differ in length: {first.size} and {second.size}")
    return bootstrap_replicates(first, clusters, **how) - bootstrap_replicates(second, clusters, **how)


def paired_bootstrap_ci(  # noqa: PLR0913 - as bootstrap_ci, for two
    a: ArrayLike,
    b: ArrayLike,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    *,
    statistic: Literal["mean"] | Statistic = "mean",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
) -> Interval | None:
    """Percentile bootstrap interval of a difference, A minus B, both on the same draws.

    Args:
        a: N finite numbers of A.
        b: N finite numbers of B on the same rows, in the same order.
        clusters: N cluster names; None makes every row its own cluster.
        statistic: `mean`, or a function of values (rows,) and row weights (draws, rows).
        resamples: How many draws; the same as `bootstrap_ci` makes with this seed.
        seed: Of the draws.
        level: Share of draws between the ends.

    Returns:
        The interval of the difference, or None as for `bootstrap_ci`.

    Raises:
        ValueError: As for `bootstrap_ci`, or A and B differ in length.
    """
    n_rows = _finite(a).size
    if np.unique(_cluster_numbers(clusters, n_rows)).size < 2:
        return None
    replicates = _difference(a, b, clusters, statistic=statistic, resamples=resamples, seed=seed)
    return _percentiles(replicates, level)


def paired_bootstrap_p(
    a: ArrayLike,
    b: ArrayLike,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    *,
    statistic: Literal["mean"] | Statistic = "mean",
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> float:
    """One-sided p-value of "A is better than B" by paired bootstrap (Koehn 2004).

    p = (1 + number of draws on which A - B <= 0) / (resamples + 1). A draw that leaves either statistic
    undefined counts against A.

    Args:
        a: N finite numbers of A.
        b: N finite numbers of B on the same rows, in the same order.
        clusters: N cluster names; None makes every row its own cluster.
        statistic: `mean`, or a function of values (rows,) and row weights (draws, rows).
        resamples: How many draws.
        seed: Of the draws.

    Returns:
        A fraction in (0, 1].

    Raises:
        ValueError: No rows, a number that is not finite, or lengths that differ.
    """
    replicates = _difference(a, b, clusters, statistic=statistic, resamples=resamples, seed=seed)
    lost = int(np.count_nonzero(~(replicates > 0.0)))
    return (1 + lost) / (resamples + 1)


def cluster_draws(clusters: int, *, resamples: int = RESAMPLES, seed: int = SEED) -> FloatArray:
    """Return how often each cluster is drawn, (resamples, clusters)."""
    return np.concatenate(list(_draws(clusters, resamples=resamples, seed=seed, width=clusters)))


def drawn_sums(sums: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED) -> FloatArray:
    """Return sums over clusters on every draw of clusters, K of them on the same draws.

    For many numbers over parts of the same rows: drawing takes ten times as long as all the rest.

    Args:
        sums: (clusters, K), what each cluster adds to each sum.
        resamples: How many draws.
        seed: Of the draws.

    Returns:
        (resamples, K).
    """
    blocks = _draws(len(sums), resamples=resamples, seed=seed, width=sums.shape[1])
    return np.concatenate([counts @ sums for counts in blocks])


def drawn_ratios(totals: FloatArray, sizes: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED) -> FloatArray:
    """Return ratios of two sums over clusters on every draw, (resamples, K); NaN where a draw leaves `sizes` empty."""
    drawn = drawn_sums(np.hstack([totals, sizes]), resamples=resamples, seed=seed)
    with np.errstate(invalid="ignore"):
        ratios: FloatArray = drawn[:, : totals.shape[1]] / drawn[:, totals.shape[1] :]
    return ratios


def interval_of(replicates: FloatArray, value: float, *, level: float = LEVEL) -> Interval | None:
    """The percentile interval of a number from its replicates; None where none is defined.

    Where all draws agree, the arithmetic's noise does not put the number outside of its interval.
    """
    found = _percentiles(replicates, level)
    if found is None:
        return None
    low, high = (value if math.isclose(end, value, abs_tol=1e-12) else end for end in (found.low, found.high))
    return Interval(low, high)


def wilson_ci(successes: int, n: int, *, level: float = LEVEL) -> Interval | None:
    """Wilson score interval of one proportion (Wilson 1927), by statsmodels.

    Args:
        successes: Count of successes, 0..n.
        n: Count of independent trials.
        level: Nominal coverage.

    Returns:
        An interval of fractions, or None without trials.

    Raises:
        ValueError: More successes than trials, or fewer than none.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials")
    if n == 0:
        return None
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, n, alpha=1.0 - level, method="wilson")
    return Interval(float(low), float(high))


def half_up(value: float, decimals: int) -> Decimal:
    """Rounds for print, halves away from zero, as people do: 44.25 gives 44.3 where Python gives 44.2.

    The binary noise of a computed number is dropped first, so that 28.499999999999996 counts as 28.5.

    Args:
        value: A finite number, in the unit to be printed (so percent, not the fraction, for a percentage).
        decimals: Digits after the point, 0 to 9.

    Returns:
        A decimal that prints with exactly these digits; never minus zero.

    Raises:
        ValueError: The value is not finite or 1e15 and more, or the decimals are out of range.
    """
    if not abs(value) < _LARGEST_PRINTED or not 0 <= decimals <= _NOISE_DIGITS:
        raise ValueError(f"cannot round {value} to {decimals} decimals")
    cleaned = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-_NOISE_DIGITS), ROUND_HALF_UP)
    rounded = cleaned.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return rounded or abs(rounded)
