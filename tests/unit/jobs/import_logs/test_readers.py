"""Readers of logs that the harnesses' own packages wrote with planted replies."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from jobs.import_logs.fields import open_archive, text_table, workbook
from pipelines.benchmarks.foreign_files import archives
from pipelines.benchmarks.foreign_files.archives import UnreadableError
from pipelines.benchmarks.records import Rejection
from pipelines.errors import UsageError
from pipelines.logged_answers.readers import LoggedAnswer, recognised, tool_files
from pipelines.plan.run_spec import RunSpec
from pipelines.sweep.answer_spool import AnswerSpool
from pipelines.sweep.predictions_file import read_answers
from tests.support.log_fuzzing import GOLDEN, golden

QUESTIONS = [json.loads(line) for line in (GOLDEN / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
FOLDERS = {  # folder of logs -> its tool, its model
    "lm-eval": ("lm-eval", "lab/planted"),
    "lmms-eval": ("lmms-eval", "lab/planted"),
    "inspect/eval": ("inspect", "mockllm/planted"),
    "evalscope": ("evalscope", "planted"),
    "vlmevalkit": ("vlmevalkit", "planted"),
}


def read(path: Path, tool: str | None = None) -> list[LoggedAnswer | Rejection]:
    return [record for of, file in tool_files(path, tool) for record in of.read(file)]


def answers(path: Path) -> list[LoggedAnswer]:
    records = read(path)
    assert not [record for record in records if isinstance(record, Rejection)]
    return [record for record in records if isinstance(record, LoggedAnswer)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_planted_reply_is_read_with_its_question(folder: str) -> None:
    tool, model = FOLDERS[folder]
    assert {of.name for of, _ in tool_files(GOLDEN / folder, None)} == {tool}
    read_answers = answers(GOLDEN / folder)
    assert {answer.model for answer in read_answers} == {model}
    matched = Counter[str]()
    for row in QUESTIONS:
        for answer in read_answers:
            if row["question"] in f"{answer.question}\n{answer.prompt}":
                matched[row["id"]] += 1
                output = (answer.output or "").removeprefix("ANSWER: ")
                assert output in {row["reply"], row["reply_line"].removeprefix("ANSWER: ")}
                assert not answer.ids or answer.ids[0] == row["id"]
                assert not answer.options or [*answer.options] == row["options"]
    assert matched == Counter(row["id"] for row in QUESTIONS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_reply_has_the_tools_own_verdict(folder: str) -> None:
    rules = Counter(answer.their_rule for answer in answers(GOLDEN / folder))
    assert all(rule.startswith(f"{FOLDERS[folder][0]}: ") for rule in rules)
    assert sum(rules.values()) == 200
    right = sum(answer.their_correct == 1.0 for answer in answers(GOLDEN / folder))
    assert abs(right - sum(row["right"] for row in QUESTIONS)) <= 3
    assert {answer.their_correct for answer in answers(GOLDEN / folder)} == {0.0, 1.0}


def test_verdicts_are_those_of_the_reports_and_of_both_forms_of_inspect() -> None:
    """Compare with the means that lm-eval and lmms-eval printed beside their samples."""
    for tool, name in (("lm-eval", "exact_match"), ("lmms-eval", "average")):
        file = next((GOLDEN / tool / "lab__planted").glob("*results*.json"))
        results = json.loads(file.read_text(encoding="utf-8"))["results"]["pictures_choice"]
        printed = next(value for key, value in results.items() if key.startswith(f"{name},"))
        verdicts = [answer.their_correct for answer in answers(golden(tool))]
        assert sum(filter(None, verdicts)) / len(verdicts) == pytest.approx(printed)
    whole, archive = answers(golden("inspect-json")), answers(GOLDEN / "inspect" / "eval" / "pictures-number.eval")
    fields = ("model", "output", "ids", "prompt", "target", "their_correct", "their_answer", "their_rule")
    assert [[getattr(answer, name) for name in fields] for answer in whole] == [
        [getattr(answer, name) for name in fields] for answer in archive
    ]


def test_predictions_are_read_where_there_is_no_review(tmp_path: Path) -> None:
    source = GOLDEN / "evalscope" / "predictions" / "planted" / "chartqa_human_test.jsonl"
    target = tmp_path / "predictions" / "planted" / source.name
    target.parent.mkdir(parents=True)
    target.write_bytes(source.read_bytes())
    assert [answer.their_correct for answer in answers(tmp_path)] == [None] * 40
    review = tmp_path / "reviews" / "planted" / source.name
    review.parent.mkdir(parents=True)
    review.write_bytes((GOLDEN / "evalscope" / "reviews" / "planted" / source.name).read_bytes())
    assert len(answers(tmp_path)) == 40
    assert {answer.their_correct for answer in answers(tmp_path)} == {0.0, 1.0}


def test_result_without_verdicts_gives_way_to_the_one_with_them(tmp_path: Path) -> None:
    folder = next((GOLDEN / "vlmevalkit").glob("*/*"))
    plain = folder / "planted_Pictures_MCQ.xlsx"
    assert [answer.their_rule for answer in answers(plain)] == [""] * 80
    assert plain not in [file for _, file in tool_files(folder, None)]


def test_other_tables_in_a_folder_are_no_results(tmp_path: Path) -> None:
    """The tool leaves tables of scores beside its results."""
    result = next((GOLDEN / "vlmevalkit").glob("*/*/*_Pictures_VQA_results.tsv"))
    (tmp_path / result.name).write_bytes(result.read_bytes())
    (tmp_path / "planted_Pictures_VQA_acc.csv").write_text("split,Overall\nnone,57.5\n")
    (tmp_path / "planted_Pictures_VQA_score.tsv").write_text("split\tOverall\nnone\t57.5\n")
    assert [file.name for _, file in tool_files(tmp_path, None)] == [result.name]
    spec = RunSpec(data=str(tmp_path / "data"), out="", models={}, benchmarks=("vflute",))
    with AnswerSpool.temporary() as answers:
        read_answers(spec, tmp_path, answers)
        assert (len(answers.rejections), answers.groups()) == (40, [])
        (tmp_path / "broken_x.xlsx").write_bytes(b"PK")
        with pytest.raises(UsageError, match="cannot be read as an archive"):
            read_answers(spec, tmp_path, answers)


def test_results_as_csv_in_a_folder_are_read(tmp_path: Path) -> None:
    result = tmp_path / "planted" / "planted_Pictures.csv"
    result.parent.mkdir()
    result.write_text("index,question,prediction\n1,Which?,A\n")
    for name in (None, "vlmevalkit"):
        ((tool, file),) = tool_files(tmp_path, name)
        assert (tool.name, file, [answer.model for answer in answers(file)]) == ("vlmevalkit", result, ["planted"])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"resps": [[[-2.0, False]], [[-0.5, True]], [[-3.0, False]]], "acc": 1.0, "metrics": ["acc"]}, ("B", 1.0)),
        ({"resps": [["-2.0", "False"], ["-0.5", "True"]], "acc": 0.0}, ("B", 0.0)),
        ({"resps": [["first", "second"]], "filtered_resps": ["f"], "exact_match": 0.25}, ("first", 0.25)),
        ({"resps": [], "filtered_resps": ["f"], "ter": 31.5}, (None, None)),
        ({"filtered_resps": "same", "bypass": "0.5"}, ("same", None)),
    ],
)
def test_samples_of_other_kinds(row: dict, expected: tuple, tmp_path: Path) -> None:
    file = tmp_path / "lab" / "samples_x_1.jsonl"
    file.parent.mkdir()
    file.write_text(json.dumps({"doc_id": 0, "doc": {}, "arguments": {}, **row}))
    (answer,) = answers(file)
    assert (answer.output, answer.their_correct) == expected
    assert answer.model == "lab"


def test_second_filter_of_a_sample_is_left_out(tmp_path: Path) -> None:
    rows = [
        {"doc_id": 0, "doc": {}, "arguments": {}, "resps": [["r"]], "filtered_resps": [text], "filter": text,
         "acc": value}
        for text, value in (("strict", 0.0), ("flexible", 1.0))
    ]  # fmt: skip
    file = tmp_path / "samples_x_1.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert [(answer.their_rule, answer.their_correct) for answer in answers(file)] == [("lm-eval: strict, acc", 0.0)]


def test_repeats_shuffles_and_failures_of_inspect(tmp_path: Path) -> None:
    raw = json.loads(golden("inspect-json").read_text(encoding="utf-8"))
    first = raw["samples"][0]
    failed = {**first, "error": {"message": "no"}, "scores": {}}
    shuffled = {**first, "scores": {"choice": {"value": "C", "explanation": "Choices were shuffled before ..."}}}
    attached = {**first, "attachments": {"1": "long"}, "input": "attachment://1", "scores": {"s": {"value": "N"}}}
    samples = [first, {**first, "epoch": 2}, failed, shuffled, attached, 7]
    file = tmp_path / "log.json"
    file.write_text(json.dumps({**raw, "samples": samples}))
    records = read(file)
    reasons = [record.reason for record in records if isinstance(record, Rejection)]
    accepted = [record for record in records if isinstance(record, LoggedAnswer)]
    assert [reason.split(" ")[0] for reason in reasons] == ["a", "its", "is"]
    assert [answer.output for answer in accepted] == ["40", None, "40"]
    assert [answer.their_correct for answer in accepted] == [1.0, None, 0.0]
    assert accepted[2].prompt == "long"


@pytest.mark.parametrize(
    ("value", "outputs"),
    [
        ([{"index": 1, "prediction": "A", "hit": 1}, {"index": 2, "prediction": None}], ["A", None]),
        ({"index": [1, 2], "prediction": ["A", "B"]}, ["A", "B"]),
        ({"index": {"0": 1, "1": 2}, "prediction": {"0": "A", "1": 7}}, ["A", "7"]),
        ([{"index": 3, "prediction": "Failed to obtain answer via API."}], [None]),
    ],
)
def test_forms_of_json_of_results(value: object, outputs: list[str | None], tmp_path: Path) -> None:
    file = tmp_path / "mymodel" / "mymodel_Set.json"
    file.parent.mkdir()
    file.write_text(json.dumps(value))
    results = [record for record in read(file, "vlmevalkit") if isinstance(record, LoggedAnswer)]
    assert [answer.output for answer in results] == outputs
    assert {answer.model for answer in results} == {"mymodel"}


def test_files_that_are_no_logs_are_not_recognised(tmp_path: Path) -> None:
    ours = tmp_path / "answers.jsonl"
    ours.write_text(json.dumps({"benchmark": "maia", "sample_id": "x", "output": "A"}))
    other = tmp_path / "x.json"
    other.write_text("{}")
    assert recognised(ours) is None
    assert recognised(other) is None
    assert tool_files(tmp_path, None) == []


def test_logs_of_two_tools_need_a_name(tmp_path: Path) -> None:
    for name in ("inspect", "lmms-eval"):
        (tmp_path / golden(name).name).write_bytes(golden(name).read_bytes())
    with pytest.raises(UsageError, match="inspect and lmms-eval; --from"):
        tool_files(tmp_path, None)
    assert [file.suffix for _, file in tool_files(tmp_path, "inspect")] == [".eval"]


@pytest.mark.parametrize(
    ("tool", "content", "sentence"),
    [
        ("inspct", b"", "did you mean 'inspect'"),
        ("inspect", b"{}", "no log of Inspect"),
        ("inspect", b"[", "not readable as JSON"),
        ("vlmevalkit", b"{}", "neither a list of records"),
    ],
)
def test_wrong_name_or_file_ends_with_a_sentence(tool: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        read(file, tool)


def test_folder_with_too_many_files_is_refused_whole(tmp_path: Path) -> None:
    for number in range(10_001):
        (tmp_path / f"samples_{number}.jsonl").touch()
    with pytest.raises(UsageError, match=r"over 10,000 files may be of lm-eval; give one run's folder"):
        tool_files(tmp_path, None)


SHEET = "xl/worksheets/sheet1.xml"


def zipped(members: dict[str, bytes], path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def sheet(rows: str) -> bytes:
    return f'<x:worksheet xmlns:x="m"><x:sheetData>{rows}</x:sheetData></x:worksheet>'.encode()


def test_member_by_zstd_is_that_of_another_reader() -> None:
    """`zipfile` of this Python refuses the method; the sizes and checksums in the archive prove the content."""
    with open_archive(golden("inspect")) as archive:
        infos = zipfile.ZipFile(golden("inspect")).infolist()
        assert {info.compress_type for info in infos} == {93}
        for info in infos:
            assert len(archive.read(info.filename)) == info.file_size
            assert zipfile.crc32(archive.read(info.filename)) == info.CRC  # type: ignore[attr-defined]


def test_damaged_member_costs_itself_alone(tmp_path: Path) -> None:
    content = bytearray(golden("inspect").read_bytes())
    info = zipfile.ZipFile(golden("inspect")).infolist()[3]
    content[info.header_offset + 30 + len(info.filename) + 40] ^= 0xFF
    path = tmp_path / "x.eval"
    path.write_bytes(content)
    with open_archive(path) as archive:
        with pytest.raises(UnreadableError, match="damaged"):
            archive.read(info.filename)
        assert json.loads(archive.read("header.json"))["eval"]["model"] == "mockllm/planted"
        with pytest.raises(UnreadableError, match="missing"):
            archive.read("none")


def test_member_that_grows_too_large_is_refused(tmp_path: Path) -> None:
    path = zipped({"a": b"0" * (archives.MAX_MEMBER + 1), "b": b"{}"}, tmp_path / "x.eval")
    with open_archive(path) as archive:
        with pytest.raises(UnreadableError, match="larger than 32 MiB"):
            archive.read("a")
        assert archive.read("b") == b"{}"


def test_archive_that_holds_many_times_its_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_FREE_BYTES", 1 << 20)
    path = zipped({str(n): b"0" * (2 << 20) for n in range(3)}, tmp_path / "x.eval")
    with pytest.raises(UsageError, match="200 times"), open_archive(path) as archive:
        [*map(archive.read, ("0", "1"))]


def test_cells_of_all_kinds(tmp_path: Path) -> None:
    strings = "<sst><si><t>index</t></si><si><r><t>pre</t></r><r><t>diction</t></r><rPh><t>no</t></rPh></si></sst>"
    rows = (
        '<x:row r="1"><x:c r="A1" t="s"><x:v>0</x:v></x:c><x:c r="C1" t="s"><x:v>1</x:v></x:c>'
        '<x:c r="D1" t="inlineStr"><x:is><x:t>hit</x:t></x:is></x:c></x:row>'
        '<x:row r="3"><x:c r="A3"><x:v>7</x:v></x:c><x:c r="C3" t="str"><x:f>A1+1</x:f><x:v>B &amp; C</x:v></x:c>'
        '<x:c r="D3" t="b"><x:v>1</x:v></x:c><x:c r="E3"><x:v>9</x:v></x:c></x:row>'
        '<x:row><x:c><x:v>8</x:v></x:c><x:c/><x:c t="s"><x:v>99</x:v></x:c></x:row>'
    )
    path = zipped({"xl/sharedStrings.xml": strings.encode(), SHEET: sheet(rows)}, tmp_path / "x.xlsx")
    assert [*workbook(path)] == [
        (3, {"index": "7", "prediction": "B & C", "hit": "True"}),
        (4, {"index": "8", "prediction": "", "hit": ""}),
    ]


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"a": b""}, "no sheet"),
        ({SHEET: b"<x"}, "sheet1.xml"),
        ({SHEET: b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}, "document type"),
        ({SHEET: sheet('<x:row><x:c t="s"><x:v>x</x:v></x:c></x:row>')}, "sheet1.xml"),
    ],
)
def test_workbook_that_is_none_ends_with_a_sentence(members: dict[str, bytes], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        [*workbook(zipped(members, tmp_path / "x.xlsx"))]


def test_table_with_a_huge_cell_loses_that_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("index\tprediction\n1\t" + "x" * 200_000 + "\n2\tB\n", encoding="utf-8-sig")
    rows = dict(text_table(path, "\t"))
    assert "200,000 characters" in str(rows[2])
    assert rows[3] == {"index": "2", "prediction": "B"}


def test_file_that_is_no_archive_ends_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    path.write_bytes(io.BytesIO(b"PK\x05\x06").getvalue())
    with pytest.raises(UsageError, match="cannot be read as an archive"), open_archive(path):
        pass
