"""The result of a sweep."""

from dataclasses import dataclass, field

from pipelines.predict.cost_tracker import CostTracker
from pipelines.predict.records import TaskCount
from pipelines.report.metrics_file import Measured


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a sweep."""

    counts: list[TaskCount] = field(default_factory=list)  # requests of this run's models by task, setting and outcome
    metrics: list[Measured] = field(default_factory=list)
    judge_failed: int = 0
    unavailable: list[str] = field(default_factory=list)
    """Why models were unavailable, one sentence each; the others ran."""
    warnings: list[str] = field(default_factory=list)
    report: str = ""  # path of the report's page; '' when none was made
    spending: CostTracker = field(default_factory=CostTracker)  # tokens and dollars of this run

    @property
    def failed(self) -> int:
        """Rows that failed, the judge's among them."""
        return sum(count.error for count in self.counts) + self.judge_failed

    @property
    def requests(self) -> int:
        """Rows of the plan."""
        return sum(count.requests for count in self.counts)
