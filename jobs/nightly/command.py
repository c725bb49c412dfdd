"""`vlmsweep nightly`: run what changed since the last run and compare with it."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from jobs.shared.commands import listed
from jobs.shared.options import RunOptions, refuse
from jobs.shared.output import print_json, print_line, print_result, results_only_on_stdout, table
from jobs.shared.progress import Progress
from pipelines.errors import ModelUnavailableError, UsageError
from pipelines.flags import flag

if TYPE_CHECKING:
    from jobs.nightly.budget import PlannedPair
    from jobs.nightly.records import NightlyResult
    from jobs.nightly.regressions import Change
    from pipelines.decisions.gate import GateResult
    from pipelines.plan.run_spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyOptions(RunOptions):
    """Options of `nightly`; without `benchmarks`, all that are installed."""

    optional: ClassVar = ("benchmarks",)

    text_models: tuple[str, ...] = flag(
        "Models that answer without pictures or clips, for MAIA's joint Unimodal row.",
        "Models",
        kind="models",
        default=(),
    )
    history: str | None = flag(
        "Location of the nightly records: a folder or s3://bucket/key. [OUT/history]", "Output", kind="location"
    )
    summary: Path | None = flag("Write the Markdown summary to this file as well.", "Output")
    policy: Path | None = flag(
        "Apply this policy to the nightly output, as `gate` does, and exit with its code.", "Limits"
    )
    baseline: str | None = flag("The --out of a run that the policy's lines compare with.", "Limits", kind="location")
    gpu_hour_usd: float | None = flag("Price of one GPU for an hour.", "Limits", low=0)
    budget_usd: float | None = flag(
        "Dollars per run, for endpoints and, with --gpu-hour-usd, GPUs. New pairs run first, then changed "
        "ones, then the oldest.",
        "Limits",
        low=0,
    )
    budget_hours: float | None = flag("Estimated hours per run.", "Limits", low=0)
    refresh_days: float | None = flag("Re-run pairs last measured this many days ago. [never]", "Limits", low=0)


@listed("Evaluate", "nightly --models open --data data --out out --budget-usd 50")
def nightly(options: NightlyOptions) -> int:
    """Run what changed since the last nightly run; report what moved, what failed and what it cost.

    All nights share one output, whose report shows every model on every benchmark as it was last measured. Without
    --benchmarks, all installed ones run.

    Exit codes: 0 all is well; 1 a score moved, a model failed, or more rows failed than --fail-on-error allows; 2 wrong
    configuration; 3 nothing could be run; 130 interrupted. With --policy, those of `gate` take the
    place of moved scores: 0 GO, 1 NO-GO, 4 INCONCLUSIVE.
    """
    from jobs.nightly.budget import Budget
    from jobs.nightly.history import PAGE, History
    from jobs.nightly.judge_drift import planned_questions
    from jobs.nightly.run import planned_pairs, run_nightly
    from pipelines.decisions.gate import EXIT_CODES, gate, read_policy
    from pipelines.storage.store import Store

    specs = _specs(options)
    if not options.policy:
        refuse({"baseline": options.baseline}, "is what lines of --policy compare with; give both, or neither")
    policy = (
        read_policy(options.policy) if options.policy else None
    )  # before the run, which an unusable policy would waste
    history = History(options.history or f"{specs[0].out.rstrip('/')}/history")
    budget = Budget(usd=options.budget_usd, hours=options.budget_hours, gpu_hour_usd=options.gpu_hour_usd)
    if options.dry_run:
        planned = planned_pairs(specs, history, budget, options.refresh_days)
        _show_due(planned, planned_questions(specs[0]), as_json=options.json)
        return 0
    with Progress(quiet=options.json) as progress, results_only_on_stdout():
        result = run_nightly(specs, history, budget=budget, refresh_days=options.refresh_days, progress=progress)
    decision = None
    try:
        if policy is not None and not result.all_failed:
            decision = gate(Store(specs[0].out), policy, Store(options.baseline) if options.baseline else None)
    finally:  # a policy about unmeasured metrics ends the command after a complete run
        _show_result(result, decision, options.summary, as_json=options.json)
    if not options.json:
        print_line(f"History: {history.store.uri}/{PAGE}")
    if result.all_failed:
        raise ModelUnavailableError("none of the due pairs could run; the nightly run was recorded with the reasons")
    if decision is not None:
        return EXIT_CODES[decision.decision] or int(bool(result.pairs_in("failed") or result.over_budget))
    return 1 if result.has_alarm else 0


def _specs(options: NightlyOptions) -> list[RunSpec]:
    """Return the sweep of the models, and that of the text models in the settings that make their joint row."""
    from jobs.shared.spec_builder import build_run_spec
    from models.selectors import direct_name
    from pipelines.benchmarks import benchmark, code_benchmarks

    if options.until:
        raise UsageError("--until: nightly runs must have equal rows; drop --until, or use --limit")
    options = replace(options, benchmarks=options.benchmarks or tuple(code_benchmarks()))
    spec = build_run_spec(options)
    if not options.text_models:
        return [spec]
    chosen = {name: benchmark(name) for name in spec.benchmarks}
    joint = {name: entry.ensemble.settings for name, entry in chosen.items() if entry.ensemble}
    if not any(joint.values()):
        able = ", ".join(name for name in code_benchmarks() if benchmark(name).ensemble)
        problem = "none of these benchmarks has a row that text models make together"
        raise UsageError(f"--text-models: {problem}; {able} has")
    settings = tuple(dict.fromkeys(setting for explicit in joint.values() for setting in explicit))
    text = replace(options, models=options.text_models, tasks=(), settings=settings)
    text = replace(text, judge=None, judge_checks=0, captioner=None, scorers=(), human=())
    text_spec = build_run_spec(text, models_flag="--text-models")
    text_spec = text_spec.part(text_spec.models, [name for name, explicit in joint.items() if explicit])
    if both := sorted({*text_spec.models}.intersection(map(direct_name, options.models))):
        raise UsageError(f"{', '.join(both)}: named by --models and by --text-models; name it once")
    models = {name: model for name, model in spec.models.items() if name not in text_spec.models}
    if not models:
        raise UsageError(f"--models {','.join(options.models)}: --text-models names all of these; name other models")
    return [replace(spec, models=models), text_spec]


def _show_result(result: NightlyResult, decision: GateResult | None, summary: Path | None, *, as_json: bool) -> None:
    if summary is not None:
        _write(summary, result.summary)
    for warning in result.warnings:
        logging.getLogger("vlmsweep").warning("%s", warning)
    if as_json:
        print_json({**_to_json(result), **({"decision": decision.decision} if decision else {})})
        return
    print_line(result.summary.rstrip())
    if decision:
        from jobs.shared.render import show_gate

        show_gate(decision, as_json=False)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A pipe that nobody reads is refused, not waited for; what already has a reader, such as /dev/stdout, is taken.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--summary {path}: {error.strerror}; the nightly run was recorded") from error


def _show_due(pairs: list[PlannedPair], questions: list[str], *, as_json: bool) -> None:
    rows = [
        [of.model, of.benchmark, pair.why or "no: unchanged", str(pair.estimate) if pair.estimate else "-"]
        for pair, of in ((pair, pair.status) for pair in pairs)
    ]
    planned = {"pairs": [_planned_json(pair) for pair in pairs], "judge": questions}
    heads = ("model", "benchmark", "run", "about")
    print_result(as_json, planned, table(heads, rows), *questions, "Nothing was run.")


def _planned_json(pair: PlannedPair) -> dict[str, Any]:
    fields = {"model": pair.status.model, "benchmark": pair.status.benchmark, "why": pair.why}
    if pair.estimate is None:
        return fields
    return {**fields, "seconds": pair.estimate.seconds, "usd": pair.estimate.usd, "waits": pair.is_waiting}


def _to_json(result: NightlyResult) -> dict[str, Any]:
    return {
        "night": result.name,
        "alarms": result.has_alarm,
        "cost_usd": round(result.cost_usd, 6),
        "pairs": [{**asdict(pair), "parts": dict(pair.parts)} for pair in result.pairs],
        "report": result.report,
        "changes": [_change(change) for change in result.comparison.changes],
        "unconfirmed": [_change(change) for change in result.comparison.unconfirmed],
        "judge": [asdict(drift) for drift in result.drifts],
        "gone": [{**asdict(metric), "whole": metric.whole} for metric in result.gone],
    }


def _change(change: Change) -> dict[str, Any]:
    return {**asdict(change), "key": change.key._asdict()}
