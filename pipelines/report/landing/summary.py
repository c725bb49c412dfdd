"""What the first page of a report shows, for all formats."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.benchmarks.figures import Bars
from pipelines.benchmarks.tables import Table
from pipelines.report.landing.sentences import Verdict, doubts, verdict_of
from pipelines.report.landing.tables import matrix_table, standing_figure
from pipelines.report.model import ReportData


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The answers of a report."""

    verdicts: Sequence[Verdict]
    judges: Sequence[str]
    doubts: Sequence[str]
    matrix: Table | None
    figure: Bars | None


def summary_of(report: ReportData) -> Summary:
    """Return the answers of a report."""
    standings = report.standings
    metrics = [row for row in report.metrics if row.model not in report.baselines]
    counts = [count for count in report.counts if count.model not in report.baselines]
    return Summary(
        verdicts=[verdict_of(at, counts) for at in standings],
        judges=[f"{judging}." for judging in report.judgings if not judging.is_doubtful],
        doubts=[*doubts(standings, metrics, counts, report.judgings), *report.warnings],
        matrix=matrix_table(standings, report.cost),
        figure=standing_figure(standings),
    )
