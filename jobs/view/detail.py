"""The page of one item, with all that its parts hold, and the page of what differs between two outputs."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.view.index import Cell, Index, benchmark_table, metric_cell, read_query
from jobs.view.listing import PAGE, Item, paged
from models.messages import Text, prompt_sha256
from pipelines.benchmarks.records import JudgeRequest, Sample
from pipelines.errors import PipelineError
from pipelines.report.metrics_file import Measured
from pipelines.samples.outputs import Output, by_label
from pipelines.samples.prompts import (
    Brief,
    SampleReader,
    ShownMedia,
    ShownPrompt,
    answered_row,
    brief_of,
    media_of,
    prompt_of,
    unshown,
)
from pipelines.storage.parts import read_part

CHANGES: Final = {
    "better": "not right, now right",
    "worse": "right, now not",
    "other": "another outcome, right in neither",
    "text": "another answer, same outcome",
    "first": "in the first only",
    "second": "in the second only",
    "same": "the same answer",
}
_PAIRS: Final = read_query("changes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A page of what differs."""

    counts: list[dict[str, Any]]  # number of answers by benchmark, model and change
    rows: list[dict[str, Any]]
    total: int
    page: int
    pages: int


def find_difference(index: Index, first: Output, second: Output, change: str, page: int) -> Difference:
    """Return counts of all changes, and a page of the answers with one of them."""
    outs = [first.number, second.number]
    counts = index.rows(
        f"WITH pairs AS ({_PAIRS}) SELECT benchmark, model, change, count(*) AS n"  # noqa: S608 - constants alone
        " FROM pairs JOIN items USING (item) GROUP BY ALL ORDER BY ALL",
        outs,
    )
    total = sum(row["n"] for row in counts if row["change"] == change)
    page, pages = paged(total, page)
    rows = index.rows(
        f"WITH pairs AS ({_PAIRS}) SELECT pairs.*, benchmark, task, setting, sample_id, variant"  # noqa: S608
        " FROM pairs JOIN items USING (item) WHERE change = ?"
        " ORDER BY benchmark, task, setting, sample_id, variant, model LIMIT ? OFFSET ?",
        [*outs, change, PAGE, (page - 1) * PAGE],
    )
    return Difference(counts=counts, rows=rows, total=total, page=page, pages=pages)


def changes_by_model(difference: Difference) -> dict[tuple[str, str], dict[str, int]]:
    """Return counts by change for each benchmark and model."""
    table: dict[tuple[str, str], dict[str, int]] = {}
    for row in difference.counts:
        table.setdefault((row["benchmark"], row["model"]), {})[row["change"]] = row["n"]
    return table


def metric_changes(first: Output, second: Output) -> list[dict[str, Any]]:
    """Return the headline metrics that both outputs have and that differ."""
    names = {row.benchmark for row in first.metrics()} & {row.benchmark for row in second.metrics()}
    changes = []
    for name in sorted(names):
        metric = benchmark_table([first], name).metric
        before, after = (_headline(output, name, metric) for output in (first, second))
        for key in [key for key in before if key in after]:
            old, new = before[key].value, after[key].value
            if old == new:
                continue
            difference = None if old is None or new is None else new - old
            cells: tuple[Cell, Cell] = (metric_cell(before[key]), metric_cell(after[key]))
            changes.append({"benchmark": name, "metric": metric, "key": key, "cells": cells, "difference": difference})
    return changes


def _headline(output: Output, name: str, metric: str) -> dict[tuple[str, str, str], Measured]:
    return {
        (row.model, row.task, row.setting): row
        for row in output.metrics()
        if row.is_whole and (row.benchmark, row.metric) == (name, metric)
    }


def pair_of(outputs: Sequence[Output], first: str, second: str) -> tuple[Output, Output] | None:
    """Return two outputs by label: by default the first two; None where there are not two."""
    if len(outputs) < 2:
        return None
    labels = by_label(outputs)
    return labels.get(first, outputs[0]), labels.get(second, outputs[1])


