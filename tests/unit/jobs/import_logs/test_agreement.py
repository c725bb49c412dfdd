"""Verdicts of the harnesses' own packages beside ours, on table benchmarks of the common set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Row
from pipelines.ingest.dataset import Dataset, load_tables
from pipelines.ingest.table import ingest_table
from pipelines.logged_answers.matching import Groups, ReadVerdict, difference, match_logs, reader
from pipelines.logged_answers.readers import tool_files
from pipelines.plan.run_spec import RunSpec
from pipelines.storage.store import Store
from tests.support.log_fuzzing import GOLDEN
from tests.unit.jobs.import_logs.test_readers import FOLDERS, QUESTIONS

KINDS = ("choice", "yes-no", "text", "number")
NAMES = tuple(f"pictures-{kind}" for kind in KINDS)
DIFFERENCES = {  # folder of logs -> what differs, by question
    "lm-eval": dict.fromkeys(("number-019", "number-039"), "it reads another answer"),
    "vlmevalkit": dict.fromkeys(("text-019", "text-039"), "it reads another answer"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The common set as four table benchmarks, without pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    for kind in KINDS:
        names = ("id", "question", "options", "answer")
        rows = [{name: row[name] for name in names if row[name]} for row in QUESTIONS if row["kind"] == kind]
        source = folder / f"{kind}.jsonl"
        source.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        result = ingest_table(str(source), Store(str(folder / "data")), name=f"pictures-{kind}", kind=kind)
        assert result.manifest.samples == len(rows)
    return str(folder / "data")


def matched(data: str, path: Path, **selection: Any) -> tuple[list[str], Groups]:
    load_tables(data)
    spec = RunSpec(data=data, out="", models={}, benchmarks=NAMES, **selection)
    rejections, groups = match_logs(
        spec, [record for tool, file in tool_files(path, None) for record in tool.read(file)]
    )
    return [rejection.reason for rejection in rejections], groups


def our_verdict(data: str, name: str, row: dict[str, Any]) -> ReadVerdict:
    dataset = Dataset.open(Store(data), name)
    sample = next(sample for sample in dataset.samples() if sample.sample_id == row["sample_id"])
    identity = {key: row[key] for key in ("model", "task", "setting", "variant", "output")}
    reading = benchmark(name).reading(Row(request_id="", sample=sample, status="ok", **identity))
    return ReadVerdict(correct=reading.values["correct"], answer=reading.answer, rule=reading.rule)


@pytest.mark.parametrize("folder", FOLDERS)
def test_verdicts_agree_but_for_rows_that_name_their_rule(folder: str, data: str) -> None:
    rejections, groups = matched(data, GOLDEN / folder)
    assert rejections == []
    assert {name for name, _ in groups} == {*NAMES}
    rows = [(name, row) for (name, _), numbered in groups.items() for _, row in numbered]
    assert sorted(row["sample_id"] for _, row in rows) == sorted(row["id"] for row in QUESTIONS)
    differences = {}
    for name, row in rows:
        logged = ReadVerdict(correct=row["their_correct"], answer=row["their_answer"], rule=row["their_rule"])
        kind = difference(our_verdict(data, name, row), logged)
        if kind:
            differences[row["sample_id"]] = kind
            assert reader(logged.rule) != "the task's own reader"
    assert differences == DIFFERENCES.get(folder, {})
    assert len(differences) <= 0.01 * len(rows)


def test_our_verdict_is_the_planted_one(data: str) -> None:
    """Of each reply whether it is right was decided before anything read it."""
    _, groups = matched(data, GOLDEN / "inspect" / "eval")
    planted = {row["id"]: float(row["right"]) for row in QUESTIONS}
    verdicts = {
        row["sample_id"]: our_verdict(data, name, row).correct for (name, _), rows in groups.items() for _, row in rows
    }
    assert verdicts == planted


def result(tmp_path: Path, **row: Any) -> Path:
    """Write a result of VLMEvalKit with one row."""
    question = next(each for each in QUESTIONS if each["id"] == "choice-000")
    options = dict(zip("ABCD", question["options"], strict=True))
    path = tmp_path / "m" / "m_Set.json"
    path.parent.mkdir()
    path.write_text(json.dumps([{"index": 7, "question": question["question"], **options, "prediction": "A", **row}]))
    return path


@pytest.mark.parametrize(
    ("row", "settings", "expected"),
    [
        ({}, (), ("default", "")),
        ({"index": "choice-000"}, (), ("default", "")),
        (dict(zip("ABCD", ("blue", "yellow", "pink", "red"), strict=True)), ("circular",), ("circular", "1")),
        (dict(zip("ABCD", ("blue", "yellow", "pink", "red"), strict=True)), (), "stand in another order"),
        (dict(zip("ABCD", ("yellow", "blue", "pink", "red"), strict=True)), ("circular",), "stand in another order"),
        ({"D": "orange"}, (), "are others than ours"),
        ({"A": None}, (), ("default", "")),
        ({"question": "What colour is the cube in picture 2?"}, (), "matches no question"),
        ({"index": "choice-000", "question": "What is this?"}, (), "has the id of a question with other words"),
    ],
)
def test_options_and_question_decide(
    row: dict[str, Any], settings: tuple[str, ...], expected: object, data: str, tmp_path: Path
) -> None:
    rejections, groups = matched(data, result(tmp_path, **row), settings=settings)
    if isinstance(expected, str):
        assert expected in rejections[0]
    else:
        (((_, found_row),),) = groups.values()
        assert (found_row["setting"], found_row["variant"]) == expected
        assert found_row["sample_id"] == "choice-000"


def test_question_in_two_benchmarks_is_listed(data: str, tmp_path: Path) -> None:
    source = tmp_path / "again.jsonl"
    names = ("id", "question", "options", "answer")
    source.write_text("\n".join(json.dumps({name: row[name] for name in names}) for row in QUESTIONS[:3]))
    ingest_table(str(source), Store(data), name="pictures-again", kind="choice")
    load_tables(data)
    path = result(tmp_path)
    tools = tool_files(path, None)
    spec = RunSpec(data=data, out="", models={}, benchmarks=(*NAMES, "pictures-again"))
    rejections, groups = match_logs(spec, [record for tool, file in tools for record in tool.read(file)])
    assert groups == {}
    assert rejections[0].reason == "fits questions of pictures-again and pictures-choice; --benchmarks decides"
