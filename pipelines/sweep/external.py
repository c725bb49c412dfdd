"""Answers made elsewhere: a file of outputs becomes predictions like our own, and is scored, reduced and reported."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from cluster.connect import connect
from pipelines.errors import UsageError
from pipelines.ingest.human_files import check_human
from pipelines.plan.run_manifest import ManifestEntry, dropped_from_report, load_run, merge_entries, save_run
from pipelines.plan.run_spec import RunSpec
from pipelines.predict.status import write_counts
from pipelines.progress import ProgressListener
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
from pipelines.sweep.import_predictions import import_rows
from pipelines.sweep.predictions_file import usable_rows
from pipelines.sweep.run import SweepResult, score_and_report

log = logging.getLogger(__name__)


def score_external(spec: RunSpec, path: Path, *, watcher: ProgressListener) -> SweepResult:
    """Score, reduce and report the answers of a file.

    Args:
        spec: data, out, judge and scorers; its models are ignored, its benchmarks, tasks and settings filter.
        path: `.jsonl` or `.parquet` with the columns benchmark, model, task, setting, sample_id, variant, output.
        watcher: is told of progress.

    Raises:
        LockedError: another run writes this output.
        UsageError: the file cannot be read, lacks a column, names what does not exist, or holds no usable row.
    """
    out = Store(spec.out)
    out.check_writable()
    check_human(spec.human, Store(spec.data))
    with run_lock(out) as lock:
        return _score(replace(spec, lock=lock), out, path, watcher)


def _score(spec: RunSpec, out: Store, path: Path, watcher: ProgressListener) -> SweepResult:
    rejections, groups = usable_rows(spec, path)
    entries = []
    for (name, model), rows in sorted(groups.items()):
        entry = import_rows(spec, out, name, model, rows, path, rejections)
        entries += [entry] if entry else []
    out.put("rejected.jsonl", b"".join(json.dumps(asdict(r), ensure_ascii=True).encode() + b"\n" for r in rejections))
    if not entries:
        first = f"; the first: {rejections[0].item}: {rejections[0].reason}" if rejections else ""
        raise UsageError(f"{path}: no row can be used{first}")
    if rejections:
        log.warning("%d rows of %s not used, listed in %s/rejected.jsonl", len(rejections), path, out.uri)
    return _run(spec, out, entries, watcher)


def _run(spec: RunSpec, out: Store, entries: Sequence[ManifestEntry], watcher: ProgressListener) -> SweepResult:
    earlier = load_run(out)
    datasets = {e.benchmark: {"fingerprint": e.parsed_asker().dataset_fingerprint} for e in entries}
    run = save_run(
        out,
        earlier,
        sweep={**spec.describe(), "benchmarks": sorted(datasets)},
        entries=merge_entries(earlier.get("entries", []), entries),
        parts={
            "models": {entry.model: {"engine": "external"} for entry in entries}
            | ({spec.judge[0]: spec.judge[1].model_dump(mode="json", exclude_defaults=True)} if spec.judge else {}),
            "datasets": datasets,
            "prompts": {},
        },
    )
    from pipelines.sweep.human_entries import with_people

    run, _ = with_people(spec, out, run)
    outcome = SweepResult(warnings=dropped_from_report(earlier.get("entries", []), entries))
    with connect(spec.address) as cluster:
        score_and_report(spec, run, cluster, outcome, watcher=watcher)
    write_counts(out, outcome.counts)
    models = {entry.model for entry in entries}
    outcome.counts = [count for count in outcome.counts if count.model in models]
    return outcome
