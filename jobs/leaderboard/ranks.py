"""The ranks that a model may have: simultaneous tests of all pairs of a board.

Models with scores of the same rows are tested as pairs over clusters, others by their intervals. Holm's correction over
all pairs holds all ranges of a board at 95%.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

from jobs.leaderboard.rows import LeaderboardRow
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.metrics_kernel.paired import PairedMetric
from pipelines.benchmarks.records import RIGHT, Sample
from pipelines.errors import DatasetError, StoreError
from pipelines.ingest.dataset import Dataset
from pipelines.metrics.intervals import DIFFERENCE, LEVEL, interval, student_p, student_quantile
from pipelines.metrics.paired import PairedSums, holm
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.report.scored_pair import ScoredPair, ScoreRows
from pipelines.storage.store import Store

_SAME = 1e-9


class PairReader:
    """Reads the score rows of each model once, and aligns two models once."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._rows = lru_cache(maxsize=None)(self._read_rows)
        self._samples = lru_cache(maxsize=None)(self._read_samples)
        self._pairs: dict[tuple[str, ...], list[PairedMetric]] = {}
        self._entries: dict[tuple[str, str, str], tuple[Store, ManifestEntry]] = {}

    def metric(self, a: LeaderboardRow, b: LeaderboardRow) -> PairedMetric | None:
        """Return the metric of two rows of a board on the rows that both scored; None without such scores."""
        if a.scored is None or b.scored is None:
            return None
        keys = [self._key(*a.scored), self._key(*b.scored)]
        pair = self._pairs.setdefault((*keys[0], *keys[1]), [])
        if not pair:
            pair.extend(self._metrics(*keys))
        _, name, *group = a.board
        metrics = {m.metric: m for m in pair if [m.task, m.setting, m.subset] == group and not m.category}
        return metrics.get(name) or next(
            (metrics[n] for n in RIGHT if n in metrics and _has_values(metrics[n], a, b)), None
        )

    def _key(self, out: Store, entry: ManifestEntry) -> tuple[str, str, str]:
        key = (out.uri, entry.benchmark, entry.model)
        self._entries[key] = (out, entry)
        return key

    def _read_rows(self, key: tuple[str, str, str]) -> ScoreRows:
        return ScoreRows.read(*self._entries[key])

    def _read_samples(self, data: str, name: str) -> Mapping[str, Sample]:
        try:
            return {sample.sample_id: sample for sample in Dataset.open(Store(data), name).samples()}
        except (DatasetError, StoreError):  # the board is then ranked by intervals
            return {}

    def _metrics(self, a: tuple[str, str, str], b: tuple[str, str, str]) -> Iterator[PairedMetric]:
        first, second = self._entries[a][1], self._entries[b][1]
        pair = ScoredPair(a=first, b=second, rows_a=self._rows(a), rows_b=self._rows(b))
        if pair.unscored:
            return
        yield from (metric for metric, _, _ in pair.score_means())
        samples = self._samples(second.data, second.benchmark) if first.definition.measures else {}
        for rows in pair.answered() if samples else ():
            with_data = rows[0]["sample_id"].isin(list(samples)).to_numpy()
            rows_a, rows_b = (side[with_data].reset_index(drop=True) for side in rows)
            if len(rows_a):
                yield from first.definition.paired_metrics(rows_a, rows_b, samples)


def _has_values(metric: PairedMetric, a: LeaderboardRow, b: LeaderboardRow) -> bool:
    """Return whether the means of two models' verdicts are the values of their rows."""
    values = PairedSums.of(metric.a, metric.b).values
    return all(abs(value - (row.value or 0.0)) < _SAME for value, row in zip(values, (a, b), strict=True))


def rank_ranges(rows: Sequence[LeaderboardRow], pairs: PairReader) -> list[tuple[int, int]]:
    """Return the lowest and highest rank of each row of a board, the rows having values."""
    sign = -1 if rows and rows[0].board[1] in benchmark(rows[0].board[0]).lower_is_better else 1
    places = list(combinations(range(len(rows)), 2))
    tests = [_test(rows[i], rows[j], pairs.metric(rows[i], rows[j])) for i, j in places]
    better = [0] * len(rows)  # how many are better than each, for certain
    worse = [0] * len(rows)
    for (i, j), (gain, _), p in zip(places, tests, holm([p for _, p in tests]), strict=True):
        if p is not None and p < 1 - LEVEL:
            winner, loser = (j, i) if sign * gain > 0 else (i, j)
            better[loser] += 1
            worse[winner] += 1
    return [(1 + above, len(rows) - below) for above, below in zip(better, worse, strict=True)]


def _test(a: LeaderboardRow, b: LeaderboardRow, metric: PairedMetric | None) -> tuple[float, float]:
    """Return B minus A and its two-sided p-value; 1 where nothing says how sure the difference is."""
    if metric is not None:
        return paired_p(metric, DIFFERENCE if a.unit == "fraction" else (-math.inf, math.inf))
    if a.value is None or b.value is None:
        return 0.0, 1.0
    gain = b.value - a.value
    low, high = (a, b) if gain > 0 else (b, a)
    if low.value is None or high.value is None or low.ci_high is None or high.ci_low is None or not gain:
        return gain, 1.0
    # Half widths of 95% intervals on the sides that face each other (Zou and Donner 2008).
    reach = math.hypot(low.ci_high - low.value, high.value - high.ci_low)
    return gain, student_p(abs(gain) / reach * student_quantile(10_000), math.inf) if reach else 1.0


def paired_p(metric: PairedMetric, ends: tuple[float, float]) -> tuple[float, float]:
    """Return B minus A and the p-value by which its interval of the same level would leave out 0.

    Where the difference is the same in each cluster, it is that of a sign test over clusters.
    """
    pair = PairedSums.of(metric.a, metric.b)
    value_a, value_b = pair.values
    gain = value_b - value_a
    if math.isnan(gain) or not gain or pair.clusters < 2:
        return gain, 1.0
    reached = interval([*metric.b, *(replace(term, weight=-term.weight) for term in metric.a)], ends)
    if reached is None:
        return gain, 2.0 ** (1 - pair.clusters)
    reach = max(reached.high - gain, gain - reached.low)  # one side may be cut at an end of the scale
    return gain, student_p(abs(gain) / reach * student_quantile(reached.freedom), reached.freedom)
