"""The results of the reduction of one entry: rows of metrics, counts, example answers, listed items."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from pipelines.benchmarks.item_lists import ItemList
from pipelines.benchmarks.records import RIGHT
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.predict.records import TaskCount
from pipelines.report.entry_frame import EntryScores
from pipelines.report.judge_tables import ComparedVerdicts
from pipelines.report.metrics_file import Measured
from pipelines.report.model import ExampleAnswer, ModelItems
from pipelines.report.pages.items import shown_requests
from pipelines.report.tables.repeats import VarianceRow
from pipelines.report.tables.token_efficiency import Efficiency
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryResults:
    """The results of one model on one benchmark."""

    metrics: list[Measured]
    counts: list[TaskCount]
    answers: list[ExampleAnswer]
    judge_failed: int  # rows without a verdict because of the judge's engine
    items: Sequence[ModelItems] = ()  # behind the tables' numbers
    marks: Mapping[str, float] = field(default_factory=dict)  # numbers of single rows for the tables of human files
    read_answers: Mapping[str, Mapping[Hashable, Hashable]] = field(default_factory=dict)  # a person's, for agreement
    replaced: tuple[str, ...] = ()  # models whose numbers tables and figures leave out, because these stand for them
    verdicts: Sequence[ComparedVerdicts] = ()  # of the harness whose log the answers came from
    variance: Sequence[VarianceRow] = ()  # a row a task, where requests were asked several times
    efficiency: Sequence[Efficiency] = ()  # a row a set of prompts with token counts
    prompts: frozenset[tuple[str, str, str]] = frozenset()  # task, setting and version of the prompts
    prompt_sets: tuple[str, ...] = ()  # names of the sets of prompts that `by_prompt_set` compares, if several
    captioners: tuple[str, ...] = ()  # names of the captioners that `by_prompt_set` compares, if several
    by_prompt_set: Sequence[Measured] = ()  # metrics in all sets but the first, which `metrics` are of
    counts_by_prompt_set: Sequence[TaskCount] = ()  # of the requests that only these sets have
    stressed: pd.DataFrame | None = None  # of a stress test: `stressed_rows` of the plain prompts and each condition


def outputs_of(out: Store, scores: EntryScores, request_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return output and error of some requests by id."""
    outputs = {}
    for path in sorted(scores.prediction_parts(list(request_ids))):
        for row in read_part(out, scores.predictions[path], ["request_id", "output", "error"]).to_pylist():
            if row["request_id"] in request_ids:
                outputs[row["request_id"]] = row
    return outputs


def model_items(
    entry: ManifestEntry, lists: Sequence[ItemList], outputs: Mapping[str, Mapping[str, Any]], prompt_set: str = ""
) -> list[ModelItems]:
    """Return the lists of an entry's model in a set of prompts, each with the outputs that the page shows."""
    return [
        ModelItems(
            benchmark=entry.benchmark,
            model=entry.model,
            prompt_set=prompt_set,
            items=items,
            outputs={name: str(outputs[name]["output"] or "") for name in shown_requests([items]) if name in outputs},
        )
        for items in lists
    ]


def counts_of(entry: ManifestEntry, frame: pd.DataFrame, out: Store, scores: EntryScores) -> list[TaskCount]:
    """Count by task and setting; requests that an imported predictions file does not answer do not count."""
    counts = []
    counted = frame[frame["status"] != "missing"] if entry.external else frame
    failed = counted[counted["status"] == "error"]
    first_failed = failed.drop_duplicates(["task", "setting"]).set_index(["task", "setting"])["request_id"].to_dict()
    outputs = outputs_of(out, scores, {*first_failed.values()})
    for (task, setting), rows in counted.groupby(["task", "setting"], sort=False):
        by_status = Counter(rows["status"])
        counts.append(
            TaskCount(
                benchmark=entry.benchmark,
                model=entry.model,
                task=str(task),
                setting=str(setting),
                requests=len(rows),
                cut=int(_is_cut(rows).sum()),
                first_error=str(outputs.get(first_failed.get((task, setting), ""), {}).get("error") or ""),
                **{status: by_status[status] for status in ("ok", "error", "excluded", "missing")},
            )
        )
    return counts


def _is_cut(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return which rows the limit of tokens ended before anything could be read, such as while the model thought."""
    is_empty = rows["answer"].isna() | (rows["answer"] == "")
    return (rows["status"] == "ok") & (rows["finish_reason"] == "length") & is_empty


def examples(
    entry: ManifestEntry,
    frame: pd.DataFrame,
    prompts: Mapping[str, str],
    outputs: Mapping[str, Mapping[str, Any]],
    label: Callable[[ManifestEntry, str], str],
) -> list[ExampleAnswer]:
    """Return the examples of an entry; `prompts` are by id, and `label` names its set of prompts by setting."""
    chosen = frame[frame["request_id"].isin(list(prompts))]
    rows = {row["request_id"]: {str(k): v for k, v in row.items()} for row in chosen.to_dict("records")}
    return [
        _example(entry, rows[request_id], outputs[request_id], text, label(entry, rows[request_id]["setting"]))
        for request_id, text in prompts.items()
        if request_id in outputs
    ]


def _example(
    entry: ManifestEntry, row: Mapping[str, Any], raw: Mapping[str, Any], text: str, prompt_set: str
) -> ExampleAnswer:
    right = next((row[name] for name in RIGHT if name in row and not pd.isna(row[name])), None)
    verdict: Literal["right", "wrong", "unscored", "error", "excluded"] = "unscored"
    if row["status"] != "ok":
        verdict = "error" if row["status"] == "error" else "excluded"
    elif right is not None:
        verdict = "right" if right else "wrong"
    return ExampleAnswer(
        benchmark=entry.benchmark,
        model=entry.model,
        task=row["task"],
        setting=row["setting"],
        sample_id=row["sample_id"],
        variant=row["variant"],
        prompt_set=prompt_set,
        question=text,
        output=raw["output"],
        read_as=row["answer"],
        verdict=verdict,
        note=raw["error"] or f"rule: {row['rule']}",
    )
