"""Simulations with known true values, as tables of the documentation: `python -m tests.bench.simulate NAME`.

`make simulate` and `make simulate-NAME` run them; `--repetitions` and `--seed` change the default of each.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from statistics import fmean
from typing import Final

import numpy as np

from jobs.analysis.items.create import LISTED_Q, benjamini_hochberg, reversed_p
from jobs.analysis.items.statistics import rest_shares, suspicions
from pipelines.decisions.evidence import Evidence
from pipelines.decisions.gate import Claim, Decision, LineResult, decide
from tests.bench.nightly_simulation import simulate_nightly
from tests.bench.results import heads, row
from tests.support.interval_simulation import Case, cases, coverage, intervals
from tests.support.item_simulation import Simulated, coin_tosses, simulated, simulated_ranges
from tests.support.judge_simulation import JUDGES, LABELS, SETS, Labelling
from tests.support.judge_simulation import coverage as judge_coverage
from tests.support.paired_simulation import Pair, simulate, simulate_power
from tests.support.paths import ROOT
from tests.support.sequential_simulation import GAPS, SHAPES, simulate_intervals, simulate_rankings

PAIRED_KINDS: Final = {
    "right or wrong": {"binary": True, "sized": False},
    "right or wrong, 12 to 36 rows": {"binary": True, "sized": True},
    "score": {"binary": False, "sized": False},
}
GAIN: Final = 0.3  # of B's latent score
LINE: Final = LineResult(
    benchmark="", model="", task="", setting="", subset="", category="", metric="", rule="", value=None
)
# Rows that are each a cluster; clips of 24 questions that pass or fail as a whole, or in part; unequal clips.
GATE_CASES: Final = tuple(
    Case("share", *shape)
    for shape in (
        *((clusters, "1", share, 0.0) for clusters, share in ((30, 0.97), (100, 0.9), (400, 0.7))),
        *((clusters, "24", share, 1.0) for clusters, share in ((10, 0.9), (30, 0.97), (20, 0.5))),
        *((clusters, "24", share, 0.2) for clusters, share in ((5, 0.7), (10, 0.7), (50, 0.9))),
        *((clusters, "24", 0.95, 0.6) for clusters in (20, 100)),
        *((clusters, "lognormal", 0.8, icc) for clusters in (20, 60) for icc in (0.2, 1.0)),
        *((clusters, "lognormal", 0.9, 0.6) for clusters in (20, 60, 100)),
        *((clusters, "one half", 0.7, 0.2) for clusters in (10, 40)),
    )
)
# Questions that are each a cluster; few and many clips of many questions; repeats, planned with another number.
PILOTS: Final = (
    (Pair(200, 1, 0.5, 0.6), 1),
    (Pair(100, 1, 0.9, 0.8), 1),
    (Pair(60, 1, 0.5, 0.65), 1),
    (Pair(5, 40, 0.5, 0.6, 0.1), 1),
    (Pair(5, 100, 0.5, 0.6, 0.1), 1),
    (Pair(7, 100, 0.5, 0.6, 0.1), 1),
    (Pair(10, 24, 0.5, 0.65, 0.1), 1),
    (Pair(40, 10, 0.6, 0.68, 0.1), 1),
    (Pair(100, 1, 0.5, 0.6, repeats=4), 4),
    (Pair(100, 1, 0.5, 0.6, repeats=2), 8),
    (Pair(20, 10, 0.5, 0.6, 0.1, repeats=4), 1),
)


def paired(repetitions: int, seed: int) -> None:
    """Compare two models whose true difference is known: docs/paired-tests.json and .md."""
    rows = []
    for (name, how), clusters in product(PAIRED_KINDS.items(), (3, 6, 10, 100)):
        null = simulate(clusters, gain=0.0, repetitions=repetitions, seed=seed, **how)
        real = simulate(clusters, gain=GAIN, repetitions=repetitions, seed=seed + 1, **how)
        rows.append(
            {
                "rows": name,
                "clusters": clusters,
                "repetitions": repetitions,
                "true difference": real.true_difference,
                "covered without a difference": null.covered,
                "covered": real.covered,
                "p < 0.05 without a difference": null.rejected,
                "p < 0.05": real.rejected,
            }
        )
    (ROOT / "docs" / "paired-tests.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    heads(*rows[0])
    for line in rows:
        row(*(f"{value:.4g}" if isinstance(value, float) else value for value in line.values()))


def gate(repetitions: int, seed: int) -> None:
    """Decide about releases whose true share is exactly a limit: docs/how-to/gate.md."""
    heads("clusters", "rows of each", "share", "correlation", "at least: GO, NO-GO", "at most: GO, NO-GO")
    for case in GATE_CASES:
        rates = []
        for sign in (1, -1):
            counts: Counter[Decision] = Counter()
            for ends, _, (term,) in intervals(case, repetitions, seed):
                right, total = term.columns.sum(axis=0)
                evidence = Evidence(right / total, ends.low, ends.high, int(total), ends.freedom or math.inf)
                counts[decide([Claim(LINE, evidence, case.value, sign)], 0.05).decision] += 1
            rates.append(", ".join(f"{counts[name] / repetitions:.1%}" for name in ("GO", "NO-GO")))
        row(case.clusters, case.size, f"{case.value:g}", f"{case.correlation:g}", *rates)


def interval_coverage(repetitions: int, seed: int) -> None:
    """Compute how often intervals hold the true value of a metric: docs/intervals.json and .md."""
    grid = list(cases((3, 6, 10, 20, 50, 400)))
    with ProcessPoolExecutor(2) as pool:
        held = list(pool.map(partial(coverage, repetitions=repetitions, seed=seed), grid, chunksize=8))
    groups: dict[str, dict[str, dict[Case, float]]] = defaultdict(lambda: defaultdict(dict))
    for case, share in zip(grid, held, strict=True):
        groups[case.kind][str(case.clusters)][case] = share
    for by_clusters in groups.values():
        by_clusters["all"] = {case: share for group in by_clusters.values() for case, share in group.items()}
    rows = []
    for kind, clusters, group in (
        (k, c, group) for k, by_clusters in groups.items() for c, group in by_clusters.items()
    ):
        worst = min(group, key=lambda case: group[case])
        rows.append(
            {
                "number": kind,
                "clusters": clusters,
                "cases": len(group),
                "average": round(fmean(group.values()), 4),
                "lowest": round(group[worst], 4),
                "lowest case": f"{worst.size} rows, {worst.value:g}, correlation {worst.correlation:g}",
            }
        )
    (ROOT / "docs" / "intervals.json").write_text(
        json.dumps({"repetitions": repetitions, "seed": seed, "rows": rows}, indent=1)
    )
    heads(*rows[0])
    for line in rows:
        row(*line.values())


def power(repetitions: int, seed: int) -> None:
    """Repeat pilots, and the comparisons that they plan: docs/how-to/gate.md."""
    heads(
        *("pilot: clusters", "rows of each", "shares right", "correlation", "repeats, planned", "clusters needed"),
        *("range holds", "power"),
    )
    for pair, repeats in PILOTS:
        outcome = simulate_power(pair, repetitions=repetitions, seed=seed, repeats=repeats)
        low, middle, high = outcome.clusters
        row(
            *(pair.clusters, pair.questions, f"{pair.share_a:g}, {pair.share_b:g}", f"{pair.correlation:g}"),
            *(f"{pair.repeats}, {repeats}", f"{middle} ({low} to {high})"),
            *(f"{outcome.within_range:.0%}" if repeats == pair.repeats else "-", f"{outcome.power:.1%}"),
        )


def until(repetitions: int, seed: int) -> None:
    """Run sweeps with `--until`: docs/how-to/until.md."""
    heads("full set", "reach", "inside at every stop", "median saved")
    for (name, shape), reach in product(SHAPES.items(), (0.02, 0.05)):
        outcome = simulate_intervals(shape, reach, repetitions, seed=seed)
        row(name, f"{reach:g}", f"{outcome.always_inside:.1%}", f"{outcome.saved:.0%}")
    heads("four models", "full set", "ranking wrong", "median saved")
    for gaps, name in product(GAPS, ("MAIA, 100 clips", "MATE, 5,500 scenes, 15% right")):
        outcome = simulate_rankings(SHAPES[name], GAPS[gaps], repetitions, seed=seed)
        row(gaps, name, f"{1 - outcome.always_inside:.1%}", f"{outcome.saved:.0%}")


def judges(repetitions: int, seed: int) -> None:
    """Correct judges that err by human labels, over the forms of data: docs/how-to/judges.md."""
    each = -(-repetitions // len(SETS))
    chosen_answers = ("at random", "3 to 1 from accepted", "accepted alone", "3 to 1 from the judge's errors")
    heads("judge", "labels", "corrected covers", "lowest", "not corrected", "half width")
    for judge, labels in product(JUDGES, LABELS):
        found = [judge_coverage(judge, clusters, labels, each, seed) for clusters in SETS]
        held, naive, reach = (fmean(getattr(case, name) for case in found) for name in ("corrected", "naive", "reach"))
        lowest = min(case.corrected for case in found)
        row(judge, labels, f"{held:.1%}", f"{lowest:.1%}", f"{naive:.1%}", f"{reach:.3f}")
    heads("people err", "two people label", "labels", "covers", "lowest", "half width")
    for errors, twice, labels in product((0.05, 0.1), (0.0, 0.3, 1.0), (100, 300)):
        labelling = Labelling(errors=errors, twice=twice)
        found = [
            judge_coverage(judge, clusters, labels, each // 4, seed, labelling)
            for judge, clusters in product(JUDGES, SETS)
        ]
        held, reach = (fmean(getattr(case, name) for case in found) for name in ("corrected", "reach"))
        lowest = min(case.corrected for case in found)
        row(f"{errors:.0%}", f"{twice:.0%}", labels, f"{held:.1%}", f"{lowest:.1%}", f"{reach:.3f}")
    heads("labelled answers", "labels", "warned", "covers")
    for chosen, labels in product(chosen_answers, (30, 100, 300)):
        found = [judge_coverage("lenient", clusters, labels, each, seed, Labelling(chosen=chosen)) for clusters in SETS]
        warned, held = (fmean(getattr(case, name) for case in found) for name in ("warned", "corrected"))
        row(chosen, labels, f"{warned:.1%}", f"{held:.1%}")


def items(repetitions: int, seed: int) -> None:
    """List items with flipped labels, and rank models: docs/how-to/gate.md and compare.md."""
    heads("data", "suspects", "false among them", "recall", "any reversed by chance")
    forms: dict[str, Callable[[int], Simulated]] = {"6 models toss coins, 400 items": coin_tosses}
    for models, flipped in product((5, 8, 12, 30), (0.0, 0.005, 0.02)):
        forms[f"{models} models, {flipped:.1%} flipped"] = partial(simulated, models=models, flipped=flipped)
    for models in (12, 30):
        forms[f"{models} models, no guessing, equal slopes, 0.0% flipped"] = partial(
            simulated, models=models, flipped=0.0, is_rasch=True
        )
    for models, flipped in product((12, 30), (0.0, 0.02)):
        forms[f"{models} models of 3 families, {flipped:.1%} flipped"] = partial(
            simulated, models=models, flipped=flipped, families=3
        )
    for name, make in forms.items():
        row(name, *flipped_items(make, range(seed, seed + repetitions)))
    heads("board", "rows", "all true ranks held", "mean width")
    boards = {
        "6 equal models": np.full(6, 0.5),
        "6 models, 3 points apart": 0.5 + 0.03 * np.arange(6),
        "two groups, 20 points apart": np.repeat([0.5, 0.7], 3),
    }
    for rows, (name, shares) in product((100, 400), boards.items()):
        held, width = 0, 0.0
        best = [(1 + int((shares > s).sum()), len(shares) - int((shares < s).sum())) for s in shares]
        for number in range(seed, seed + 10 * repetitions):
            rng = np.random.default_rng(number)
            # Half of the rows ask all models the same chance: answers to a row are correlated.
            common, separate = rng.random(rows) < 0.5, rng.random((len(shares), rows))
            ends = simulated_ranges((np.where(common, rng.random(rows), separate) < shares[:, None]).astype(float))
            held += all(low <= first and high >= last for (low, high), (first, last) in zip(ends, best, strict=True))
            width += float(np.mean([high - low for low, high in ends]))
        row(name, rows, f"{held / repetitions / 10:.1%}", f"{width / repetitions / 10:.1f}")


def flipped_items(make: Callable[[int], Simulated], seeds: range) -> list[str]:
    """Return how many items are listed, the share of false ones among them, the recall, and chance reversals."""
    listed = hits = flips = false_reversed = 0
    shares = []
    for seed in seeds:
        right, answers, is_flipped = make(seed)
        p_values = [None if s is None else s.p for s in suspicions(right, answers)]
        suspect, backward = (
            np.array([q is not None and q < LISTED_Q for q in benjamini_hochberg(p)])
            for p in (p_values, reversed_p(right, rest_shares(right)))
        )
        listed, hits, flips = listed + suspect.sum(), hits + (suspect & is_flipped).sum(), flips + is_flipped.sum()
        shares.append((suspect & ~is_flipped).sum() / max(1, suspect.sum()))
        false_reversed += bool((backward & ~is_flipped).any())
    recall = f"{hits / flips:.0%}" if flips else "-"
    return [f"{listed / len(seeds):.1f}", f"{np.mean(shares):.0%}", recall, f"{false_reversed / len(seeds):.0%}"]


SIMULATIONS: Final[dict[str, tuple[Callable[[int, int], None], int, int]]] = {
    "paired": (paired, 2000, 42),
    "gate": (gate, 4000, 7),
    "intervals": (interval_coverage, 1000, 42),
    "items": (items, 60, 0),
    "judges": (judges, 2000, 42),
    "nightly": (simulate_nightly, 200, 42),
    "power": (power, 1000, 5),
    "until": (until, 1000, 42),
}
"""Each with its repetitions and its seed."""


def main() -> None:
    """Run one simulation and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SIMULATIONS)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    run, repetitions, seed = SIMULATIONS[options.name]
    run(options.repetitions or repetitions, seed if options.seed is None else options.seed)


if __name__ == "__main__":
    main()
