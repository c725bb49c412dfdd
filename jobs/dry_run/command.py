"""`--dry-run` of `run` and its stages: what would be done, without doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jobs.dry_run.helper_models import captioners, judges, placeholder_captions
from jobs.dry_run.plan_table import helper_rows, show_plan
from jobs.output import print_json, print_line, table
from pipelines.plan.run_manifest import dropped_from_report, load_run, merge_entries
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from pipelines.sweep.predictions_file import usable_rows
from pipelines.sweep.run import entries_of, plan_sweep
from pipelines.sweep.status import counted, same_data


def show_stages(spec: RunSpec, stages: Sequence[str], *, as_json: bool) -> None:
    """Print what these stages would do.

    Raises:
        DatasetError, StoreError: as their texts say.
    """
    out = Store(spec.out)
    own = entries_of(spec, [asker for model in spec.models for asker, _ in spec.askers(model)])
    earlier = load_run(out).get("entries", [])
    entries = [entry for entry in merge_entries(earlier, own) if same_data(entry)]
    if "predict" in stages:
        helpers = captioners(spec)
        helpers += judges(spec, entries, to_come=own) if "score" in stages else []
        show_plan(spec, plan_sweep(spec, placeholder_captions), helpers, as_json=as_json)
    else:
        helpers = judges(spec, entries) if "score" in stages else []
        cells = [cell for entry in entries for one in entry.by_cut() for cell in counted(out, one)]
        verb = "scored" if "score" in stages else "reported"
        if as_json:
            print_json({"cells": cells, "helpers": helper_rows(helpers)})
            return
        heads = ("model", "benchmark", "task", "setting", "requests", "done", "failed", "pending")
        print_line(table(heads, [[cell[head] for head in heads] for cell in cells]))
        for row in helper_rows(helpers):
            print_line(f"{row['model']}, {row['benchmark']}: {row['calls']:,} calls, {row['price'] or 'no price'}")
        if "score" in stages:
            for name in sorted({entry.benchmark for entry in entries}):
                scorers = ", ".join(f"{one.kind}={one.model}" for one in spec.scorers_for(name))
                print_line(f"{name}: scored by rules" + (f" and {scorers}" if scorers else ""))
        kept = "; scores that are up to date are kept" if "score" in stages else ""
        print_line(f"Nothing was run. What is done or failed would be {verb}{kept}.")
    if not as_json:
        for sentence in dropped_from_report(earlier, own):
            print_line(sentence)


def show_file(spec: RunSpec, path: Path, *, as_json: bool) -> None:
    """Print how many answers of a file would be scored.

    Raises:
        UsageError: the file cannot be read, lacks a column, or names what does not exist.
    """
    rejected, groups = usable_rows(spec, path)
    rows = [
        {"benchmark": name, "model": model, "task": task, "setting": setting, "answers": n}
        for (name, model), own in sorted(groups.items())
        for (task, setting), n in Counter((row["task"], row["setting"]) for _, row in own).items()
    ]
    if as_json:
        print_json({"answers": rows, "rejected": len(rejected)})
        return
    heads = ("benchmark", "model", "task", "setting", "answers")
    print_line(table(heads, [[row[head] for head in heads] for row in rows]))
    print_line(
        f"Nothing was run. {len(rejected)} rows of {path} cannot be read; whether the samples of the others exist is "
        "seen when they are scored."
    )
