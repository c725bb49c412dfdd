"""May this model be released: the numbers of an output against a policy.

GO where every line holds at its bound of the interval, NO-GO where some line is significantly broken (one-sided, Holm
over all lines), INCONCLUSIVE otherwise, with the rows that would tell.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from models.errors import YamlFileError, suggest
from models.strict_yaml import read_yaml
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.records import is_person
from pipelines.decisions.evidence import NORMAL, Evidence, ScoredEntry, paired_gap, quantile, rows_for
from pipelines.errors import UsageError
from pipelines.metrics.intervals import DIFFERENCE
from pipelines.metrics.paired import holm
from pipelines.plan.run_manifest import load_existing_runs, load_run
from pipelines.plan.selection import check_names
from pipelines.report.metrics_file import Measured, load_metrics
from pipelines.storage.store import Store

_LISTS: Final = ("policy", "lines", "rules", "metrics")  # a policy that is a mapping has one of them


class Line(BaseModel):
    """One line: a number, and the limit that it must keep. What is left out of task and setting is each that has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: str
    metric: str = ""  # the benchmark's headline
    model: str = ""
    task: str = ""
    setting: str = ""
    subset: str = ""
    category: str = ""
    at_least: float | None = Field(default=None, strict=True, allow_inf_nan=False)
    at_most: float | None = Field(default=None, strict=True, allow_inf_nan=False)
    not_worse_than: Literal["baseline"] | None = None
    margin: float | None = Field(default=None, ge=0, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if sum(limit is not None for limit in (self.at_least, self.at_most, self.not_worse_than)) != 1:
            raise ValueError("give one of at_least, at_most and not_worse_than")
        if (self.margin is None) != (self.not_worse_than is None):
            raise ValueError(
                "not_worse_than and margin belong together, such as not_worse_than: baseline, margin: 0.02"
            )
        return self


@dataclass(frozen=True, slots=True)
class Policy:
    """Lines, all of which must hold, and the share of false alarms over all of them."""

    lines: tuple[Line, ...]
    alpha: float = 0.05


def read_policy(path: Path) -> Policy:
    """Read a policy: a list of lines, or a mapping of `alpha` and `policy`; UsageError names file and line."""
    try:
        raw, _ = read_yaml(path, "file")
    except YamlFileError as error:
        raise UsageError(f"--policy {error}") from error
    alpha: Any = 0.05
    if isinstance(raw, dict):
        unknown = [str(key) for key in raw if key not in (*_LISTS, "alpha")]
        if unknown:
            raise UsageError(f"--policy {path}: unknown key {unknown[0]!r}{suggest(unknown[0], (*_LISTS, 'alpha'))}")
        alpha = raw.get("alpha", alpha)
        given = [key for key in _LISTS if key in raw]
        if len(given) > 1:
            raise UsageError(f"--policy {path}: {' and '.join(given)} both hold lines; give one list")
        raw = raw[given[0]] if given else None
    if isinstance(raw, list) and raw and isinstance(raw[0], dict) and raw[0].keys() == {"alpha"}:
        alpha, *raw = raw[0]["alpha"], *raw[1:]
    if not isinstance(raw, list) or not raw:
        raise UsageError(f"--policy {path}: expected a list of lines, such as `- {{benchmark: mate, at_least: 0.5}}`")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1:
        raise UsageError(f"--policy {path}: alpha is {alpha!r}, expected a number between 0 and 1")
    return Policy(tuple(_line(path, number, entry) for number, entry in enumerate(raw, start=1)), float(alpha))


def _line(path: Path, number: int, entry: object) -> Line:
    where = f"--policy {path}: line {number} of the list"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: expected a mapping with benchmark, metric and a limit")
    unknown = [str(key) for key in entry if key not in Line.model_fields]
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}{suggest(unknown[0], Line.model_fields)}")
    try:
        return Line.model_validate(dict(entry))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{where}: {name + ': ' if name else ''}{first['msg'].removeprefix('Value error, ')}"
        ) from error