_SHORT: Final = 80  # characters of an answer in a sentence
_SHOWN_SCORES: Final = 4  # in a sentence
_KEYS: Final = ("sample_id", "task", "setting", "variant", "model")


@dataclass(slots=True, kw_only=True)
class ShownAnswer:
    """One model's answer."""

    label: str
    output: Output
    row: Mapping[str, Any]  # of the index
    prediction: Mapping[str, Any] = field(default_factory=dict)
    score: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    judgements: "list[Judgement]" = field(default_factory=list)

    @property
    def reason(self) -> str:
        """Say why the answer counts as it does; '' where nothing but its error or its status does."""
        outcome, judge = self.row["outcome"], self.row["judge"]
        if judge:
            verdict = {"accepted": "accepted", "rejected": "rejected"}.get(judge, f"did not judge ({judge})")
            run = self.output.run()
            return f"The judge {verdict} it{', tossing a coin' if run.sweep.first_judge in run.baselines else ''}."
        if outcome == "unread":
            return "Nothing could be read from it."
        if outcome in ("right", "wrong"):
            return f"Read as {_short(self.score.get('answer'))}, which is {outcome}."
        scores = ", ".join(f"{name} {value:.3g}" for name, value in [*self.values.items()][:_SHOWN_SCORES])
        return f"No score says right or wrong; {scores}." if scores and outcome == "none" else ""

    @property
    def values(self) -> dict[str, float]:
        """The scores by name."""
        return dict(self.score.get("values") or ())


@dataclass(slots=True, kw_only=True)
class Detail:
    """Everything about one item."""

    item: Item
    answers: list[ShownAnswer]
    prompts: list[tuple[list[str], ShownPrompt]]  # what was sent, with the models that it was sent to
    brief: Brief | None  # none where the sample's data are gone
    media: list[ShownMedia]  # the pictures and clips of all prompts as sent, each once
    unshown: str  # that none was sent, where the sample has some
    sample: Sample | None
    fields: list[tuple[str, str]]  # the sample's own fields: references, options and whatever else is distributed
    people: list[tuple[str, Mapping[str, str]]]  # kind and row of people's files about this sample
    problems: list[str]


def load_detail(item: Item, outputs: Sequence[Output], reader: SampleReader, index: Index) -> Detail:
    """Read all about an item; what cannot be read is named in `problems`."""
    answers = [_answer(outputs[row["out"]], row) for row in item.answers]
    sample, output, problems = _sample(item, [answer.output for answer in answers], reader)
    for answer in answers:
        if sample and answer.prediction and answer.row["judge"]:
            answer.judgements = judgements_of(answer.output, index, answer.prediction, sample)
    prompts = _prompts(answers, sample)
    return Detail(
        item=item,
        answers=answers,
        prompts=prompts,
        brief=brief_of(output, item.answers[0], sample) if output and item.answers else None,
        media=list(dict.fromkeys(medium for _, prompt in prompts for medium in media_of(prompt.steps))),
        unshown=next(filter(None, (unshown(prompt.steps, sample) for _, prompt in prompts)), ""),
        sample=sample,
        fields=[(name, _text(value)) for name, value in (sample.data if sample else {}).items()],
        people=[*_people(item, output)] if output else [],
        problems=problems,
    )


def _answer(output: Output, row: Mapping[str, Any]) -> ShownAnswer:
    shown = ShownAnswer(label=f"{row['model']}", output=output, row=row)
    try:
        prediction = _find(read_part(output.store, f"predictions/{row['path']}"), row)
    except (FileNotFoundError, PipelineError) as error:
        shown.problem = f"its part is gone or damaged: {error}"
        return shown
    if prediction is None:
        shown.problem = "its part was replaced since the list was read; reload in a moment"
        return shown
    shown.prediction = prediction
    try:
        shown.score = _find(read_part(output.store, f"scores/{row['path']}"), row) or {}
    except FileNotFoundError:
        shown.problem = "not scored yet"
    except PipelineError as error:
        shown.problem = str(error)
    return shown


