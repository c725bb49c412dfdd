"""The verdicts of the harness whose log an entry's answers came from, beside ours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from pipelines.benchmarks.records import RIGHT, Metric
from pipelines.logged_answers.verdicts import ReadVerdict, difference
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.storage.parts import list_parts, part_folder, read_part
from pipelines.storage.store import Store

METRIC: Final = "verdicts_differ"
_EXAMPLES: Final = 3
_COLUMNS: Final = ["request_id", "their_correct", "their_answer", "their_rule"]


@dataclass(slots=True, kw_only=True)
class ComparedVerdicts:
    """How a reader's verdicts on a model's answers compare with ours."""

    benchmark: str
    model: str
    task: str
    setting: str
    rule: str  # the tool and its reader
    rows: int = 0  # with a verdict of both
    differing: dict[str, list[str]] = field(default_factory=dict)  # sample ids by how the verdicts differ

    def examples(self, kind: str) -> str:
        """Return the first samples of a kind."""
        return ", ".join(self.differing[kind][:_EXAMPLES])


def compared_verdicts(out: Store, entry: ManifestEntry, frame: pd.DataFrame) -> list[ComparedVerdicts]:
    """Compare the verdicts of a log with ours; none for answers that came with none."""
    logged = dict(_logged(out, entry)) if entry.external else {}
    compared: dict[tuple[str, str, str], ComparedVerdicts] = {}
    if not logged:
        return []
    columns = ["request_id", "sample_id", "task", "setting", "answer", "rule", "status"]
    values = [name for name in RIGHT if name in frame]
    for row in frame[frame["request_id"].isin(list(logged))][[*columns, *values]].to_dict("records"):
        verdict = logged[row["request_id"]]
        ours = _ours({str(name): value for name, value in row.items()})
        if ours is None:
            continue
        key = (row["task"], row["setting"], verdict.rule)
        identity = {"task": row["task"], "setting": row["setting"], "rule": verdict.rule}
        group = compared.setdefault(key, ComparedVerdicts(benchmark=entry.benchmark, model=entry.model, **identity))
        group.rows += 1
        kind = difference(ours, verdict)
        if kind:
            group.differing.setdefault(kind, []).append(row["sample_id"])
    return [compared[key] for key in sorted(compared)]


def _logged(out: Store, entry: ManifestEntry) -> Iterator[tuple[str, ReadVerdict]]:
    for info in list_parts(out, part_folder("predictions", entry.benchmark, entry.model)):
        for row in read_part(out, info).select(_COLUMNS).to_pylist():
            if row["their_correct"] is not None:
                yield (
                    row["request_id"],
                    ReadVerdict(correct=row["their_correct"], answer=row["their_answer"], rule=row["their_rule"] or ""),
                )


def _ours(row: dict[str, Any]) -> ReadVerdict | None:
    """Return our verdict; None where a row has none, such as without a judge."""
    value = next((row[name] for name in RIGHT if name in row and row[name] == row[name]), None)
    if value is None or row["status"] != "ok":
        return None
    return ReadVerdict(correct=float(value), answer=row["answer"], rule=row["rule"] or "")


def verdict_metrics(compared: Sequence[ComparedVerdicts]) -> list[Metric]:
    """Return how many verdicts differ, in all and by how they do."""
    by_group: dict[tuple[str, str], list[ComparedVerdicts]] = {}
    for group in compared:
        by_group.setdefault((group.task, group.setting), []).append(group)
    metrics = []
    for (task, setting), groups in by_group.items():
        counts = {"": sum(len(ids) for group in groups for ids in group.differing.values())}
        for group in groups:
            for kind, ids in group.differing.items():
                counts[kind] = counts.get(kind, 0) + len(ids)
        rows = sum(group.rows for group in groups)
        metrics += [
            Metric(task=task, setting=setting, category=kind, metric=METRIC, value=float(count), unit="count", n=rows)
            for kind, count in counts.items()
        ]
    return metrics
