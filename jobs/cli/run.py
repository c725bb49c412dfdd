"""`vlmsweep run` and its stages `predict`, `score` and `report`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from jobs.shared.commands import listed
from jobs.shared.options import RunOptions, refuse
from jobs.shared.output import print_error, print_json, print_line, results_only_on_stdout
from jobs.shared.progress import Progress
from models.messages import DEFAULT_SEED
from pipelines.errors import UsageError
from pipelines.flags import argument, flag

if TYPE_CHECKING:
    from pipelines.plan.run_spec import RunSpec, Stage
    from pipelines.storage.store import Store
    from pipelines.sweep.result import SweepResult

Further: TypeAlias = "Callable[[Store], tuple[Mapping[str, Any], Iterable[str]]]"
"""From an output, what a command adds to the result: keys of its JSON, and lines."""
_SWEEP: Final = "--models qwen2.5-vl-7b --benchmarks maia --data data --out out"


@listed("Evaluate", f"run {_SWEEP} --limit 100")
def run(options: RunOptions) -> int:
    """Evaluate models: predict, score and report. Run the same command again to resume."""
    return run_stages(options, "predict", "score", "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions(RunOptions):
    """Options of `predict`."""

    ignored: ClassVar = ("judge", "judge_checks", "scorers", "human")


@listed("Evaluate", f"predict {_SWEEP}")
def predict(options: PredictOptions) -> int:
    """Generate answers only, without scoring.

    Accepts the options of `run`, so that one file serves both; --judge, --scorer and --human have no effect.
    """
    return run_stages(options, "predict")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(RunOptions):
    """Options of `score`; with `predictions`, models and benchmarks are those of the file."""

    optional: ClassVar = ("models", "benchmarks")

    predictions: Path | None = flag(
        "Imported answers: FILE.jsonl, FILE.parquet, the authors' files of MATE and V-FLUTE, or logs of lmms-eval, "
        "lm-eval, VLMEvalKit, Inspect or EvalScope.",
        "Judging",
    )
    tool: str | None = flag(
        "The harness that wrote --predictions, if it is not recognised: lm-eval, lmms-eval, vlmevalkit, inspect or "
        "evalscope.",
        "Judging",
        "--from",
        metavar="TOOL",
    )


@listed("Evaluate", f"score {_SWEEP} --judge qwen2.5-7b")
def score(options: ScoreOptions) -> int:
    """Score the predictions in --out, or import answers, score and report them.

    Accepts the options of `run`, so that one file serves both. --dry-run shows what would be judged and scored.
    """
    if options.predictions is None:
        refuse({"from": options.tool}, "names the harness that wrote --predictions, which is missing")
        return run_stages(options, "score")
    from jobs.shared.spec_builder import external_spec
    from pipelines.sweep.run import score_external

    with _checking(as_json=options.json) as progress:
        spec, path = external_spec(options), options.predictions
        if options.dry_run:
            from jobs.dry_run.plan_table import show_file

            show_file(spec, path, tool=options.tool, as_json=options.json)
            return 0
        with results_only_on_stdout():
            result = score_external(spec, path, progress=progress, tool=options.tool)
    return print_result(result, spec, as_json=options.json)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(RunOptions):
    """Options of `report`; without `models`, all that the output holds is reported."""

    ignored: ClassVar = ("judge", "judge_checks", "scorers", "cost_limit", "wait_for_nodes")
    optional: ClassVar = ("models", "benchmarks", "data", "out")

    output: str | None = argument("The same as --out.", kind="location", metavar="OUT", default=None)


@listed("Evaluate", f"report {_SWEEP}")
def report(options: ReportOptions) -> int:
    """Write the report of OUT again, for --models or for all that OUT holds.

    Accepts the options of `run`, so that one file serves both; --judge, --scorer and --cost-limit have no effect,
    because no model runs. --dry-run shows what would be reduced.
    """
    options = replace(options, out=options.output or options.out)
    if not options.out:
        raise UsageError("report: name the output, as in `vlmsweep report OUT`")
    if options.models:
        return run_stages(options, "report")
    fields = ("benchmarks", "tasks", "settings", "limit", "captioner", "until", "prompts", "batch")
    selections = {name: getattr(options, name) for name in fields} | {
        "sample-id": options.sample_ids,
        "prompt-version": options.prompt_versions,
        "repeats": options.repeats > 1,
        "seed": options.seed != DEFAULT_SEED,
    }
    if unused := [f"--{flag}" for flag, value in selections.items() if value]:
        text = "%s: without effect, because a report without --models is of all that OUT holds"
        logging.getLogger("vlmsweep").warning(text, ", ".join(unused))
    from jobs.shared.spec_builder import report_spec
    from pipelines.plan.run_spec import Stage
    from pipelines.sweep.run import report_again

    with _checking(as_json=options.json) as progress:
        spec = report_spec(options)
        if options.dry_run:
            return _show_stages(spec, [Stage.REPORT], as_json=options.json)
        with results_only_on_stdout():
            result = report_again(spec, progress=progress)
    return print_result(result, spec, as_json=options.json)


def run_stages(options: RunOptions, *names: str, further: Further | None = None) -> int:
    """Run stages of a sweep, print its result with what `further` adds, and return the exit code."""
    from jobs.shared.spec_builder import build_run_spec
    from pipelines.plan.run_manifest import load_existing_run
    from pipelines.plan.run_spec import Stage
    from pipelines.storage.backend import is_remote
    from pipelines.storage.store import Store
    from pipelines.sweep.run import run_sweep

    stages = [Stage(name) for name in names]
    with _checking(as_json=options.json) as progress:
        spec = build_run_spec(options, stages)
        if options.dry_run:
            return _show_stages(spec, stages, as_json=options.json)
        if Stage.PREDICT not in stages and not is_remote(spec.out):  # a bucket is tried for writing first
            load_existing_run(Store(spec.out))
        with results_only_on_stdout():
            result = run_sweep(spec, stages=stages, progress=progress)
    return print_result(result, spec, as_json=options.json, further=further)


def _show_stages(spec: RunSpec, stages: Sequence[Stage], *, as_json: bool) -> int:
    from jobs.dry_run.plan_table import show_stages
    from pipelines.plan.run_spec import Stage
    from pipelines.sweep.record import warn_of_unjudged_metrics

    show_stages(spec, stages, as_json=as_json)
    if Stage.SCORE in stages:
        warn_of_unjudged_metrics(spec)
    return 0


def _checking(*, as_json: bool) -> Progress:
    """Return the progress of a command, in its first phase: models and data are checked before there are rows."""
    progress = Progress(quiet=as_json)
    progress.phase("check models and data", 0)
    return progress


def print_result(result: SweepResult, spec: RunSpec, *, as_json: bool, further: Further | None = None) -> int:
    """Print the result of a sweep and return the exit code."""
    from jobs.shared.render import failure_lines, headline, summary
    from pipelines.storage.store import Store
    from pipelines.sweep.status import failure_reasons

    out = Store(spec.out)
    more, lines = further(out) if further else ({}, ())
    judges = [name for name, _ in spec.judges] if result.judge_failed else []
    reasons = failure_reasons(out, result.counts, judges)
    for warning in (*result.warnings, *result.unavailable):
        logging.getLogger("vlmsweep").warning("%s", warning)
    if as_json:
        failures = [asdict(reason) for reason in reasons]
        print_json({**summary(result), "failures": failures, **more})
    else:
        print_line(headline(result))
        for line in lines:
            print_line(line)
        for line in failure_lines(reasons):
            print_error(line)
        for line in result.spending.lines():  # on standard error: the result is the same when nothing is spent again
            print_error(f"spent by {line}")
    return exit_code(result, spec)


def exit_code(result: SweepResult, spec: RunSpec) -> int:
    """Return how a sweep ends: 3 where a model was unavailable, 1 where more rows failed than are allowed, else 0."""
    if result.unavailable:
        return 3
    return 0 if spec.allows(result.failed, max(result.requests, 1)) else 1
