"""EvalScope's `reviews/MODEL/*.jsonl`, and `predictions/MODEL/*.jsonl` of what it has not reviewed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jobs.import_logs.fields import ids_of, message_text, text
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.benchmarks.records import Rejection
from pipelines.logged_answers.readers import Logged, LoggedAnswer, json_lines, verdict

_SIMILARITIES: Final = ("rouge", "bleu", "meteor", "cider", "anls")  # measures of likeness, which are no verdicts


def is_row(row: object) -> bool:
    """Return whether a line is a review or a prediction of EvalScope."""
    return isinstance(row, dict) and "index" in row and ("sample_score" in row or "model_output" in row)


def read_rows(path: Path) -> Iterator[Logged]:
    """Yield the answers of a file of reviews or predictions."""
    for number, row in json_lines(path):
        place = f"line {number}"
        if isinstance(row, UnreadableError) or not is_row(row):
            reason = str(row) if isinstance(row, UnreadableError) else "is neither a review nor a prediction"
            yield Rejection(file=path.name, item=place, reason=reason)
        elif _mapping(row, "sample_score").get("generation_index") not in (None, 0):
            yield Rejection(file=path.name, item=place, reason="a repeated answer; the first counts")
        else:
            yield _answer(row, path, place)


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _answer(row: Mapping[str, Any], path: Path, place: str) -> LoggedAnswer:
    sample_score = _mapping(row, "sample_score")
    score, metadata = _mapping(sample_score, "score"), _mapping(sample_score, "sample_metadata") or row.get("metadata")
    name, value = _verdict(score)
    turns = row.get("messages")
    messages = [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    target = row.get("target")
    return LoggedAnswer(
        file=path.name,
        line=place,
        model=text(row.get("model")) or path.resolve().parent.name,
        output=_output(row, score, messages),
        ids=ids_of(metadata) if isinstance(metadata, dict) else (),
        position=text(row["index"]),
        prompt=_last(messages, "user") or "",
        target=text(target[0] if isinstance(target, list) and target else target),
        their_correct=value,
        their_answer=text(score.get("extracted_prediction")) or None,
        their_rule=f"evalscope: {name}" if value is not None else "",
    )


def _verdict(score: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return the main score where it is a verdict and the review succeeded."""
    values = _mapping(score, "value")
    name = text(score.get("main_score_name")) or next(iter(values), "")
    if score.get("status") not in (None, "success") or name.lower().startswith(_SIMILARITIES):
        return "", None
    return name, verdict(values.get(name))


def _output(row: Mapping[str, Any], score: Mapping[str, Any], messages: list[dict[str, Any]]) -> str | None:
    """Return what the model said; None where the request failed."""
    output = _mapping(row, "model_output")
    choices = output.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return message_text(_mapping(choices[0], "message").get("content"))
    if isinstance(score.get("prediction"), str):
        return str(score["prediction"])
    return _last(messages, "assistant")


def _last(messages: list[dict[str, Any]], role: str) -> str | None:
    turns = [turn for turn in messages if turn.get("role") == role]
    return message_text(turns[-1].get("content")) if turns else None
