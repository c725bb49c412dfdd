"""A sweep from plan to report."""

from collections.abc import Collection
from dataclasses import replace
from itertools import chain

from pipelines.errors import ModelUnavailableError, UsageError
from pipelines.plan.completed import repair_output
from pipelines.plan.planner import plan_sweep, store_plans
from pipelines.plan.prune import prune_plans
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.stage import caption, predict
from pipelines.predict.status import StatusWriter, write_counts
from pipelines.progress import ProgressListener
from pipelines.sweep.evaluate import concurrent_judges, score_and_report, score_human_entries
from pipelines.sweep.human_entries import add_human_entries
from pipelines.sweep.record import record_sweep, sweep_warnings, warn_of_unjudged_metrics
from pipelines.sweep.result import SweepResult
from pipelines.sweep.session import Sweep, open_sweep
from pipelines.sweep.until.loop import forget_stopped, predict_until


def run_sweep(
    spec: RunSpec, *, stages: Collection[Stage] = tuple(Stage), progress: ProgressListener | None = None
) -> SweepResult:
    """Run the `stages` of a sweep; completed work is not repeated.

    Raises:
        DatasetError, StoreError, ClusterError: data, output or cluster are unavailable.
        LockedError: another run writes the same output.
        UsageError: no model is named, or a row of a human file cannot be used.
        UnknownRevisionError: the hub does not know a model or its revision.
        ModelUnavailableError: a named scorer, or every model of the sweep is unavailable.
    """
    if not spec.models:
        raise UsageError("this sweep names no model: give `models` at least one; see `vlmsweep list models`")
    with open_sweep(spec, stages, progress=progress) as sweep:
        return _run(sweep)


def report_again(spec: RunSpec, *, progress: ProgressListener | None = None) -> SweepResult:
    """Report all that an output holds, with the files of people's work in `spec`; raise as `run_sweep`."""
    people = {file.benchmark for file in spec.human}
    with open_sweep(spec, (Stage.REPORT,), benchmarks=people, progress=progress) as sweep:
        run, human_entries = add_human_entries(sweep.context, sweep.earlier)
        score_human_entries(sweep, human_entries)
        result = score_and_report(sweep, run, warnings=sweep.warnings)
        write_counts(sweep.context.out, result.counts)
    return result


def _run(sweep: Sweep) -> SweepResult:
    context, cluster, costs, stages = sweep.context, sweep.cluster, sweep.costs, sweep.stages
    out, models = context.out, context.spec.models
    earlier = sweep.earlier
    if Stage.PREDICT in stages:
        earlier = forget_stopped(sweep)
        caption(context, cluster, costs)  # first: prompts hold captions, and ids hash prompts
    plans = store_plans(context) if stages == {Stage.REPORT} else plan_sweep(context)
    repair_output(out, chain.from_iterable(plans.values()))
    if Stage.SCORE in stages:
        warn_of_unjudged_metrics(context.spec)
    run, dropped = record_sweep(context, earlier, plans)
    prune_plans(context, run.entries)
    status = StatusWriter(out, plans, is_new=sweep.earlier.is_new)
    try:
        problems: dict[str, str] = {}
        if Stage.PREDICT in stages and context.spec.until:
            run, problems = predict_until(sweep, run, plans, status)
        elif Stage.PREDICT in stages:
            problems = predict(context, cluster, plans, status, costs, judges=concurrent_judges(sweep, run))
        unavailable = list(problems.values())
        if problems.keys() >= models.keys():
            raise ModelUnavailableError("; ".join(unavailable))
        run, human_entries = add_human_entries(context, run)
        if Stage.SCORE not in stages:
            score_human_entries(sweep, human_entries)
        warnings = [*sweep.warnings, *sweep_warnings(context.spec), *dropped]
        result = score_and_report(sweep, run, warnings=warnings, unavailable=unavailable)
    finally:
        status.close()
        sweep.record_work(run)
    return replace(result, counts=[count for count in result.counts if count.model in models] or status.counts())
