"""VLMEvalKit's results: `MODEL_DATASET.xlsx`, `.tsv`, `.csv` or `.json`, and the files with verdicts beside them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jobs.import_logs.fields import ids_of, options_of, question_of, text, text_table, workbook
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.benchmarks.records import Rejection
from pipelines.errors import UsageError
from pipelines.logged_answers.readers import Logged, LoggedAnswer, json_file, verdict

_VERDICTS: Final[Mapping[str, str]] = {"hit": "opt", "correct": "res", "eval_score": "eval_pred", "score": "extracted"}
"""Column of a verdict -> that of what its reader took, in the files of its kinds of question."""
_DELIMITERS: Final[Mapping[str, str]] = {".tsv": "\t", ".csv": ","}
_FAILED: Final = "Failed to obtain answer"  # what it writes in place of an answer of an endpoint that failed


def has_columns(row: object) -> bool:
    """Return whether a row has the columns of a result."""
    return isinstance(row, Mapping) and "prediction" in row and bool(ids_of(row) or question_of(row))


def read_results(path: Path) -> Iterator[Logged]:
    """Yield the answers of a file."""
    model = _model(path)
    for number, row in _rows(path):
        place = f"row {number}"
        if isinstance(row, UnreadableError) or not has_columns(row):
            reason = (
                str(row) if isinstance(row, UnreadableError) else "has no prediction, or neither index nor question"
            )
            yield Rejection(file=path.name, item=place, reason=reason)
        else:
            yield _answer(row, path, place, model)


def _answer(row: Mapping[str, Any], path: Path, place: str, model: str) -> LoggedAnswer:
    column = next((name for name in _VERDICTS if verdict(row.get(name)) is not None), "")
    output = row.get("prediction")
    reply = output if isinstance(output, str) else text(output)
    return LoggedAnswer(
        file=path.name,
        line=place,
        model=model,
        output=None if output is None or reply.startswith(_FAILED) else reply,
        ids=ids_of(row),
        question=question_of(row),
        options=options_of(row),
        target=text(row.get("answer")),
        their_correct=verdict(row.get(column)) if column else None,
        their_answer=text(row.get(_VERDICTS[column])).strip() or None if column else None,
        their_rule=f"vlmevalkit: {column}" if column else "",
    )


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    if path.suffix in _DELIMITERS:
        yield from text_table(path, _DELIMITERS[path.suffix])
    elif path.suffix == ".xlsx":
        yield from workbook(path)
    else:
        yield from enumerate(_records(json_file(path), path), start=1)


def _records(value: Any, path: Path) -> list[Any]:
    """Return the rows of JSON: a list of records, or columns of lists or of records by row."""
    if isinstance(value, list):
        return value
    columns = value if isinstance(value, dict) else {}
    lists = {name: [*of.values()] if isinstance(of, dict) else of for name, of in columns.items()}
    lengths = {len(of) if isinstance(of, list) else -1 for of in lists.values()}
    if len(lengths) != 1 or -1 in lengths:
        raise UsageError(f"--predictions {path}: neither a list of records nor columns of one length")
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _model(path: Path) -> str:
    """Return the folder above that begins the file's name, as the tool arranges them; else the name's first part."""
    for folder in path.resolve().parents:
        if folder.name and path.name.startswith(f"{folder.name}_"):
            return folder.name
    return path.stem.partition("_")[0]
