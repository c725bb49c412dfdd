"""Options of a table's choices: how they are given, and how an answer names one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.benchmarks.records import RawSample, Rejection, SourceWarning
from pipelines.benchmarks.table.columns_file import ColumnsFile, read_columns_file
from pipelines.benchmarks.table.files import find_files
from pipelines.benchmarks.table.survey import survey
from pipelines.errors import PipelineError, SourceError
from pipelines.ingest.source_folder import Folder
from tests.support.fuzzing import mutate
from tests.support.mutating import mutated
from tests.unit.pipelines.ingest.test_table import delimited, ingest, samples


@pytest.mark.parametrize(
    ("options", "answers", "golds"),
    [
        *((["one", "two", "three"], answers, [0, 1, 2]) for answers in ([0, 1, 2], [1, 2, 3], ["one", "(b)", "3"])),
        (["2", "3", "4", "5"], [4, 3, 5], [2, 1, 3]),  # texts, whatever their type
        ([2, 3, 4, 5], [4, 3, 5.0], [2, 1, 3]),
        (["2", "3", "4", "5"], ["0", "1", "2"], [0, 1, 2]),
        (["one", "two", "three", "four"], ["0", "1", "2"], [0, 1, 2]),  # an index is no number word
        (["A. 1", "B. 0", "C. 7"], [1, 0, 7], [0, 1, 2]),
        *((None, [number, "1.250,5"], [4.5, 1250.5]) for number in ("4,5", "4.5", "$4.5", "4,50 %")),
    ],
)
def test_answers_name_options_by_index_text_or_letter_or_are_numbers(
    tmp_path: Path, options: list[Any] | None, answers: list[Any], golds: list[float]
) -> None:
    given = {"choices": options} if options else {}
    rows = [{"question": "x", **given, "answer": answer} for answer in answers]
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert [sample.data["gold"] for sample in samples(tmp_path)] == golds
    counts_from_one = str(answers[-1]) == str(len(options or ()))
    assert bool(result.manifest.notices) == counts_from_one


@pytest.mark.parametrize(
    ("answers", "golds", "notice"),
    [
        ([3, 2, 4], [0, 1, 2], "digits of answers are read as texts of options, as 3 of 3 are, not as indices"),
        ([1, 2, 4], [0, 1, 3],
         "some equal the number of options; 2 of 3 are also the text of an option, and not read so"),
        ([1, 1, 2], [1, 1, 2], "though none is 0; 1 of 3 are also the text of an option, and not read so"),
    ],
)  # fmt: skip
def test_the_reading_of_digits_is_said(tmp_path: Path, answers: list[int], golds: list[int], notice: str) -> None:
    rows = [{"question": "x", "choices": ["3", "2", "4", "7"], "answer": answer} for answer in answers]
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert [sample.data["gold"] for sample in samples(tmp_path)] == golds
    assert len(result.manifest.notices) == 1
    assert result.manifest.notices[0].endswith(notice)


def test_columns_of_options_go_as_far_as_they_go(tmp_path: Path) -> None:
    letters = "ABCDEFGHIJKL"
    row = {letter: f"option {letter}" for letter in letters}
    many = [{"question": "x", **row, "answer": letter} for letter in letters]
    ingest(tmp_path, "q.csv", delimited(many, ","))
    assert {len(sample.data["options"]) for sample in samples(tmp_path)} == {12}
    assert [sample.data["gold"] for sample in samples(tmp_path)] == [*range(12)]
    with pytest.raises(SourceError, match=r"columns A, B, D may be options, and C is missing; .*options: \[A, B, D\]"):
        ingest(tmp_path, "q.csv", "question,A,B,D,answer\nq,x,y,z,A\n")
    gap = ColumnsFile(columns={"options": ("A", "B", "D")})
    assert ingest(tmp_path, "q.csv", "question,A,B,D,answer\nq,x,y,z,A\n", columns=gap).manifest.samples == 1


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"B": "dog", "A": "cat", "C": "emu"}, ["cat", "dog", "emu"]),
        ({"2": "dog", "10": "emu", "1": "cat"}, ["cat", "dog", "emu"]),
        ({"second": "dog", "first": "cat"}, ["dog", "cat"]),
        ({"A": "cat", "B": "dog", "C": None}, ["cat", "dog"]),  # as Parquet fills what a row lacks
        ({"text": ["dog", "cat"], "label": ["B", "A"]}, ["cat", "dog"]),
        ({"text": ["cat", "dog"], "label": [1, 2]}, ["cat", "dog"]),
    ],
)
def test_options_of_an_object_stand_by_their_letters(tmp_path: Path, options: dict[str, Any], texts: list[str]) -> None:
    rows = [{"question": "x", "options": given, "answer": "A"} for given in (options, json.dumps(options))]
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert [sample.data["options"] for sample in samples(tmp_path)] == [texts, texts]


@pytest.mark.parametrize("labels", [["A"], ["A", "A"]])
def test_labels_beside_options_are_as_many_and_different(tmp_path: Path, labels: list[str]) -> None:
    row = {"question": "x", "options": {"text": ["a", "b"], "label": labels}, "answer": "A"}
    with pytest.raises(SourceError, match="2 options need as many labels"):
        ingest(tmp_path, "q.jsonl", json.dumps(row))


def test_options_of_maps_and_objects_stand_by_their_letters_unless_one_is_left_out_or_recurs(tmp_path: Path) -> None:
    options = pa.array([[("B", "dog"), ("A", "cat")]], pa.map_(pa.string(), pa.string()))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"question": ["x"], "options": options, "answer": ["B"]}), sink)
    ingest(tmp_path, "q.parquet", sink.getvalue().to_pybytes())
    assert [(sample.data["options"], sample.data["gold"]) for sample in samples(tmp_path)] == [(["cat", "dog"], 1)]
    rows = [{"question": "x", "options": {"A": "a", "B": "b"} | more, "answer": "A"} for more in ({}, {"D": "d"})]
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert [rejection.reason for rejection in result.rejections] == ["option C is empty, and a later one is not"]
    row = {"question": "q", "options": {"b": "x", "a": "y", "A": "z"}, "answer": "y"}
    ingest(tmp_path, "q.jsonl", json.dumps(row), kind="choice")
    assert [sample.data["options"] for sample in samples(tmp_path)] == [["x", "y", "z"]]


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["A. cat", "B. dog"], ["cat", "dog"]),
        (["(A) cat", "(B) dog"], ["cat", "dog"]),
        (["A. Smith", "J. Doe"], ["A. Smith", "J. Doe"]),
        (["A.D.", "B.C."], ["A.D.", "B.C."]),
    ],
)
def test_letters_that_options_carry_are_asked_once(tmp_path: Path, options: list[str], texts: list[str]) -> None:
    rows = [{"question": "x", "options": options, "answer": answer} for answer in ("B", options[1], texts[1])]
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    data = [sample.data for sample in samples(tmp_path)]
    assert data == [{"question": "x", "options": texts, "gold": 1, "answers": [texts[1]]}] * 3


def test_an_option_that_only_a_late_row_has_is_one(tmp_path: Path) -> None:
    rows = [{"question": "x", "A": "a", "B": "b", "answer": "A"}] * 1100 + [
        {"question": "x", "A": "a", "B": "b", "C": "c", "answer": "A"}
    ]
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert [len(sample.data["options"]) for sample in samples(tmp_path)][-1] == 3


def test_json_text_of_a_list_with_one_reference_is_an_answer_of_a_choice(tmp_path: Path) -> None:
    rows = ['1,"[""B""]",red,blue', '2,"[""red""]",red,blue', "3,[2],[1],[2]", '4,"[""A"",""B""]",red,blue']
    result = ingest(tmp_path, "q.csv", "\n".join(["question,answer,A,B", *rows]), kind="choice")
    assert [sample.data["gold"] for sample in samples(tmp_path)] == [1, 0, 1]
    assert [rejection.item for rejection in result.rejections] == ["line 5"]


@pytest.mark.parametrize(
    ("options", "answer", "gold"),
    [(["A. -3", "B. 3"], "3", 1), (["A. 5.5", "B. -5.5"], "-5.5", 1), (["A. the dog", "B. dog"], "dog", 1)],
)
def test_answers_are_options_without_letters_first(tmp_path: Path, options: list[str], answer: str, gold: int) -> None:
    row = {"question": "Which?", "options": options, "answer": answer}
    digits = {"question": "So?", "options": ["3", "4"], "answer": "3"}  # digits are texts in this file
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, [row, digits])), kind="choice")
    assert [sample.data["gold"] for sample in samples(tmp_path)] == [gold, 0]


@pytest.mark.parametrize("form", ["{}", "[{}]", '"[{}]"'])
def test_indices_count_from_one_where_the_last_has_the_number_of_options(tmp_path: Path, form: str) -> None:
    rows = [f'{{"question": "q{n}", "options": ["a", "b", "c", "d"], "answer": {form.format(n)}}}' for n in (1, 2, 4)]
    ingest(tmp_path, "q.jsonl", "\n".join(rows), kind="choice")
    assert [sample.data["gold"] for sample in samples(tmp_path)] == [0, 1, 3]


@pytest.mark.parametrize(
    "options", ["['cat', 'dog']", "array(['cat', 'dog'], dtype=object)", "{'A': 'cat', 'B': 'dog'}", "A. cat\nB. dog"]
)
def test_options_as_python_prints_them(tmp_path: Path, options: str) -> None:
    rows = [
        {"question": "x", "options": options, "answer": answer} for answer in ("B", "dog", "B: dog", "(B)", "['B']")
    ]
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert [(sample.data["options"], sample.data["gold"]) for sample in samples(tmp_path)] == [(["cat", "dog"], 1)] * 5


def test_python_lists_are_references_and_broken_ones_are_rejected(tmp_path: Path) -> None:
    ingest(tmp_path, "q.csv", "question,answer\nx,\"['red', 'crimson']\"\ny,['blue']\n")
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [["red", "crimson"], ["blue"]]
    rows = [{"question": "x", "options": text, "answer": "A"} for text in ("['cat', 'dog']", "cat;dog", "['cat', dog]")]
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert (result.manifest.samples, result.manifest.rejected) == (1, 2)


@pytest.mark.parametrize("scorer", ["relaxed", "latex"])
def test_a_list_of_numbers_is_one_answer_of_numbers_and_formulas(tmp_path: Path, scorer: str) -> None:
    answers = ["[0.57, 0.63]", "[0,1]", "['a', 'b']", "[Brazil, China]", "5", [1, 2]]
    rows = [{"question": "x", "answer": answer} for answer in answers]
    path = tmp_path / "c.yaml"
    path.write_text(f"kind: text\nscorer: {scorer}\n", "utf-8")
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)), columns=read_columns_file(path))
    found = [sample.data["answers"] for sample in samples(tmp_path)]
    assert found == [["[0.57, 0.63]"], ["[0,1]"], ["a", "b"], ["[Brazil, China]"], ["5"], ["1", "2"]]


def test_equal_options_are_an_error_unless_their_rows_are_to_be_rejected(tmp_path: Path) -> None:
    text = "question,A,B,C,answer\nx,two,one,two,B\ny,nan,one,nan,B\nz,one,two,three,A\nv,C,C++,c,B\n"
    problem = r"2 of 4 rows have two equal options in A, B, C \(line 2: options A and C are equal \('two'\)"
    with pytest.raises(SourceError, match=rf"{problem}.*`reject_equal_options: true`"):
        ingest(tmp_path, "q.csv", text)
    result = ingest(tmp_path, "q.csv", text, columns=ColumnsFile(reject_equal_options=True))
    assert result.manifest.rejected == 2
    assert [sample.data["options"] for sample in samples(tmp_path)] == [["one", "two", "three"], ["C", "C++", "c"]]


def test_repeated_ids_are_rejected_one_by_one_unless_most_repeat(tmp_path: Path) -> None:
    text = "id,question,answer\n" + "".join(f"{number // 2},q{number},yes\n" for number in range(8))
    with pytest.raises(SourceError, match=r"column 'id' holds no ids: 4 of 8 rows repeat one, first q\.csv, line 3, 0"):
        ingest(tmp_path, "q.csv", text)
    result = ingest(tmp_path, "q.csv", text, columns=ColumnsFile(ignore=("id",)))
    assert (result.manifest.samples, result.manifest.rejected) == (8, 0)
    text = "id,question,answer\n" + "".join(f"{max(number, 1)},q{number},yes\n" for number in range(100))
    result = ingest(tmp_path, "q.csv", text)
    assert (result.manifest.samples, result.manifest.rejected) == (99, 1)


@pytest.mark.parametrize("answers", [["1/2", "3/4"], ["12cm", "5cm"], ["five", "six"]])
def test_words_units_and_fractions_are_numbers_only_if_the_kind_says_so(tmp_path: Path, answers: list[str]) -> None:
    rows = [{"question": str(place), "answer": answer} for place, answer in enumerate(answers)]
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert "gold" not in samples(tmp_path)[0].data
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)), kind="number")
    assert samples(tmp_path)[0].data["gold"] in (0.5, 12.0, 5.0)


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
