"""The hub's files of MAIA: joined questions and pairs, ids of the repository, the fixed place of true statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import Folder
from pipelines.benchmarks.maia.prompts import true_letter
from pipelines.benchmarks.maia.source import read_maia
from pipelines.benchmarks.records import RawSample, Rejection, Sample, SourceWarning
from pipelines.errors import SourceError

QUESTIONS = [(5, "Sentiment", "Come sta?"), (5, "Sentiment", "Chi ride?"), (8, "OutofScope", "Dov'è il cane?")]
TARGETS = [0, 1, 1, 0, 1, 0, 0, 1]


def gen_rows() -> list[dict[str, Any]]:
    return [
        {"id": index, "video_id": video, "question_category": category, "question": question}
        | {f"answer{n}": f"risposta {n} a {question}" for n in range(1, 9)}
        for index, (video, category, question) in enumerate(QUESTIONS)
    ]


def mc_rows(*, with_question: bool) -> list[dict[str, Any]]:
    rows = []
    for video, category, question in QUESTIONS:
        for index, target in enumerate(TARGETS):
            texts = [f"vera {index}: {question}", f"falsa {index}: {question}"]
            row = {"video_id": video, "question_category": category, "target": target}
            row |= {"answer1": texts[target], "answer2": texts[1 - target]}
            rows.append({**row, "question": question} if with_question else row)
    return rows


def write(folder: Path, form: str, *, with_question: bool = True) -> Path:
    tables = {"gen": gen_rows(), "mc": mc_rows(with_question=with_question)}
    for name, rows in tables.items():
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}-00000-of-00001.parquet")
        else:
            (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


def samples(folder: Path) -> list[RawSample]:
    return [item for item in read_maia(Folder(str(folder))) if isinstance(item, RawSample)]


@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize("with_question", [True, False])
def test_questions_and_pairs_are_joined(tmp_path: Path, form: str, *, with_question: bool) -> None:
    read = samples(write(tmp_path, form, with_question=with_question))
    assert [sample.sample_id for sample in read] == ["video5/Sentiment_A", "video5/Sentiment_B", "video8/OutofScope_A"]
    for sample, (_, _, question) in zip(read, QUESTIONS, strict=True):
        assert sample.data["question"] == question
        assert sample.data["true"] == [f"vera {index}: {question}" for index in range(8)]
        assert sample.data["answers"][7] == f"risposta 8 a {question}"
        assert sample.media[0].path == f"videos/{sample.data['video'][5:]}.mp4"


def test_the_place_of_true_statements_is_that_of_the_data(tmp_path: Path) -> None:
    (first, *_) = samples(write(tmp_path, "json"))
    sample = Sample(sample_id=first.sample_id, data=first.data)
    assert [true_letter(sample, index, 42) for index in range(8)] == ["AB"[target] for target in TARGETS]
    notices = [item for item in read_maia(Folder(str(tmp_path))) if isinstance(item, SourceWarning)]
    assert [notice.message for notice in notices] == ["the hub's order of statements A and B is used, not a drawn one"]


def test_ids_are_the_repositorys_where_texts_are_equal(tmp_path: Path) -> None:
    write(tmp_path, "json")
    pools = {
        "answer": ["r"] * 8,
        "true_statement": [f"v{i}" for i in range(8)],
        "false_statement": [f"f{i}" for i in range(8)],
    }
    entries = {
        "question_categories_A": [{"category": "Sentiment_A", "question": "Chi ride?", **pools}],
        "question_categories_B": [{"category": "Sentiment_B", "question": "Come sta?", **pools}],
    }
    (tmp_path / "data_20%.json").write_text(json.dumps([{"video": "video5", **entries}]), encoding="utf-8")
    ids = {sample.data["question"]: sample.sample_id for sample in samples(tmp_path)}
    assert (ids["Chi ride?"], ids["Come sta?"]) == ("video5/Sentiment_A", "video5/Sentiment_B")


def test_pairs_that_name_no_question_are_joined_by_the_repositorys_texts(tmp_path: Path) -> None:
    write(tmp_path, "json")
    columns = ("answer1", "answer2", "target")
    rows = [{name: row[name] for name in columns} for row in reversed(mc_rows(with_question=True))]
    (tmp_path / "mc.json").write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(SourceError, match=r"lay the repository's data_20%.json beside them"):
        samples(tmp_path)
    halves = {
        f"question_categories_{half}": [
            {
                "category": f"{category}_{half}",
                "question": question,
                "answer": ["r"] * 8,
                "true_statement": [f"vera {index}: {question}" for index in range(8)],
                "false_statement": [f" falsa {index}: {question}" for index in range(8)],
            }
        ]
        for half, (_, category, question) in zip("AB", QUESTIONS, strict=False)
    }
    (tmp_path / "data_20%.json").write_text(json.dumps([{"video": "video5", **halves}]), encoding="utf-8")
    read = samples(tmp_path)
    assert [sample.sample_id for sample in read] == ["video5/Sentiment_A", "video5/Sentiment_B"]
    for sample, (_, _, question) in zip(read, QUESTIONS, strict=False):
        assert sample.data["true"] == [f"vera {index}: {question}" for index in range(8)]
        assert sample.data["letters"] == "".join("AB"[target] for target in TARGETS)


def test_a_question_without_its_eight_pairs_is_rejected_alone(tmp_path: Path) -> None:
    write(tmp_path, "json")
    rows = mc_rows(with_question=True)
    (tmp_path / "mc.json").write_text(json.dumps(rows[1:]), encoding="utf-8")
    items = list(read_maia(Folder(str(tmp_path))))
    assert [item.item for item in items if isinstance(item, Rejection)] == ["row 1, video5/Sentiment_A"]
    assert len([item for item in items if isinstance(item, RawSample)]) == 2
