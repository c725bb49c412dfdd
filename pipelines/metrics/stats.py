"""Intervals and rounding.

The bootstrap draws clusters (rows that share a picture or clip). Draws are a pure function of the numbers of clusters
and resamples and the seed: equal for every metric and model on the same rows, in any order of the rows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import compress
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]

RESAMPLES: Final = 10_000
SEED: Final = 42
LEVEL: Final = 0.95
_NORMAL_QUANTILE: Final = 1.959963984540054  # of LEVEL, both sides
_BLOCK_CELLS: Final = 4_000_000  # weights in memory at once, 32 MB: draws are made in such blocks
_CACHED_CELLS: Final = 64_000_000  # draws in memory from one metric to the next, 64 MB
_CACHE_CELLS: Final = 1 << 15  # drawn numbers in a processor's cache, 256 KB
_EXACT_IN_FLOAT32: Final = 1 << 24  # whole numbers up to it
_NOISE_DIGITS: Final = 9  # further decimals of a printed number are rounding noise
_MAX_PRINTED: Final = 1e15  # larger doubles have no tenths


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, in the unit of its number."""

    low: float
    high: float


def _finite(values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("values must be a one-dimensional list of finite numbers, without unscored rows")
    return array


def _cluster_numbers(clusters: Sequence[Any] | NDArray[Any] | None, n_rows: int) -> NDArray[np.intp]:
    """Number the clusters by the order of their names, independent of the order of rows."""
    if clusters is None:
        return np.arange(n_rows)
    if len(clusters) != n_rows:
        raise ValueError(f"{n_rows} values but {len(clusters)} clusters")
    return np.unique(np.asarray(clusters), return_inverse=True)[1].reshape(-1)


def _draws(n_clusters: int, *, resamples: int, seed: int, width: int) -> Iterator[NDArray[np.uint8]]:
    """Yield blocks of how often each cluster was drawn, (draws, clusters); `width` cells per draw bound a block."""
    block = max(1, _BLOCK_CELLS // max(width, n_clusters))
    if resamples * n_clusters <= _CACHED_CELLS:
        counts = _cached_counts(n_clusters, resamples, seed)
        yield from (counts[start : start + block] for start in range(0, resamples, block))
        return
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, block):
        yield _count_draws(generator, min(block, resamples - start), n_clusters)


@lru_cache(maxsize=1)
def _cached_counts(n_clusters: int, resamples: int, seed: int) -> NDArray[np.uint8]:
    """Return all draws of a seed: many metrics of one benchmark share them."""
    return _count_draws(np.random.default_rng(seed), resamples, n_clusters)


def _count_draws(generator: np.random.Generator, rows: int, n_clusters: int) -> NDArray[np.uint8]:
    """Draw and count, (rows, clusters), in steps that fit a processor's cache. No cluster is ever drawn 256 times."""
    counts = np.empty((rows, n_clusters), dtype=np.uint8)
    step = max(1, _CACHE_CELLS // n_clusters)
    for start in range(0, rows, step):
        part = counts[start : start + step]
        draws = generator.integers(0, n_clusters, size=part.shape)
        draws += np.arange(len(part))[:, None] * n_clusters
        part[...] = np.bincount(draws.ravel(), minlength=part.size).reshape(part.shape)
    return counts


def _cluster_totals(values: FloatArray, numbers: NDArray[np.intp]) -> FloatArray:
    """Return sum and size of every cluster, (clusters, 2), independent of the order of rows."""
    order = np.lexsort((values, numbers))
    sums = np.bincount(numbers[order], weights=values[order])
    return np.stack([sums, np.bincount(numbers).astype(np.float64)], axis=1)


def bootstrap_replicates(
    values: ArrayLike,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> FloatArray:
    """Return means on resamples of clusters, drawn with replacement: (resamples,).

    `values` are N finite numbers, at least one; `clusters` N names of one sortable type (None: every row is a cluster).
    """
    rows = _finite(values)
    if rows.size == 0:
        raise ValueError("no rows to resample")
    totals = _cluster_totals(rows, _cluster_numbers(clusters, rows.size))
    return drawn_ratios(totals[:, :1], totals[:, 1:], resamples=resamples, seed=seed)[:, 0]


def _percentiles(replicates: FloatArray) -> Interval | None:
    defined = replicates[~np.isnan(replicates)]
    if defined.size == 0:
        return None
    low, high = np.quantile(defined, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(float(low), float(high))


def bootstrap_ci(values: ArrayLike, clusters: Sequence[Any] | NDArray[Any] | None = None) -> Interval | None:
    """Return a percentile interval of `bootstrap_replicates`; None with fewer than two clusters."""
    rows = _finite(values)
    if np.unique(_cluster_numbers(clusters, rows.size)).size < 2:
        return None
    return _percentiles(bootstrap_replicates(rows, clusters))


def cluster_draws(clusters: int, *, resamples: int = RESAMPLES, seed: int = SEED) -> FloatArray:
    """Return how often each cluster is drawn, (resamples, clusters)."""
    blocks = _draws(clusters, resamples=resamples, seed=seed, width=clusters)
    return np.concatenate([counts.astype(np.float64) for counts in blocks])


def drawn_sums(sums: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED) -> FloatArray:
    """Return K sums over clusters on every draw, (resamples, K), from sums by cluster, (clusters, K)."""
    return drawn_tables([sums], resamples=resamples, seed=seed)[0]


def drawn_tables(tables: Sequence[FloatArray], *, resamples: int = RESAMPLES, seed: int = SEED) -> list[FloatArray]:
    """Return `drawn_sums` of each table, all of equally many clusters.

    Drawing takes ten times as long as the rest, so the tables share the draws. A table whose sums are rounded is
    multiplied alone, so that its last bits do not depend on the other tables.
    """
    is_exact = [_is_exact(table) for table in tables]
    exact = np.hstack([np.empty((len(tables[0]), 0)), *compress(tables, is_exact)]).astype(np.float32)
    draws = [np.empty((resamples, table.shape[1])) for table in tables]
    width, start = max(table.shape[1] for table in tables), 0
    for counts in _draws(len(tables[0]), resamples=resamples, seed=seed, width=width):
        rows = slice(start, start + len(counts))
        exact_sums = iter((counts.astype(np.float32) @ exact).T)
        weights = np.empty(0) if all(is_exact) else counts.astype(np.float64)
        for table, sums, has_exact in zip(tables, draws, is_exact, strict=True):
            sums[rows] = np.stack([next(exact_sums) for _ in table.T], axis=1) if has_exact else weights @ table
        start = rows.stop
    return draws


def _is_exact(sums: FloatArray) -> bool:
    """Return whether float32, half of the memory traffic that takes most of the time, sums these without rounding."""
    return np.abs(sums).max(initial=0) * len(sums) < _EXACT_IN_FLOAT32 and np.array_equal(sums, np.rint(sums))


def drawn_ratios(totals: FloatArray, sizes: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED) -> FloatArray:
    """Return ratios of two sums over clusters on every draw, (resamples, K); NaN if a draw has no rows."""
    draws = drawn_sums(np.hstack([totals, sizes]), resamples=resamples, seed=seed)
    with np.errstate(invalid="ignore"):
        ratios: FloatArray = draws[:, : totals.shape[1]] / draws[:, totals.shape[1] :]
    return ratios


def interval_of(replicates: FloatArray, value: float) -> Interval | None:
    """Return the percentile interval of replicates, None if undefined; rounding noise does not exclude `value`."""
    interval = _percentiles(replicates)
    if interval is None:
        return None
    low, high = (value if math.isclose(end, value, abs_tol=1e-12) else end for end in (interval.low, interval.high))
    return Interval(low, high)


def wilson_ci(successes: int, n: int) -> Interval | None:
    """Return the Wilson score interval of a proportion (Wilson 1927); None without trials."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials")
    if n == 0:
        return None
    share, squared = successes / n, _NORMAL_QUANTILE**2
    denominator = 1 + squared / n
    center = (share + squared / (2 * n)) / denominator
    distance = _NORMAL_QUANTILE * math.sqrt(share * (1.0 - share) / n + squared / (4.0 * n**2)) / denominator
    return Interval(max(center - distance, 0.0), min(center + distance, 1.0))


def half_up(value: float, decimals: int) -> Decimal:
    """Round a number in its printed unit, halves away from zero: 44.25 gives 44.3 where Python gives 44.2.

    Binary noise is dropped first: 28.499999999999996 counts as 28.5. The result is never minus zero. Raises ValueError
    for a number that is not finite or at least 1e15, or for `decimals` outside 0..9.
    """
    if not abs(value) < _MAX_PRINTED or not 0 <= decimals <= _NOISE_DIGITS:
        raise ValueError(f"cannot round {value} to {decimals} decimals")
    cleaned = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-_NOISE_DIGITS), ROUND_HALF_UP)
    rounded = cleaned.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return rounded or abs(rounded)