def _find(table: pa.Table, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the row of a part that an index row is about."""
    mask = pc.equal(table["sample_id"], row["sample_id"])
    for name in _KEYS[1:]:
        if name in table.column_names:
            mask = pc.and_(mask, pc.equal(pc.coalesce(table[name], ""), row[name] or ""))
    rows = table.filter(mask).to_pylist()
    # Answers to other words of the prompt are beside each other; their texts tell them apart.
    same = [each for each in rows if "output" not in each or (each["output"] or each.get("error")) == row["output"]]
    return next(iter(same or rows), None)


def _sample(
    item: Item, outputs: Sequence[Output], reader: SampleReader
) -> tuple[Sample | None, Output | None, list[str]]:
    """Return the sample, and the output through whose data it was found."""
    problems = []
    for output in dict.fromkeys(outputs):
        dataset = output.dataset(item.row["benchmark"])
        if dataset is None:
            continue
        try:
            sample = reader.find(dataset, item.row["sample_id"])
        except (PipelineError, FileNotFoundError) as error:
            problems.append(str(error))
            continue
        if sample:
            return sample, output, []
        problems.append(f"{dataset.store.uri}: holds no sample of this id")
    problems = problems or ["the ingested data are not where the run read them; --data names another place"]
    return None, next(iter(outputs), None), problems


def _prompts(answers: Sequence[ShownAnswer], sample: Sample | None) -> list[tuple[list[str], ShownPrompt]]:
    by_prompt: dict[ShownPrompt, list[str]] = {}
    for answer in answers:
        if answer.prediction:
            prompt = prompt_of(answer.output, answer.prediction, sample)
            by_prompt.setdefault(prompt, []).append(answer.label)
    return [(list(dict.fromkeys(models)), prompt) for prompt, models in by_prompt.items()]


def _people(item: Item, output: Output) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows of people's files that name this sample."""
    for kind, text in output.human_files(item.row["benchmark"]).items():
        for row in csv.DictReader(io.StringIO(text)):
            values = {str(name): str(value or "") for name, value in row.items() if name}
            if item.row["sample_id"] in values.values():
                yield kind, values


def _short(text: str | None) -> str:
    line = " ".join((text or "nothing").split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}\u2026"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return json.dumps(value, ensure_ascii=False, indent=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judge's reply, or its failure."""

    judge: str
    question: str
    reply: str


def judgements_of(output: Output, index: Index, prediction: Mapping[str, Any], sample: Sample) -> list[Judgement]:
    """Return all replies about an answer, retries included; none where no judge was asked."""
    entry = output.entry(prediction["benchmark"], prediction["model"])
    if entry is None or prediction.get("status") != "ok":
        return []
    for in_set in entry.by_prompt_set():
        prompter = in_set.prompts.benchmark.judge
        if prompter is None:
            return []
        judge_request = prompter.ask(answered_row(prediction, sample, in_set.prompts.seed), in_set.prompts.texts)
        if isinstance(judge_request, JudgeRequest) and (replies := [*_replies(output, index, judge_request)]):
            return replies
    return []


def _replies(output: Output, index: Index, judge_request: JudgeRequest) -> Iterator[Judgement]:
    question = "\n\n".join(
        part.text for turn in judge_request.step.turns for part in turn.parts if isinstance(part, Text)
    )
    for row in index.rows(
        "SELECT judge, reply FROM judgements WHERE prompt_sha256 = ? AND out = ? ORDER BY ALL",
        [prompt_sha256([judge_request.step]), output.number],
    ):
        yield Judgement(judge=row["judge"], question=question, reply=row["reply"] or "")
