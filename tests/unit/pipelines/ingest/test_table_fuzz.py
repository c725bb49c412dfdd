"""Damaged tables: each damaged row is one rejection with its line, and every other row stays."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pipelines.benchmarks.records import RawSample, Rejection, SourceWarning
from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.files import find_files
from pipelines.benchmarks.table.survey import survey
from pipelines.errors import PipelineError
from pipelines.ingest.source_folder import Folder
from tests.support.fuzzing import mutate
from tests.support.mutating import mutated

ROWS = 12
COLUMNS = ColumnsFile(columns={"media": ("picture", "images")}, media_optional=True)
Row = dict[str, Any]
WORDS = (
    "red", "Où?", "a, b", 'say "no"', "x;y", "<b>bold</b>", "two\nlines", "日本", "tab\there", "", "=1+1", "'quoted'",
)  # fmt: skip


def good_row(rng: Random, number: int) -> Row:
    options = {letter: f"{rng.choice(WORDS)} {letter}{number}" for letter in "ABCD"}
    answer = rng.choice([rng.choice("ABCD"), options[rng.choice("ABCD")]])
    return {"id": f"row {number}", "question": f"{rng.choice(WORDS)} {number}?", **options, "answer": answer}


def serialized(row: Row, ending: str) -> str:
    if ending == ".jsonl":
        return json.dumps(row, ensure_ascii=False)
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t" if ending == ".tsv" else ",", lineterminator="\n").writerow(row.values())
    return buffer.getvalue().removesuffix("\n")


VALUES: tuple[Callable[[Row], Row], ...] = (
    lambda row: {**row, "answer": "E"}, lambda row: {**row, "answer": "nothing of these"},
    lambda row: {**row, "answer": ""}, lambda row: {**row, "question": "  "},
    lambda row: {**row, "B": "", "answer": "B"}, lambda row: {**row, "id": "x" * 600},
    lambda row: {**row, "answer": "17"}, lambda row: {name: value for name, value in row.items() if name != "answer"},
)  # fmt: skip
TEXTS: tuple[Callable[[bytes, bytes], bytes], ...] = (
    lambda line, _sign: line + b" \xff\xfe",
    lambda line, sign: b"".join(line.split(b"\n")) + sign + b"more" + sign,
)
JSON_TEXTS: tuple[Callable[[bytes, bytes], bytes], ...] = (
    lambda line, _sign: line[: len(line) // 2], lambda line, _sign: b"[" + line + b"]",
    lambda line, _sign: line.replace(b'"question"', b'"question\xff"'), lambda line, _sign: line + line,
)  # fmt: skip


def damaged_file(number: int) -> tuple[str, bytes, set[str]]:
    """Return a file's name, its content, and where its damaged rows stand."""
    rng = Random(number)
    ending = rng.choice((".csv", ".tsv", ".jsonl"))
    sign = b"\t" if ending == ".tsv" else b","
    header = [] if ending == ".jsonl" else [serialized({name: name for name in good_row(rng, 0)}, ending).encode()]
    lines, bad = list(header), set()
    for index in range(ROWS):
        row = good_row(rng, index)
        place = sum(line.count(b"\n") + 1 for line in lines) + 1
        line = serialized(row, ending).encode()
        if index and rng.random() < 0.3:
            if rng.random() < 0.5:
                line = serialized(rng.choice(VALUES)(row), ending).encode()
            else:
                line = rng.choice(JSON_TEXTS if ending == ".jsonl" else TEXTS)(line, sign)
            bad.add(f"line {place}")
        lines.append(line)
    # One row names the encoding: beyond ASCII, it is UTF-8.
    return f"q{ending}", b"\n".join([*lines, serialized(good_row(rng, 99) | {"question": "é"}, ending).encode()]), bad


def check(folder: Path, numbers: range) -> None:
    for number in numbers:
        name, content, bad = damaged_file(number)
        (folder / name).write_bytes(content)
        source = Folder(str(folder))
        table = survey(source, find_files(source, name, ""), name="mine", kind="", split="", given=ColumnsFile())
        items = list(table.read(source, {}))
        rejected = [item.item.partition(",")[0] for item in items if isinstance(item, Rejection)]
        assert rejected == sorted(bad, key=lambda place: int(place.split()[1])), (number, name)
        assert sum(isinstance(item, RawSample) for item in items) == ROWS + 1 - len(bad), number


def test_five_hundred_damaged_files(tmp_path: Path) -> None:
    check(tmp_path, range(500))


@pytest.mark.fuzz
def test_five_thousand_damaged_files(tmp_path: Path) -> None:
    check(tmp_path, range(500, 5000))


def conversation(number: int) -> Row:
    """Return a row of either layout, in turn."""
    if number % 2:
        asked = [{"type": "image", "image": f"data:image/png;base64,{'A' * 8}"}, {"type": "text", "text": "Which?"}]
        return {
            "id": f"row {number}",
            "messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": "red"}],
        }
    turns = [{"from": "human", "value": "<image>\nWhich?"}, {"from": "gpt", "value": "red"}]
    return {"id": f"row {number}", "picture": "a.png", "messages": turns}


def test_each_damaged_conversation_costs_itself_alone(tmp_path: Path) -> None:
    source = Folder(str(tmp_path))
    rejected = 0
    for number in range(500):
        rows = [conversation(place) for place in range(6)]
        rows[3] = mutated(rows[3], number)
        rows[4] = mutated(rows[4], number)
        (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8", errors="surrogatepass")
        files = find_files(source, "q.jsonl", "")
        try:
            table = survey(source, files, name="mine", kind="text", split="", given=COLUMNS)
        except PipelineError as error:  # a field whose new name may be another column
            assert "no row" not in str(error)
            continue
        items = [item for item in table.read(source, {}) if not isinstance(item, SourceWarning)]
        assert len(items) == 6, number
        assert all(isinstance(items[place], RawSample) for place in (0, 1, 2, 5)), number
        assert all(str(item.reason) for item in items if isinstance(item, Rejection))
        rejected += sum(isinstance(item, Rejection) for item in items)
    assert 200 < rejected < 800


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json"])
def test_mutated_bytes_end_with_rows_or_a_sentence(tmp_path: Path, ending: str) -> None:
    rng = Random(1)
    rows = [good_row(rng, number) for number in range(4)]
    lines = [serialized({name: name for name in rows[0]}, ending)] * (ending in (".csv", ".tsv"))
    text = json.dumps(rows) if ending == ".json" else "\n".join([*lines, *(serialized(row, ending) for row in rows)])
    for number in range(150):
        (tmp_path / f"q{ending}").write_bytes(mutate(text.encode(), number))
        source = Folder(str(tmp_path))
        try:
            table = survey(
                source, find_files(source, f"q{ending}", ""), name="mine", kind="choice", split="", given=ColumnsFile()
            )
            items = list(table.read(source, {}))
        except PipelineError as error:
            assert str(error)
        else:
            assert all(isinstance(item, RawSample | Rejection) for item in items)