Decision: TypeAlias = Literal["GO", "NO-GO", "INCONCLUSIVE"]
_Read: TypeAlias = Callable[[str, str, str], ScoredEntry]
_ROUNDING: Final = 1e-9
EXIT_CODES: Final[dict[Decision, int]] = {"GO": 0, "NO-GO": 1, "INCONCLUSIVE": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineResult:
    """One line of a policy applied to one number of one model."""

    benchmark: str
    model: str
    task: str
    setting: str
    subset: str
    category: str
    metric: str
    rule: str  # the limit in words
    value: float | None  # of the number; for a baseline new minus old
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0
    n_failed: int = 0  # beside them, of the output itself
    baseline: float | None = None
    p: float | None = None  # one-sided, that the line is kept
    p_holm: float | None = None
    verdict: Literal["holds", "broken", "undecided"] = "undecided"
    rows_needed: int | None = None  # at this distance, where undecided
    note: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A line that is to be decided, and what is known: the evidence is to lie above the limit, or below it."""

    line: LineResult
    evidence: Evidence | None = None
    limit: float = 0.0
    sign: int = 1  # -1 where less is better

    def deviations(self, evidence: Evidence, *, continuous: bool = True) -> float:
        """Return by how many standard deviations the line is kept; below 0 if it is not."""
        bound = evidence.low if self.sign > 0 else evidence.high
        if bound == evidence.value == self.limit:  # such as 0 of 30 and at least 0
            return math.inf
        return self.sign * evidence.deviations_above(self.limit, continuous=continuous)

    @property
    def p(self) -> float | None:
        """The one-sided p-value that the line is kept; None without evidence."""
        if self.evidence is None:
            return None
        return self.evidence.chance_below(self.deviations(self.evidence, continuous=False))

    def holds(self, evidence: Evidence, alpha: float) -> bool:
        """Return whether the line holds at its bound of the interval.

        Wilson's bound is too near where many steps of a share lie beyond it: at least so much of a rare kind. There a
        line holds by half an effective row.
        """
        is_rare = self.sign * (self.limit - 0.5) < 0
        deviations = self.deviations(evidence, continuous=not is_rare)
        return deviations > 0 and 2 * (1 - evidence.chance_below(deviations)) <= alpha + _ROUNDING


@dataclass(frozen=True, slots=True)
class GateResult:
    """The decision, and what it rests on."""

    decision: Decision
    alpha: float
    lines: tuple[LineResult, ...]


def gate(out: Store, policy: Policy, baseline: Store | None = None) -> GateResult:
    """Decide by a policy; UsageError where a line names what the output has not, or needs a baseline."""
    load_existing_runs([*filter(None, (baseline, out))])  # their table benchmarks are known from then on
    numbers = _numbers(out)
    read = cache(partial(_entry, {out.uri: out} | ({baseline.uri: baseline} if baseline else {})))
    pairs = [(line, number) for line in policy.lines for number in _matching(line, numbers)]
    return decide([_claim(line, number, out, baseline, read) for line, number in pairs], policy.alpha)


def decide(claims: Sequence[Claim], alpha: float) -> GateResult:
    """Decide from claims; each p-value is one-sided, and corrected by Holm for all of them."""
    raw = [claim.p for claim in claims]
    tests = len(raw) - raw.count(None)
    lines: list[LineResult] = []
    for claim, p, p_holm in zip(claims, raw, holm(raw), strict=True):
        line = replace(claim.line, p=p, p_holm=p_holm)
        if claim.evidence is not None and p_holm is not None:
            deviations = claim.deviations(claim.evidence)
            if claim.holds(claim.evidence, alpha):
                line = replace(line, verdict="holds")
            elif p_holm < alpha:
                line = replace(line, verdict="broken")
            else:
                needed = quantile(alpha) if deviations > 0 else NORMAL.inv_cdf(1 - alpha / tests)
                line = replace(line, rows_needed=rows_for(claim.evidence.n, deviations, needed))
        lines.append(line)
    verdicts = {line.verdict for line in lines}
    decision: Decision = "NO-GO" if "broken" in verdicts else "INCONCLUSIVE" if "undecided" in verdicts else "GO"
    return GateResult(decision, alpha, tuple(lines))


def _numbers(out: Store) -> list[Measured]:
    numbers = load_metrics(out)
    if numbers is None:
        raise UsageError(f"{out.uri} has no report yet; run `vlmsweep report` first")
    return [number for number in numbers if not is_person(number.model)]


def _matching(line: Line, numbers: Sequence[Measured]) -> Iterator[Measured]:
    """Yield the numbers that a line is about; UsageError for the first of its names that the output has not."""
    check_names("benchmark", [line.benchmark], benchmark_names())
    here = [number for number in numbers if number.benchmark == line.benchmark]
    if not here:
        raise UsageError(f"the policy names {line.benchmark}, and the output has no number of it")
    names = {"metric": line.metric or benchmark(line.benchmark).headline}
    names |= {name: getattr(line, name) for name in ("model", "task", "setting") if getattr(line, name)}
    names |= {"subset": line.subset, "category": line.category}
    for name, value in names.items():
        present = {str(getattr(number, name)) for number in here}
        here = [number for number in here if getattr(number, name) == value and not any(number.source)]
        if not here:
            raise UsageError(f"the policy's {line.benchmark} line: no {name} {value!r}{suggest(value, present - {''})}")
    yield from here


def _claim(line: Line, number: Measured, out: Store, baseline: Store | None, read: _Read) -> Claim:
    names = ("benchmark", "model", "task", "setting", "subset", "category", "metric", "value", "ci_low", "ci_high", "n")
    fields: dict[str, Any] = {name: getattr(number, name) for name in (*names, "n_failed")}
    result = LineResult(**fields, rule=_rule(line))
    limits = [limit for limit in (line.at_least, line.at_most, line.margin) if limit is not None]
    if number.unit == "fraction" and abs(limits[0]) > 1:
        raise UsageError(f"the policy's {line.benchmark} line: {number.metric} is a fraction of 1, not {limits[0]:g}")
    if number.value is None:
        return Claim(replace(result, note=number.note or "it has no value"))
    if line.not_worse_than:
        if baseline is None:
            raise UsageError("the policy compares with a baseline; give its output with --baseline OUT")
        new = read(out.uri, number.benchmark, number.model)
        gap, old = paired_gap(new, read(baseline.uri, number.benchmark, _counterpart(number, baseline)), number.key)
        low, high = DIFFERENCE if number.unit == "fraction" else (gap.low, gap.high)
        low, high = max(low, gap.low), min(high, gap.high)
        result = replace(result, value=gap.value, ci_low=low, ci_high=high, n=gap.n, baseline=old)
        sign = -1 if number.metric in benchmark(number.benchmark).lower_is_better else 1
        return Claim(result, gap, -sign * float(line.margin or 0.0), sign)
    if number.ci_low is None or number.ci_high is None:
        return Claim(replace(result, note=number.note or "it has no interval"))
    evidence = Evidence(number.value, number.ci_low, number.ci_high, number.n, number.ci_df or math.inf)
    if line.at_least is not None:
        return Claim(result, evidence, line.at_least)
    return Claim(result, evidence, float(line.at_most or 0.0), -1)


def _counterpart(number: Measured, baseline: Store) -> str:
    """Return the baseline's model of the same name, or its only one."""
    models = sorted(e.model for e in load_run(baseline).entries if e.benchmark == number.benchmark)
    if number.model in models or len(models) == 1:
        return number.model if number.model in models else models[0]
    names = ", ".join(models) or "no model"
    raise UsageError(f"{baseline.uri} has {names} on {number.benchmark}, and not {number.model!r} to compare with")


def _entry(stores: Mapping[str, Store], uri: str, name: str, model: str) -> ScoredEntry:
    entries = load_run(stores[uri]).entries
    return ScoredEntry.read(stores[uri], next(e for e in entries if (e.benchmark, e.model) == (name, model)))


def _rule(line: Line) -> str:
    limits = {"at least {:g}": line.at_least, "at most {:g}": line.at_most}
    limits["at most {:g} worse than the baseline"] = line.margin
    return next(text.format(limit) for text, limit in limits.items() if limit is not None)
