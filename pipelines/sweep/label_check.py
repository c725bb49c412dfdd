"""People's labels of `--human` against the judged answers of an output, before a report."""

from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.human import OutputKey
from pipelines.errors import UsageError
from pipelines.ingest.human_files import HumanFile
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

_COLUMNS = ["model", "task", "setting", "sample_id", "variant", "cluster", "verdict_state", "values"]


def check_labels(out: Store, entries: Sequence[ManifestEntry], files: Sequence[HumanFile]) -> None:
    """Check that labels are of judged answers, in two clusters or more; the UsageError says what to do."""
    for file in files:
        definition = benchmark(file.benchmark)
        labelled = definition.human.output_labels({file.kind: file.text})
        keys = {key for key in labelled if key[1] in definition.judged_tasks}
        models = {entry.model for entry in entries if entry.benchmark == file.benchmark}
        if not keys:
            continue
        name = f"{file.uri} ({file.benchmark} {file.kind})"
        of_models = {key for key in keys if key[0] in models}
        if not of_models:
            raise UsageError(
                f"{name}: no rows in common: the labels are of {_names(key[0] for key in keys)}, and the models "
                f"are {_names(models)}"
            )
        clusters = dict(_judged(out, [entry for entry in entries if entry.benchmark == file.benchmark]))
        unjudged = sorted(of_models - clusters.keys())
        if unjudged:
            raise UsageError(
                f"{name}: {len(unjudged):,} labels are of answers that no judge has judged, such as "
                f"{'/'.join(filter(None, unjudged[0]))}; run `vlmsweep score --judge NAME`, or leave them out"
            )
        if len({clusters[key] for key in of_models}) < 2:
            raise UsageError(f"{name}: all labels are of one clip, picture or row; an interval needs at least two")


def _judged(out: Store, entries: Sequence[ManifestEntry]) -> Iterator[tuple[OutputKey, str]]:
    """Yield the outputs with a verdict, of a judge or by a rule, each with its cluster."""
    for entry in entries:
        for _, part in iter_parts(out, part_folder("scores", entry.benchmark, entry.model), _COLUMNS):
            for row in part.to_pylist():
                if row["verdict_state"] in ("ok", "invalid") or "accepted" in dict(row["values"]):
                    yield _key(row), row["cluster"] or row["sample_id"]


def _key(row: dict[str, Any]) -> OutputKey:
    return row["model"], row["task"], row["setting"], row["sample_id"], row["variant"]


def _names(names: Any) -> str:
    return ", ".join(sorted({*names})) or "none"
