"""Build the standings of a report from the numbers and scores of an output."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from pipelines.benchmarks import benchmark
from pipelines.errors import DamagedPartError
from pipelines.plan.run_manifest import RunManifest
from pipelines.report.compare import Difference, compare_headline
from pipelines.report.landing.standing import Standing, standing_of, with_leads
from pipelines.report.landing.tables import cost_of
from pipelines.report.measured import TABLES, Measured
from pipelines.report.tables.token_efficiency import Efficiency
from pipelines.storage.store import Store

log = logging.getLogger(__name__)


def build_standings(
    out: Store, run: RunManifest, numbers: Sequence[Measured], efficiency: Sequence[Efficiency]
) -> tuple[Standing, ...]:
    """Return the standing of the models on each benchmark; of the first two by a paired test of their scores."""
    entries = {(entry.benchmark, entry.model): entry for entry in run.entries}
    standings = []
    for name in sorted({number.benchmark for number in numbers}):
        of_tables = [number for number in numbers if number.benchmark == name and number.source == TABLES]
        cost = cost_of([row for row in efficiency if row.benchmark == name], run.models)
        standings.append(replace(standing_of(benchmark(name), of_tables, run.baselines), dollars=cost))

    def test(second: Measured, first: Measured) -> Difference | None:
        a, b = (entries.get((number.benchmark, number.model)) for number in (second, first))
        if a is None or b is None:  # one of them stands for several models
            return None
        try:
            return compare_headline(out, (a, b), first.metric, first.task, first.setting)
        except DamagedPartError as error:  # the report says what it can, as where it reduces the parts
            log.warning("%s; %s and %s are not compared", error, second.model, first.model)
            return None

    return with_leads(standings, test)
