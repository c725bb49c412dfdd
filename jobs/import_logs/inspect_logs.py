"""Logs of Inspect: `.eval`, an archive with a file for each sample, and `.json`, one value."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jobs.import_logs.fields import group_fields, ids_of, message_text, open_archive, question_of, text
from pipelines.benchmarks.foreign_files.archives import Archive, UnreadableError
from pipelines.benchmarks.records import Rejection
from pipelines.errors import UsageError
from pipelines.logged_answers.readers import Logged, LoggedAnswer, json_file, parse, verdict

_HEADERS: Final = ("header.json", "_journal/start.json")  # the second where the run was cut off
_ATTACHMENT: Final = "attachment://"
_SHUFFLED: Final = "Choices were shuffled"


def is_log(value: object) -> bool:
    """Return whether a JSON value is a log of Inspect."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "samples" in value


def read_archive(path: Path) -> Iterator[Logged]:
    """Yield the answers of an `.eval` file."""
    with open_archive(path) as archive:
        model = ""
        for name in _HEADERS:
            if not model and name in archive.names:
                model = _model(_member(archive, name))
        samples = [name for name in archive.names if name.startswith("samples/") and name.endswith(".json")]
        if not samples:
            raise UsageError(f"--predictions {path}: holds no samples")
        for name in samples:
            value = _member(archive, name)
            yield (
                _answer(value, path.name, name, model)
                if isinstance(value, dict)
                else Rejection(file=path.name, item=name, reason=str(value))
            )


def _member(archive: Archive, name: str) -> Any:
    """Return the value of a member, or why it has none."""
    try:
        value = parse(archive.read(name))
    except UnreadableError as error:
        return error
    return value if isinstance(value, dict) else UnreadableError("is no record")


def read_json(path: Path) -> Iterator[Logged]:
    """Yield the answers of a `.json` log."""
    log = json_file(path)
    if not is_log(log) or not isinstance(log["samples"], list):
        raise UsageError(f"--predictions {path}: is no log of Inspect: it holds no eval or no samples")
    for number, sample in enumerate(log["samples"], start=1):
        place = f"sample {number}"
        yield (
            _answer(sample, path.name, place, _model(log))
            if isinstance(sample, dict)
            else Rejection(file=path.name, item=place, reason="is no record")
        )


def _model(log: Any) -> str:
    spec = log.get("eval") if isinstance(log, dict) else None
    return text(spec.get("model")) if isinstance(spec, dict) else ""


def _answer(sample: Mapping[str, Any], file: str, place: str, model: str) -> Logged:
    if text(sample.get("epoch")) not in ("", "1"):
        return Rejection(file=file, item=place, reason="a repeated answer (epoch); the first counts")
    scorer, score = _score(sample)
    if text(score.get("explanation")).startswith(_SHUFFLED):
        return Rejection(file=file, item=place, reason="its options were shuffled, so that a letter means another one")
    metadata: Mapping[str, Any] = sample["metadata"] if isinstance(sample.get("metadata"), dict) else {}
    value = verdict(score.get("value"))
    choices = sample.get("choices")
    prompt = _input(sample)
    return LoggedAnswer(
        file=file,
        line=place,
        model=model,
        output=_output(sample),
        ids=tuple(dict.fromkeys((*ids_of(metadata), *ids_of(sample)))),
        question=question_of(metadata) or (prompt if isinstance(choices, list) else ""),
        prompt=prompt,
        options=tuple(map(text, choices)) if isinstance(choices, list) else (),
        target=text(sample.get("target")),
        group=group_fields(metadata),
        excluded=text(metadata.get("excluded")) if metadata.get("status") == "excluded" else "",
        their_correct=value,
        their_answer=text(score.get("answer")) or None,
        their_rule=f"inspect: {scorer}" if value is not None else "",
    )


def _score(sample: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the first score that is a verdict, with its scorer."""
    scores = sample.get("scores")
    for name, score in scores.items() if isinstance(scores, dict) else ():
        if isinstance(score, dict) and verdict(score.get("value")) is not None:
            return str(name), score
    return "", {}


def _input(sample: Mapping[str, Any]) -> str:
    turns = sample.get("input")
    if isinstance(turns, list):
        users = [turn for turn in turns if isinstance(turn, dict) and turn.get("role") == "user"]
        return message_text(_resolved(users[-1].get("content"), sample)) if users else ""
    return text(_resolved(turns, sample))


def _output(sample: Mapping[str, Any]) -> str | None:
    """Return what the model said; None where the sample ended in an error or has no reply."""
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    if sample.get("error") or not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    message = choices[0].get("message")
    return message_text(_resolved(message.get("content"), sample)) if isinstance(message, dict) else None


def _resolved(content: Any, sample: Mapping[str, Any]) -> Any:
    """Return content in which references to attachments are the attached texts."""
    attached = sample.get("attachments")
    if isinstance(content, list):
        return [_resolved(part, sample) for part in content]
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return {**content, "text": _resolved(content["text"], sample)}
    if isinstance(content, str) and content.startswith(_ATTACHMENT) and isinstance(attached, dict):
        return text(attached.get(content.removeprefix(_ATTACHMENT))) or content
    return content
