from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from jobs.nightly.items import Accumulated, Items, ItemScores, ScoreKey, items_table, read_items
from jobs.nightly.regressions import Change, Comparison, Level, MetricPair, change_p, compare_runs
from pipelines.metrics.intervals import shift_p
from pipelines.report.metrics_file import Measured
from tests.bench.nightly_simulation import AFTER, NOISE, PLANTED, delays, false_alarms
from tests.unit.jobs.nightly.cases import metric

KEY = ScoreKey("m", "maia", "vsv", "1-frame", "correct")
OTHER = KEY._replace(setting="32-frames")
PAIR = ("m", "maia")


def scores(values: Sequence[float], start: int = 0) -> ItemScores:
    names = np.array([f"s{number:04}" for number in range(start, start + len(values))])
    return ItemScores.of(names, np.array(values, dtype=float))


def share(right: int, of: int = 200) -> ItemScores:
    return scores([1.0] * right + [0.0] * (of - right))


class Nights:
    """Nights of one pair, each compared with those before it."""

    def __init__(self) -> None:
        self.items: dict[str, Items] = {}
        self.levels: list[Level] = []

    def night(self, items: Items, basis: str = "b", **more: object) -> Comparison:
        name = f"{len([night for night in self.items if night]):03}"
        self.items |= {name: items, "": {}}
        comparison = compare_runs(name, items, self.levels, self.items.__getitem__, bases={PAIR: basis}, **more)
        self.items[name] = comparison.items
        self.levels = list(comparison.levels)
        return comparison

    def directions(self, right: int) -> list[str]:
        return [change.direction for change in self.night({KEY: share(right)}).changes]


def test_p_value_of_samples_of_both_nights_bounds_the_exact_one() -> None:
    before, now = scores([0.0] * 10), scores([1.0, 1, 1, 1, 1, 1, 1, 0.5, -1, 0.25])
    differences = now.totals - before.totals
    sums = [abs(np.dot(signs, differences)) for signs in product((-1, 1), repeat=10)]
    exact = np.mean([total >= abs(differences.sum()) - 1e-9 for total in sums])
    assert exact <= change_p(now, before) <= 1.0
    assert change_p(scores([1.0] * 50), scores([0.0] * 50, start=100)) == 1.0
    assert change_p(scores([1.0] * 50), scores([1.0] * 50)) == 1.0
    assert change_p(scores([1.0] * 50), scores([0.0] * 50)) < 1e-9
    assert change_p(scores([1.0] * 50), scores([0.0] * 60, start=10)) == change_p(share(40, 40), share(0, 40))


def test_change_is_that_of_the_samples_of_both_nights_weighed_by_their_rows() -> None:
    nights = Nights()
    nights.night({KEY: scores([0.0] * 200 + [1.0] * 40)})
    (change,) = nights.night({KEY: scores([0.0] * 30 + [1.0] * 210, start=200)}).changes
    assert change.direction == "fell"  # although the mean over all samples rose
    assert (change.before, change.now, change.n) == (1.0, 0.25, 40)

    def rows(counts: Sequence[int], value: float) -> ItemScores:
        values = scores([0.0] * len(counts))
        totals = np.array([count * value for count in counts])
        totals[0] = 0.0  # the first sample never has the score
        return replace(values, totals=totals, rows=np.array(counts, dtype=float))

    nights = Nights()
    nights.night({KEY: rows([100, *[2] * 100], 0.5)})
    (change,) = nights.night({KEY: rows([100, *[1] * 100], 1.0)}).changes
    assert (change.direction, change.before, change.now, change.n) == ("rose", 0.25, 0.5, 101)


def test_regression_is_an_alarm_once_until_values_return() -> None:
    nights = Nights()
    assert nights.directions(150) == []
    assert nights.directions(150) == []
    assert nights.directions(110) == ["fell"]
    assert nights.directions(110) == []
    assert nights.directions(112) == []
    assert nights.directions(150) == ["returned"]
    assert nights.directions(150) == []
    assert nights.directions(110) == ["fell"]  # after its return it is another one
    assert nights.directions(60) == ["fell"]  # and so is a further fall
    nights = Nights()
    nights.directions(150)
    assert [change.direction for change in nights.night({KEY: share(110)}).alarms] == ["fell"]
    assert nights.night({KEY: share(150)}).alarms == []


def test_slow_drift_is_reported_against_the_level_where_it_began() -> None:
    nights = Nights()
    reports = [nights.directions(right) for right in range(150, 134, -2)]
    assert [report for report in reports if report] == [["fell"]]


