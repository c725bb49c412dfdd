"""`vlmsweep nightly`: run what changed since the last night and compare with it."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.flags import NightlyFlags
from jobs.options import takes
from jobs.output import prepare, print_json, print_line, results_only_on_stdout, table
from jobs.progress import Progress
from pipelines.errors import ModelUnavailableError, UsageError

if TYPE_CHECKING:
    from pipelines.nightly.budget import PlannedPair
    from pipelines.nightly.records import NightlyResult


@takes(NightlyFlags)
def nightly(flags: NightlyFlags) -> int:
    """Run what changed since the last night, and report what moved, what failed and what it cost.

    All nights share one output, whose report shows every model on every benchmark as it was last measured.

    Exit codes: 0 all is well; 1 a score moved, a model failed, or more rows failed than --fail-on-error allows; 2 wrong
    configuration; 3 nothing could be run; 130 interrupted.
    """
    from jobs.spec_builder import build_run_spec
    from pipelines.nightly.budget import Budget
    from pipelines.nightly.history import PAGE, History
    from pipelines.nightly.run import planned_pairs, run_night

    prepare(verbose=flags.verbose)
    spec = build_run_spec(flags)
    history = History(flags.history or f"{spec.out.rstrip('/')}/history")
    budget = Budget(usd=flags.budget_usd, hours=flags.budget_hours, gpu_hour_usd=flags.gpu_hour_usd)
    if flags.dry_run:
        _show_due(planned_pairs(spec, history, budget, flags.refresh_days), as_json=flags.json)
        return 0
    progress = Progress(quiet=flags.json)
    with results_only_on_stdout():
        night = run_night(spec, history, budget=budget, refresh_days=flags.refresh_days, progress=progress)
    progress.finish()
    _show_night(night, flags.summary, as_json=flags.json)
    if not flags.json:
        print_line(f"History: {history.store.uri}/{PAGE}")
    if night.all_failed:
        raise ModelUnavailableError("nothing that was due could be run; the night is recorded, with the reasons")
    return 1 if night.has_alarm else 0


def _show_night(night: NightlyResult, summary: Path | None, *, as_json: bool) -> None:
    if summary is not None:
        _write(summary, night.summary)
    for warning in night.warnings:
        logging.getLogger("vlmsweep").warning("%s", warning)
    if as_json:
        print_json(_to_json(night))
    else:
        print_line(night.summary.rstrip())


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--summary {path}: {error.strerror}; the night itself is recorded") from error


def _show_due(pairs: list[PlannedPair], *, as_json: bool) -> None:
    if as_json:
        print_json({"pairs": [_planned_json(pair) for pair in pairs]})
        return
    rows = [
        [pair.model, pair.benchmark, pair.why or "no: unchanged", str(pair.estimate) if pair.estimate else "-"]
        for pair in pairs
    ]
    print_line(table(("model", "benchmark", "run", "about"), rows))
    print_line("Nothing was run.")


def _planned_json(pair: PlannedPair) -> dict[str, Any]:
    fields = {"model": pair.model, "benchmark": pair.benchmark, "why": pair.why}
    if pair.estimate is None:
        return fields
    return {**fields, "seconds": pair.estimate.seconds, "usd": pair.estimate.usd, "waits": pair.is_waiting}


def _to_json(night: NightlyResult) -> dict[str, Any]:
    return {
        "night": night.name,
        "alarms": night.has_alarm,
        "cost_usd": round(night.cost_usd, 6),
        "pairs": [{**asdict(pair), "parts": dict(pair.parts)} for pair in night.pairs],
        "report": night.report,
        "changes": [{**asdict(change), "key": change.key._asdict()} for change in night.comparison.changes],
        "moves": [{**asdict(shift), "whole": shift.whole} for shift in night.shifts],
    }
