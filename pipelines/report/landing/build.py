"""Build the standings of a report from the numbers and scores of an output."""

from collections.abc import Sequence
from dataclasses import replace

from pipelines.benchmarks import benchmark
from pipelines.plan.run_manifest import RunManifest
from pipelines.report.compare import headline_tests
from pipelines.report.landing.standing import Standing, standing_of, with_leads
from pipelines.report.landing.tables import cost_of
from pipelines.report.metrics_file import TABLES, Measured
from pipelines.report.tables.token_efficiency import Efficiency
from pipelines.storage.store import Store


def build_standings(
    out: Store, run: RunManifest, numbers: Sequence[Measured], efficiency: Sequence[Efficiency]
) -> tuple[Standing, ...]:
    """Return the standing of the models on each benchmark; of the first two with the paired test of their scores."""
    standings = []
    for name in sorted({number.benchmark for number in numbers}):
        table_numbers = [number for number in numbers if number.benchmark == name and number.source == TABLES]
        cost = cost_of([row for row in efficiency if row.benchmark == name], run.models)
        standings.append(replace(standing_of(benchmark(name), table_numbers, run.baselines), dollars=cost))

    return with_leads(standings, headline_tests(out) if any(len(at.ranked) > 1 for at in standings) else {})