def test_other_scores_repeat_no_change_and_those_that_are_gone_are_reported_once() -> None:
    nights = Nights()
    nights.night({KEY: share(150), OTHER: share(150)})
    first = nights.night({KEY: share(110), OTHER: share(141)})  # the second alone is too small
    assert [change.key for change in first.changes] == [KEY]
    assert nights.night({KEY: share(110), OTHER: share(136)}).changes == []
    nights = Nights()
    nights.night({KEY: share(150), OTHER: share(150)})
    (gone,) = nights.night({KEY: share(150)}).changes
    assert (gone.key, gone.direction, gone.now) == (OTHER, "gone", None)
    assert nights.night({KEY: share(150)}).changes == []
    assert nights.night({KEY: share(150), OTHER: share(150)}).changes == []
    assert [change.key for change in nights.night({KEY: share(150), OTHER: share(90)}).changes] == [OTHER]


def test_other_prompts_are_compared_by_intervals_and_are_the_new_level() -> None:
    nights = Nights()
    nights.night({KEY: share(150)}, basis="old")
    before = metric(0.75, ci_low=0.70, ci_high=0.80, n=400)

    def pair(value: float) -> MetricPair:
        now = metric(value, ci_low=value - 0.05, ci_high=value + 0.05, n=400)
        return MetricPair(before=before, now=now, since="000")

    assert nights.night({KEY: share(140)}, basis="new", metrics=[pair(0.70)]).changes == []
    (change,) = nights.night({KEY: share(80)}, basis="newer", metrics=[pair(0.40)]).changes
    assert (change.test, change.direction, change.key.score) == ("intervals", "fell", "statement_accuracy")
    assert nights.night({KEY: share(80)}, basis="newer").changes == []


def test_intervals_of_few_clusters_are_students_and_a_perfect_score_is_no_certainty() -> None:
    """Five clips: half-width 0.05 is 2.776 errors; a fall of 5.617 combined errors has p = 0.0005 with 8 degrees."""

    def measured(value: float, freedom: int) -> Measured:
        return metric(value, ci_low=value - 0.05, ci_high=value + 0.05, n=960, ci_df=freedom)

    def changes(fall: float, freedom: int) -> list[Change]:
        nights = Nights()
        pair = MetricPair(before=measured(0.75, freedom), now=measured(0.75 - fall, freedom), since="000")
        return list(nights.night({KEY: share(150)}, basis="new", metrics=[pair]).changes)

    combined = 0.05 / 2.776445 * math.sqrt(2)
    (change,) = changes(5.617411 * combined, 4)
    assert change.p == pytest.approx(0.0005, rel=1e-3)
    assert changes(3.7 * combined, 4) == []  # p = 0.006, and the level 0.0009
    assert len(changes(0.12, 10_000)) == len(changes(0.12, 0)) == 1
    before = metric(1.0, ci_low=1.0, ci_high=1.0, n=100)
    now = metric(0.98, ci_low=0.98, ci_high=0.98, n=100)
    pair = MetricPair(before=before, now=now, since="000")
    assert Nights().night({KEY: share(98)}, metrics=[pair]).changes == []


def test_levels_stay_or_are_replaced_by_the_next_measurement() -> None:
    nights = Nights()
    nights.night({KEY: share(150)})
    other = Level(model="n", benchmark="maia", night="000", basis="b")
    nights.levels.append(other)
    assert other in nights.night({KEY: share(150)}).levels
    assert compare_runs("009", {}, nights.levels, nights.items.__getitem__, bases={}).levels == nights.levels
    nights = Nights()
    nights.night({KEY: share(150)})
    nights.items["000"] = {}
    assert nights.directions(90) == []
    assert nights.directions(90) == []
    assert nights.directions(150) == ["rose"]
    nights = Nights()
    nights.directions(150)
    nights.directions(100)
    (level,) = nights.levels
    assert (level.night, level.before, level.is_new) == ("001", "000", True)
    nights.directions(108)
    assert nights.levels == [replace(level, night="002", latest="002", is_new=False)]


