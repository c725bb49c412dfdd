"""Samples of lm-evaluation-harness (`samples_TASK_DATE.jsonl`) and of lmms-eval (`DATE_samples_TASK.jsonl`)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final

from jobs.import_logs.fields import first_text, group_fields, ids_of, options_of, question_of, text, walk
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.benchmarks.records import Rejection
from pipelines.errors import UsageError
from pipelines.logged_answers.matching import READERS
from pipelines.logged_answers.readers import Logged, LoggedAnswer, json_file, json_lines, verdict

_KNOWN_KEYS: Final = frozenset((
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash", "token_counts", "input", "input_media", "submission",
))  # fmt: skip


def is_samples(row: object) -> bool:
    """Return whether a line is one of these tools' samples."""
    return isinstance(row, dict) and "doc_id" in row and ("resps" in row or "filtered_resps" in row)


def read_samples(path: Path, tool: str) -> Iterator[Logged]:
    """Yield the answers of a file; of several filters of a sample the first counts."""
    model = _model(path)
    seen: set[str] = set()
    for number, row in json_lines(path):
        if isinstance(row, UnreadableError) or not is_samples(row):
            reason = str(row) if isinstance(row, UnreadableError) else "is no sample: doc_id or resps is missing"
            yield Rejection(file=path.name, item=f"line {number}", reason=reason)
            continue
        doc_id = text(row["doc_id"])
        if row.get("filter") is not None and doc_id in seen:
            continue
        seen.add(doc_id)
        yield _answer(row, LoggedAnswer(file=path.name, line=f"line {number}", model=model, output=None), tool)


def _answer(row: Mapping[str, Any], place: LoggedAnswer, tool: str) -> LoggedAnswer:
    doc: Mapping[str, Any] = row["doc"] if isinstance(row.get("doc"), dict) else {}
    metric, value = _metric(row, tool)
    read = first_text(row.get("filtered_resps"))
    chosen = _likeliest(row.get("resps"))
    data = doc["data"] if isinstance(doc.get("data"), dict) else doc  # exports of ours keep the sample's fields there
    rule = ", ".join(filter(None, (text(row.get("filter")).replace("none", ""), metric)))
    return LoggedAnswer(
        file=place.file,
        line=place.line,
        model=place.model,
        output=chosen or (first_text(row["resps"]) if "resps" in row else read),
        ids=tuple(dict.fromkeys((*ids_of(doc), *(name for part in walk(row) for name in ids_of(part))))),
        position=text(row["doc_id"]),
        question=question_of(data),
        prompt=_prompt(row),
        options=options_of(data),
        target=text(row.get("target")),
        group=group_fields(doc),
        excluded=text(row.get("error")) if row.get("status") == "excluded" else "",
        their_correct=value,
        their_answer=None if chosen else read,
        their_rule=f"{tool}: {rule}" if value is not None else "",
    )


def _metric(row: Mapping[str, Any], tool: str) -> tuple[str, float | None]:
    """Return the metric that is a verdict, a number or a record with a `score`: a known one, else the first."""
    verdicts = dict(_verdicts(row))
    name = next((name for name in verdicts if f"{tool}: {name}" in READERS), next(iter(verdicts), ""))
    return name, verdicts.get(name)


def _verdicts(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    names = (
        row["metrics"] if isinstance(row.get("metrics"), list) else [name for name in row if name not in _KNOWN_KEYS]
    )
    for name in names:
        value = row.get(name) if isinstance(name, str) else None
        score = verdict(value.get("score") if isinstance(value, dict) else value)
        if score is not None and not isinstance(value, str):
            yield name, score


def _likeliest(responses: Any) -> str:
    """Return the letter of the option with the highest log-likelihood; '' where replies are texts."""
    if not isinstance(responses, Sequence) or isinstance(responses, str) or not 1 < len(responses) <= 26:
        return ""
    values = []
    for response in responses:
        pair = response if isinstance(response, list) else []
        while pair and isinstance(pair[0], list):
            pair = pair[0]
        if len(pair) != 2 or isinstance(pair[0], bool) or not isinstance(pair[0], int | float | str):
            return ""
        try:
            values.append(float(pair[0]))
        except (ValueError, OverflowError):
            return ""
    return ascii_uppercase[max(range(len(values)), key=values.__getitem__)]


def _prompt(row: Mapping[str, Any]) -> str:
    if isinstance(row.get("input"), str):
        return str(row["input"])
    arguments = row.get("arguments")
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else arguments
    if isinstance(first, dict):
        return text(first.get("arg_0"))
    return first_text(first) or ""


def _model(path: Path) -> str:
    """Return the model of the results beside the samples, else the folder's name."""
    for results in sorted((*path.parent.glob("results_*.json"), *path.parent.glob("*_results.json")))[::-1][:1]:
        try:
            raw = json_file(results)
        except UsageError:
            raw = None  # the samples are read without
        if isinstance(raw, dict) and isinstance(raw.get("model_name"), str) and raw["model_name"]:
            return str(raw["model_name"])
    return path.resolve().parent.name
