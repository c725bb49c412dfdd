"""`--dry-run` of `run` and its stages: what would be done, without doing it."""

from collections.abc import Collection, Sequence
from pathlib import Path

from jobs.dry_run.helper_models import Helper, captioners, judges
from jobs.dry_run.plan_table import helper_rows, show_plan
from jobs.shared.output import print_json, print_line, print_result, table
from pipelines.plan.context import SweepContext, plans_of_all_sets
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import placeholder_captions, plan_sweep
from pipelines.plan.run_manifest import ManifestEntry, load_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.storage.store import Store
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.entry_merge import dropped_from_report, merge_entries
from pipelines.sweep.predictions_file import read_answers
from pipelines.sweep.record import sweep_entries
from pipelines.sweep.revisions import keep_revisions
from pipelines.sweep.status import count_entry, has_same_data


def show_stages(spec: RunSpec, stages: Collection[Stage], *, as_json: bool) -> None:
    """Print what these stages would do; plans that the output lacks are written to a temporary folder."""
    out = Store(spec.out)
    earlier = load_run(out)
    spec = keep_revisions(spec, earlier)
    with PlanStore.reading(out) as plans:
        context = SweepContext(spec=spec, out=out, plans=plans)
        new_entries = sweep_entries(spec, [b for model in spec.models for b, _ in context.model_targets(model)])
        merged = merge_entries(earlier.entries, new_entries)
        entries = [entry for entry in merged if has_same_data(entry, context.datasets)]
        if Stage.PREDICT in stages:
            helpers = captioners(context)
            helpers += judges(context, entries, pending=new_entries) if Stage.SCORE in stages else []
            show_plan(spec, plan_sweep(context, placeholder_captions), helpers, as_json=as_json)
        else:
            helpers = judges(context, entries) if Stage.SCORE in stages else []
            _show_counts(context, entries, helpers, stages, as_json=as_json)
    if not as_json:
        for sentence in dropped_from_report(earlier.entries, new_entries):
            print_line(sentence)


def _show_counts(
    context: SweepContext,
    entries: Sequence[ManifestEntry],
    helpers: Sequence[Helper],
    stages: Collection[Stage],
    *,
    as_json: bool,
) -> None:
    groups = [
        group
        for entry in entries
        for group in count_entry(
            context.out, entry, plans_of_all_sets(entry, context.out, context.plans, context.datasets)
        )
    ]
    if as_json:
        print_json({"cells": groups, "helpers": helper_rows(helpers)})
        return
    heads = ("model", "benchmark", "task", "setting", "requests", "done", "failed", "pending")
    print_line(table(heads, [[group[head] for head in heads] for group in groups]))
    for row in helper_rows(helpers):
        print_line(f"{row['model']}, {row['benchmark']}: {row['calls']:,} calls, {row['price'] or 'no price'}")
    if Stage.SCORE not in stages:
        print_line("Nothing was run. What is done or failed would be reported.")
        return
    for name in sorted({entry.benchmark for entry in entries}):
        scorers = ", ".join(f"{scorer.kind}={scorer.model}" for scorer in context.spec.scorers_for(name))
        print_line(f"{name}: scored by rules" + (f" and {scorers}" if scorers else ""))
    print_line("Nothing was run. What is done or failed would be scored; scores that are up to date are kept.")


def show_file(spec: RunSpec, path: Path, *, tool: str | None = None, as_json: bool) -> None:
    """Print how many answers of a file would be scored; UsageError for an unusable file."""
    heads = ("benchmark", "model", "task", "setting", "answers")
    with AnswerSpool.temporary() as answers:
        read_answers(spec, path, answers, tool)
    rows = [dict(zip(heads, (*group, count), strict=True)) for group, count in sorted(answers.counts.items())]
    rejected = answers.rejections
    text = (
        f"Nothing was run. {len(rejected)} rows of {path} cannot be used. Whether the samples of the others exist, and "
        "which --limit and --sample-id select, is checked when they are scored."
    )
    lines = [[row[head] for head in heads] for row in rows]
    print_result(as_json, {"answers": rows, "rejected": len(rejected)}, table(heads, lines), text)