def test_clips_and_not_samples_are_evidence() -> None:
    clips = np.repeat(np.arange(5), 40)
    names, right = np.arange(200), (np.arange(200) % 2).astype(float)
    before = ItemScores.of(names, right, clips)
    assert change_p(ItemScores.of(names, np.zeros(200), clips), before) < 1e-9
    assert change_p(ItemScores.of(names, np.where(clips == 0, 0.0, right), clips), before) > 0.1
    clips = np.repeat(np.arange(20), 30)
    names, right = np.arange(600), np.ones(600)
    two_clips = ItemScores.of(names, np.where(clips < 2, 0.0, right), clips)
    assert change_p(two_clips, ItemScores.of(names, right, clips)) > 0.1
    assert change_p(ItemScores.of(names, two_clips.totals), ItemScores.of(names, right)) < 1e-9


def test_a_fall_too_small_for_a_night_is_reported_once_by_nights_and_chance_without_an_alarm() -> None:
    nights = Nights()
    reports = [nights.night({KEY: share(150)}) for _ in range(8)]
    reports += [nights.night({KEY: share(138)}) for _ in range(8)]
    changes = [change for report in reports for change in report.changes]
    assert [(change.test, change.direction, change.n) for change in changes] == [("nights", "fell", 200)]
    assert (changes[0].before, changes[0].now) == pytest.approx((0.75, 0.69))
    (back,) = nights.night({KEY: share(150)}).changes
    assert back.direction == "returned"
    nights = Nights()
    for _ in range(8):
        assert nights.night({KEY: share(150)}).unconfirmed == []
    report = nights.night({KEY: share(144)})
    assert report.changes == []
    (change,) = report.unconfirmed
    assert (change.test, change.direction, change.since) == ("paired", "fell", "000")
    assert change.p == pytest.approx(0.0143, rel=0.01)  # six one way


def test_a_resumed_history_goes_on_with_what_nights_add_up_to() -> None:
    def run(restart: bool) -> list[int]:
        nights = Nights()
        for number in range(14):
            if restart:  # as the history stores and reads the scores
                nights.items = {name: read_items(items_table(items)) for name, items in nights.items.items()}
            if nights.night({KEY: share(150 if number < 8 else 138)}).changes:
                return [number]
        return []

    assert run(restart=True) == run(restart=False) != []


NAMES = np.arange(100)
SHARE = 1e-5


def state(right: int) -> Accumulated:
    return Accumulated.start(NAMES, NAMES, np.ones(100), (right > NAMES).astype(float))


def test_sums_are_a_cusum_of_distances_from_the_mean_of_all_nights_before() -> None:
    noisy = state(50).add(NAMES, (NAMES < 52).astype(float))
    # two samples rose: distance 2 * sqrt(1/2), variance 2 * 1/2, so z = sqrt(2)
    assert noisy.up == pytest.approx(math.sqrt(2) - 0.5)
    assert noisy.down == 0
    assert (noisy.nights_before, noisy.nights_after) == (1, 1)
    calm = noisy.add(NAMES, (NAMES < 51).astype(float))
    assert calm.up == pytest.approx(math.sqrt(2) - 1.0)  # tonight is the mean of both
    assert calm.noise == pytest.approx(1 + 2 * 0.25 * 2 / 3)
    back = calm.add(NAMES, (NAMES < 50).astype(float))
    assert (back.up, back.nights_before, back.nights_after) == (0.0, 1, 3) if back.down else (0.0, 4, 0)


def test_nights_without_evidence_join_the_mean_and_samples_that_a_night_lacks_keep_theirs() -> None:
    same = state(50).add(NAMES, (NAMES < 50).astype(float))
    assert (same.nights_before, same.nights_after, same.noise) == (2, 0, 0.0)
    assert same.p(0.5) is None
    added = state(50).add(NAMES[10:], (NAMES[10:] < 50).astype(float))
    assert (added.noise, added.nights_before) == (0.0, 2)


def test_a_small_lasting_fall_is_one_of_nights_and_samples() -> None:
    before, fallen = state(60), (NAMES < 48).astype(float)
    reported = []
    for _ in range(6):
        before = before.add(NAMES, (NAMES < 60).astype(float))
    for _ in range(3):
        before = before.add(NAMES, fallen)
        reported.append(before.p(SHARE))
    p = next(p for p in reported if p is not None)
    assert p < 0.002
    assert before.means == pytest.approx((0.6, 0.48))


def test_answers_that_moved_both_ways_for_good_are_no_change() -> None:
    added, moved = state(60), np.isin(NAMES, [*range(52), *range(60, 63)]).astype(float)  # 8 fell, 3 rose
    for night in range(40):
        added = added.add(NAMES, (NAMES < 60).astype(float) if night < 20 else moved)
        assert added.p(SHARE) is None
    assert added.down > 0


