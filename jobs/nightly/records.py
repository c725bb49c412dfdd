"""Records of a nightly run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobs.nightly.history import Pair
from jobs.nightly.judge_drift import JudgeDrift
from jobs.nightly.regressions import Comparison
from pipelines.hashing import stable_id
from pipelines.report.metrics_file import Measured

BASIS = ("cells", "dataset", "prompt")
"""Parts of a pair under which the same samples are asked the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStatus:
    """A pair of the configuration, and why it has to run; `why` is '' if it is unchanged."""

    model: str
    benchmark: str
    parts: Mapping[str, str]
    why: str
    before: Pair | None

    @property
    def fingerprint(self) -> str:
        """Return the hash of all parts."""
        return stable_id(dict(self.parts))

    @property
    def basis(self) -> str:
        """Return the hash of the parts under which samples of two nights are pairs."""
        return stable_id({name: self.parts.get(name, "") for name in BASIS})


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneMetric:
    """A number of the last measurement that tonight's lacks."""

    key: tuple[str, ...]  # benchmark, task, model, setting, subset, category, metric
    before: float
    since: str  # the night of the earlier number

    @property
    def whole(self) -> bool:
        """Return whether it is of no subset or category."""
        return self.key[4] == "" and self.key[5] == ""

    @property
    def is_alarm(self) -> bool:
        """Return whether it is over a whole benchmark: a category may have lost its last row."""
        return self.whole


@dataclass(slots=True)
class NightlyResult:
    """The result of a night."""

    name: str
    pairs: list[Pair] = field(default_factory=list)
    metrics: list[Measured] = field(default_factory=list)  # measured tonight
    gone: list[GoneMetric] = field(default_factory=list)
    comparison: Comparison = field(default_factory=Comparison)
    drifts: list[JudgeDrift] = field(default_factory=list)
    judging_usd: float = 0.0  # of the answers that were judged again
    warnings: list[str] = field(default_factory=list)
    over_budget: list[str] = field(default_factory=list)  # models with more failed rows than allowed
    summary: str = ""
    report: str = ""
    """Path of the page of the joint report; '' when none was made."""

    def pairs_in(self, state: str) -> list[Pair]:
        """Return the pairs with state `ran`, `unchanged`, `failed` or `waiting`."""
        return [pair for pair in self.pairs if pair.state == state]

    @property
    def has_alarm(self) -> bool:
        """Return whether a score changed, a number is gone, a model failed, or too many rows failed."""
        is_gone = any(metric.is_alarm for metric in self.gone)
        return bool(self.pairs_in("failed") or self.over_budget or self.comparison.alarms or is_gone)

    @property
    def all_failed(self) -> bool:
        """Return whether every pair that was due failed."""
        return bool(self.pairs_in("failed")) and not self.pairs_in("ran")

    @property
    def cost_usd(self) -> float:
        """Return the sum of the known costs."""
        return sum(pair.cost_usd or 0.0 for pair in self.pairs) + self.judging_usd
