"""Human files: recognised by their columns, checked row by row, stored with the output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.records import is_person
from pipelines.errors import UsageError
from pipelines.ingest import human_files
from pipelines.ingest.human_files import check_human, human_rows, load_human_files, read_human, store_human
from pipelines.storage.store import Store
from tests.support.vflute_rows import Scored, samples

LABELS = "id,annotator,label\nrow 0,ann,entailment\nrow 1,bob,contradiction\n"
JUDGEMENTS = "id,system,annotator,adequate,error_type,preferred\nrow 0,m,ann,1,,1\nrow 0,m,bob,0,unsound,0\n"


class FourRowDataset:
    """A data set of rows 0 to 3."""

    @staticmethod
    def samples() -> list[object]:
        return list(samples([Scored()] * 4).values())


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    monkeypatch.setattr(human_files.Dataset, "open", lambda *_: FourRowDataset())
    return Store(str(tmp_path / "data"))


def test_columns_determine_the_kind_of_a_human_file(tmp_path: Path) -> None:
    (tmp_path / "any name.csv").write_text(LABELS)
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbf" + JUDGEMENTS.encode())
    (tmp_path / "notes.txt").write_text("not read")
    (tmp_path / "lock.json").write_text("of an `annotate`, not read either")
    files = read_human([f"vflute={tmp_path}"])
    assert {(file.kind, file.uri) for file in files} == {
        ("labels", f"{tmp_path}/any name.csv"),
        ("judgements", f"{tmp_path}/b.csv"),
    }
    (single,) = read_human([f"vflute={tmp_path}/b.csv"])
    assert single.text == JUDGEMENTS


@pytest.mark.parametrize(
    ("spec", "content", "message"),
    [
        ("vflute", LABELS, "give BENCHMARK=FILE.csv"),
        ("vflut={0}", LABELS, "did you mean 'vflute'"),
        ("vflute={0}/missing.csv", LABELS, "no such file, and no folder"),
        ("vflute=gs://bucket/x.csv", LABELS, "only local paths and s3://"),
        ("vflute={0}", "id,who\n1,2\n", r"f\.csv, line 1: the columns match no file of vflute"),
        ("vflute={0}", b"id,annotator,label\n\xff,a,b\n", r"f\.csv: not UTF-8"),
        ("vflute={0}", "id,annotator,label\r\n\n", r"f\.csv \(vflute labels\): contains no rows"),
    ],
)
def test_unreadable_human_file_is_refused(tmp_path: Path, spec: str, content: str | bytes, message: str) -> None:
    (tmp_path / "f.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message):
        read_human([spec.format(tmp_path)])


def test_field_that_is_too_long_costs_its_row(tmp_path: Path, data: Store, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["row 0,ann,entailment", f"row 1,{'x' * 140_000},entailment", "row 2,ann,contradiction"]
    (tmp_path / "f.csv").write_text("\n".join(["id,annotator,label", *rows, ""]))
    (file,) = read_human([f"vflute={tmp_path}"])
    assert f"{tmp_path}/f.csv, line 3: annotator has 140,000 characters" in caplog.text
    check_human([file], data)
    people = human_rows("vflute", {file.kind: file.text})
    assert {name: [row["sample_id"] for row in rows] for name, rows in people.items()} == {
        "human:ann": ["row 0", "row 2"]
    }


def test_benchmark_without_human_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(human_files, "benchmark", lambda name: replace(benchmark(name), people=HumanBaseline))
    with pytest.raises(UsageError, match="vague accepts no human files"):
        read_human(["vague=people/"])


def form(annotator: str, label: str, **fields: object) -> str:
    row = {"id": "row 0", "annotator": annotator, "label": label}
    return json.dumps({"benchmark": "vflute", "kind": "labels", "annotator": annotator, "rows": [row], **fields})


def test_saved_forms_of_one_kind_are_joined(tmp_path: Path, data: Store) -> None:
    (tmp_path / "a.json").write_text(form("ann", "entailment"))
    (tmp_path / "b.json").write_text(form("bob", 'contra,"diction'))
    (file,) = read_human([f"vflute={tmp_path}"])
    assert file.text == 'id,annotator,label\nrow 0,ann,entailment\nrow 0,bob,"contra,""diction"\n'
    assert file.uri == f"{tmp_path}/a.json, {tmp_path}/b.json"
    with pytest.raises(UsageError, match="line 3: label is"):
        check_human([file], data)


@pytest.mark.parametrize(
    ("benchmark", "name", "content", "message"),
    [
        ("vflute", "a.json", "{", r"a\.json: not a file that an annotation form saved"),
        ("vflute", "a.json", form("ann", "x", rows=[{"id": 3}]), r"form saved: rows\.0\.id: must be text, not 3"),
        ("vflute", "a.json", form("ann", "x", kind="choices"), "holds choices of vflute, and was given for vflute"),
        ("vflute", "a.json", form("ann", "x", benchmark="maia"), "holds labels of maia, and was given for vflute"),
        ("vflute", "a.jsonl", "{}",
         r"a\.jsonl: JSON Lines with people's answers are supported for MATE only; give a.jsonl as CSV"),
        *(("mate", name, content, f"{name} .mate predictions.: contains no rows; fill it in, or leave it out")
          for name, content in (
              ("people_2_shot_human.jsonl", ""),
              ("form.json", '{"benchmark": "mate", "kind": "predictions", "rows": []}'),
              ("answers.csv", "example_id,task,setting,evaluator,prediction\n"))),
    ],
)  # fmt: skip
def test_unusable_form_is_refused(tmp_path: Path, benchmark: str, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=message):
        read_human([f"{benchmark}={tmp_path}"])


def test_second_file_of_a_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(LABELS)
    (tmp_path / "b.csv").write_text(LABELS)
    with pytest.raises(UsageError, match=r"b\.csv: a second vflute labels file next to .*a\.csv"):
        read_human([f"vflute={tmp_path}"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LABELS + "row 2,ann,maybe\n",
         r"f\.csv \(vflute labels\): line 4: label is 'maybe', expected .*human-files\.md"),
        (LABELS + "row 9,ann,entailment\n", "line 4: the data has no row 'row 9'"),
        (LABELS + "row 0,ann,entailment\n",
         "line 4: a second row of 'ann' for 'row 0'; the first is on line 2, keep one"),
        (JUDGEMENTS + "row 1,m,ann,0,,0\n", "line 4: error_type is ''"),
        (LABELS + "row 2,all together,entailment\n", "line 4: 'all together' is reserved for all annotators"),
    ],
)  # fmt: skip
def test_invalid_row_is_refused_with_its_line(tmp_path: Path, data: Store, content: str, message: str) -> None:
    (tmp_path / "f.csv").write_text(content)
    with pytest.raises(UsageError, match=message):
        check_human(read_human([f"vflute={tmp_path}/f.csv"]), data)


def test_valid_files_are_stored_with_the_output_whatever_blanks_their_columns_have(tmp_path: Path, data: Store) -> None:
    (tmp_path / "f.csv").write_text(LABELS.replace(",", " , "))
    check_human(read_human([f"vflute={tmp_path}/f.csv"]), data)
    (tmp_path / "f.csv").write_text(LABELS)
    files = read_human([f"vflute={tmp_path}/f.csv"])
    check_human(files, data)
    out = Store(str(tmp_path / "out"))
    assert store_human(out, files) == {"vflute"}
    assert store_human(out, files) == set()
    stored = load_human_files(out, "vflute")
    assert stored == {"labels": LABELS}
    rows = human_rows("vflute", stored)
    assert {person: [row["sample_id"] for row in person_rows] for person, person_rows in rows.items()} == {
        "human:ann": ["row 0"],
        "human:bob": ["row 1"],
    }
    assert all(is_person(person) for person in rows)


def test_human_files_are_distinguishable_and_documented() -> None:
    page = Path("docs/human-files.md").read_text(encoding="utf-8")
    for name in benchmark_names():
        kinds = benchmark(name).human.kinds
        for kind in kinds:
            assert f"`{','.join(kind.columns)}`" in page, (name, kind.name)
        assert len({frozenset(kind.columns) for kind in kinds}) == len(kinds)