def test_p_value_of_many_clusters_is_near_that_of_all_signs_and_of_few_students() -> None:
    differences = np.array([1.0] * 17 + [-1.0] * 5)
    exact = 2 * sum(math.comb(22, k) for k in range(17, 23)) / 2**22
    assert shift_p(differences, np.arange(22)) == pytest.approx(exact, rel=0.4)
    few = np.array([3.0, 1.0, 2.0, 2.5, 1.5])
    t = few.sum() / math.sqrt((few**2).sum())  # the spread of clips is less than that of their samples
    assert shift_p(few, np.arange(5)) == pytest.approx(_student(t, 4), rel=1e-6)


def _student(t: float, freedom: int) -> float:
    from scipy.stats import t as student

    return float(2 * student.sf(t, freedom))


def test_clusters_not_samples_are_independent() -> None:
    """All signs of four clips: the samples of a clip move together, so that no number of them is evidence."""
    clips = np.repeat(np.arange(4), 50)
    below = sum(shift_p(np.repeat(signs, 50).astype(float), clips) < 0.05 for signs in product((-1.0, 1.0), repeat=4))
    assert below <= 2  # of 16, all alike
    assert shift_p(np.ones(200), np.arange(200)) < 1e-9
    assert shift_p(np.ones(50), np.zeros(50)) == 1.0


@pytest.mark.full
@pytest.mark.parametrize("noise", ["0.5% of the answers", "5% of the answers", "2 of 20 clips"])
def test_simulated_nights_without_a_change_are_calm(noise: str) -> None:
    assert false_alarms([3], NOISE[noise], nights=120)[0] <= 1


@pytest.mark.parametrize(("noise", "most"), [("0.5% of the answers", 4), ("5% of the answers", 15)])
def test_simulated_falls_of_two_percent_are_reported_within_nights(noise: str, most: int) -> None:
    reported = sorted(delays([3], NOISE[noise], PLANTED["2% in one setting"]))
    assert reported[len(reported) // 2] <= most
    assert sum(night <= AFTER for night in reported) >= 0.9 * len(reported)


def test_simulated_drift_is_reported_within_weeks() -> None:
    reported = sorted(delays([3], NOISE["5% of the answers"], PLANTED["0.1 points a night in one setting"]))
    assert reported[len(reported) // 2] <= 28
    assert reported[-1] <= AFTER


def test_rows_are_summed_by_sample_and_read_back() -> None:
    scores = ItemScores.of(np.array(["b", "a", "b"]), np.array([1.0, 0.5, 0.0]))
    assert scores.samples.tolist() == ["a", "b"]
    assert scores.totals.tolist() == [0.5, 1.0]
    assert scores.rows.tolist() == [1.0, 2.0]
    assert scores.mean == 0.5
    keys = [ScoreKey("m", "maia", "vsv", setting, "correct") for setting in ("1-frame", "")]
    items = {key: ItemScores.of(np.array(["a", "é"]), np.array([0.25, 1.0])) for key in keys}
    read = read_items(items_table(items))
    assert list(read) == keys
    for key, scores in read.items():
        assert scores.samples.tolist() == items[key].samples.tolist()
        assert scores.totals.tolist() == items[key].totals.tolist()
        assert scores.rows.tolist() == items[key].rows.tolist()
    assert read_items(items_table({})) == {}


def test_table_returns_what_nights_add_up_to_with_samples_that_tonight_lacks() -> None:
    key = ScoreKey("m", "maia", "", "", "correct")
    first = ItemScores.of(np.array(["a", "b"]), np.array([1.0, 0.0]), np.array(["clip", "clip"]))
    tonight = ItemScores.of(np.array(["b", "c"]), np.array([1.0, 1.0]), np.array(["clip", "other"]))
    added = first.begun().add(tonight.samples, tonight.totals)
    read = read_items(items_table({key: replace(tonight, accumulated=added)}))[key]
    assert read.samples.tolist() == ["b", "c"]
    assert read.clusters.tolist() == ["clip", "other"]
    assert read.accumulated.samples.tolist() == ["a", "b"]
    assert read.accumulated.clusters.tolist() == ["clip", "clip"]
    for name in ("weights", "before", "after"):
        assert getattr(read.accumulated, name).tolist() == getattr(added, name).tolist()
    for name in ("nights_before", "nights_after", "up", "down", "noise"):
        assert getattr(read.accumulated, name) == getattr(added, name)
