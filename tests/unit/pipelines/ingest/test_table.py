"""A table becomes a benchmark: every form of file, kind, column and bad row."""

from __future__ import annotations

import base64
import csv
import io
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.table.columns_file import ColumnsFile, read_columns_file
from pipelines.errors import PipelineError, SourceError, StoreError, UsageError
from pipelines.ingest.dataset import Dataset, load_tables
from pipelines.ingest.ingest import IngestResult
from pipelines.ingest.table import ingest_table
from pipelines.storage.store import Store
from tests.support.maia_source import write_clip

QUESTION_COLUMN = ColumnsFile(columns={"question": ("Frage",)})
QUESTIONS = [
    {"id": f"q{number}", "question": f"Which of {number}?", "A": "one", "B": "two", "C": "three",
     "answer": "ABC"[number % 3]}
    for number in range(6)
]  # fmt: skip


def picture(size: int = 40) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (size, 32), "red").save(buffer, "PNG")
    return buffer.getvalue()


def delimited(rows: list[dict[str, Any]], delimiter: str) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def ingest(folder: Path, name: str, content: str | bytes, **options: Any) -> IngestResult:
    path = folder / "source" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return ingest_table(str(path), Store(str(folder / "data")), name="mine", **options)


def samples(folder: Path) -> list[Any]:
    return list(Dataset.open(Store(str(folder / "data")), "mine").samples())


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


FORMS = {
    "q.tsv": delimited(QUESTIONS, "\t"), "q.csv": delimited(QUESTIONS, ","), "semicolon.csv": delimited(QUESTIONS, ";"),
    "excel.csv": f"sep=;\n{delimited(QUESTIONS, ';')}", "tabs.csv": delimited(QUESTIONS, "\t"),
    "bom.csv": b"\xef\xbb\xbf" + delimited(QUESTIONS, ",").encode(),
    "utf16.csv": delimited(QUESTIONS, "\t").encode("utf-16"),
    "windows.csv": delimited(QUESTIONS, ",").replace("\n", "\r\n"),
    "mac.csv": delimited(QUESTIONS, ",").replace("\n", "\r"),
    "q.jsonl": "\n".join(json.dumps(row) for row in QUESTIONS),
    "commas.jsonl": "[\n" + ",\n".join(json.dumps(row) for row in QUESTIONS) + "\n]", "q.json": json.dumps(QUESTIONS),
    "nested.json": json.dumps({"info": {"version": 1}, "questions": QUESTIONS}), "q.parquet": parquet(QUESTIONS),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_samples(tmp_path: Path, name: str) -> None:
    result = ingest(tmp_path, name, FORMS[name])
    assert (result.manifest.samples, result.rejections) == (6, ())
    stored = samples(tmp_path)
    assert [sample.sample_id for sample in stored] == [f"q{number}" for number in range(6)]
    assert [sample.data["gold"] for sample in stored] == [0, 1, 2, 0, 1, 2]
    assert stored[4].data == {
        "question": "Which of 4?", "options": ["one", "two", "three"], "gold": 1, "answers": ["two"],
    }  # fmt: skip
    assert result.manifest.table.kind == "choice"


def test_windows_code_pages_are_read_and_damaged_utf8_is_one_row(tmp_path: Path) -> None:
    rows = [{"question": "Où est le café?", "answer": "là"}, {"question": "Was ist größer?", "answer": "ÄÖ"}]
    text = delimited(rows, ";")
    (notice,) = ingest(tmp_path, "ansi.csv", text.encode("cp1252")).manifest.notices
    assert notice == "ansi.csv: not UTF-8, read as Windows-1252; if letters are wrong, save it as UTF-8"
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [["là"], ["ÄÖ"]]
    damaged = text.encode().replace("größer".encode(), b"gr\xf6\xdfer")
    result = ingest(tmp_path, "damaged.csv", damaged)
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [["là"]]
    assert [(row.item, "no text" in row.reason) for row in result.rejections] == [("line 3", True)]


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        (["yes", "No", "YES"], "yes-no"),
        ([True, False, True], "yes-no"),
        (["4", "5.5", "1,000"], "number"),
        ([4, 5.5, 7], "number"),
        (["red", "a big dog", "7"], "text"),
        ([["red", "crimson"], ["blue"], ["x"]], "text"),
    ],
)
def test_a_plain_kind_is_recognised(tmp_path: Path, answers: list[Any], kind: str) -> None:
    rows = [{"question": f"q{number}", "answer": answer} for number, answer in enumerate(answers)]
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert (result.manifest.table.kind, result.manifest.samples) == (kind, 3)


@pytest.mark.parametrize(
    ("answers", "kind", "texts"),
    [
        ([Decimal("1.50"), Decimal("2.00")], "number", ["1.50", "2"]),
        ([Decimal("9" * 35), Decimal(1)], "number", ["9" * 35, "1"]),
        ([date(2020, 1, 31), date(1999, 12, 1)], "text", ["2020-01-31", "1999-12-01"]),
    ],
)
def test_decimals_and_dates_are_answers(tmp_path: Path, answers: list[Any], kind: str, texts: list[str]) -> None:
    result = ingest(tmp_path, "q.parquet", parquet([{"question": "q", "answer": answer} for answer in answers]))
    assert result.manifest.table.kind == kind
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [[text] for text in texts]


def test_a_column_of_labels_is_a_closed_set_of_what_differs_by_more_than_case(tmp_path: Path) -> None:
    result = ingest(tmp_path, "q.csv", "question,label\na,cat\nb,Dog\nc,dog\n")
    assert (result.manifest.table.kind, result.manifest.table.labels) == ("label", ("Dog", "cat"))
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [["cat"], ["Dog"], ["Dog"]]
    result = ingest(tmp_path, "q.csv", "question,label\na,C\nb,C++\nc,C#\nd,c++.\n")
    assert result.manifest.table.labels == ("C", "C#", "C++")
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [["C"], ["C++"], ["C#"], ["C++"]]
    text = "question,label\n" + "".join(f"q,{label}\n" for label in ("veg", "non-veg", "non veg", "Veg", "vegan"))
    manifest = ingest(tmp_path, "q.csv", text).manifest
    assert manifest.table.labels == ("non-veg", "veg", "vegan")
    (notice,) = manifest.notices
    assert notice.startswith("labels that differ by case, hyphens, quotes or stops alone count as one: ")
    assert notice.endswith("'non-veg' and 'non veg', 'veg' and 'Veg'")


def test_a_table_without_a_usable_row_says_its_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no row below the header; it has the columns id, question, answer"):
        ingest(tmp_path, "q.csv", "id,question,answer\n")
    with pytest.raises(SourceError, match=r"no usable row, 1 rejected; .*; columns: question from Frage, id from id"):
        ingest(tmp_path, "q.csv", "id,Frage,answer\n1,x,red\n", kind="number", columns=QUESTION_COLUMN)


def test_a_kind_that_cannot_be_detected_names_the_columns(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"kind cannot be detected: answers have up to 30 words.*question, answer; give --kind"
    ):
        ingest(tmp_path, "q.csv", f"question,answer\nwhy,{'word ' * 30}\n")
    with pytest.raises(SourceError, match=r"no column of answers.*question, reply"):
        ingest(tmp_path, "q.csv", "question,reply\nwhy,so\n")
    with pytest.raises(SourceError, match="kind choice needs options"):
        ingest(tmp_path, "q.csv", "question,answer\nwhy,A\n", kind="choice")
    with pytest.raises(SourceError, match=r"2 columns may be the question: question, prompt"):
        ingest(tmp_path, "q.csv", "question,prompt,answer\nwhy,so,yes\n")
    with pytest.raises(SourceError, match="no usable row, 2 rejected; first: line 2"):
        ingest(tmp_path, "q.csv", "question,answer\nwhy,maybe\nhow,so\n", kind="yes-no")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"answer": "D"}, "answer 'D' is none of the options: no letter A to C"),
        ({"answer": "four"}, "is none of the options"),
        ({"answer": ""}, "no answer"),
        ({"answer": float("nan")}, "no answer"),
        ({"answer": float("inf")}, "no answer"),
        ({"question": " "}, "no question"),
        ({"B": "", "answer": "B"}, "option B is empty"),
        ({"id": "q0"}, "duplicate id"),
        ({"answer": 9}, "is none of the options"),
    ],
)
def test_a_bad_row_is_one_rejection_and_the_rest_stays(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    bad = {**QUESTIONS[3], "id": "bad", **row}
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, [*QUESTIONS[:3], bad, *QUESTIONS[3:]])))
    assert result.manifest.samples == 6
    (rejection,) = result.rejections
    assert reason in rejection.reason
    assert rejection.file == "q.jsonl"
    assert rejection.item == f"line 4, {row.get('id', 'bad')}"


@pytest.mark.parametrize(
    ("damage", "lines"),
    [
        ('3,"Which,A,b,c,A', [4]),
        ("3,too,few", [4]),
        ('3,"two\nlines",x,y,z,B', []),
        ("3,a,b,c,d,e,f,g", [4]),
        ('3,"two\nlines" more,x,y,z,B', []),
    ],
)
def test_a_damaged_line_of_csv_takes_no_other_with_it(tmp_path: Path, damage: str, lines: list[int]) -> None:
    text = delimited(QUESTIONS, ",").splitlines()
    result = ingest(tmp_path, "q.csv", "\n".join([*text[:3], damage, *text[3:]]) + "\n")
    assert [row.item for row in result.rejections] == [f"line {line}" for line in lines]
    assert result.manifest.samples == 7 - len(lines)


def test_thirty_options_and_damaged_json_lines_are_rejected(tmp_path: Path) -> None:
    many = {"question": "x", "options": [str(number) for number in range(30)], "answer": "3"}
    good = {"question": "x", "options": ["yes", "no"], "answer": 1}
    result = ingest(tmp_path, "q.jsonl", "\n".join([json.dumps(many), '{"question": ', json.dumps(good), "7"]))
    assert [row.item for row in result.rejections] == ["line 1", "line 2", "line 4"]
    assert "30 options" in result.rejections[0].reason
    assert samples(tmp_path)[0].data["gold"] == 1


def test_notices_name_the_kind_that_most_answers_fit_and_are_no_rows_of_the_progress(tmp_path: Path) -> None:
    rows, counts = [{"question": "x", "options": ["a", "b"], "answer": 1}] * 3, list[int]()
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)), progress=counts.append)
    assert len(result.manifest.notices) == 1
    assert counts == [1, 2, 3]
    text = "question,answer\nq,3\nq,4\nq,n/a\n"
    assert ingest(tmp_path, "q.csv", text).manifest.notices == (
        "the kind is text, though 2 of 3 fit number; --kind number rejects the rest",
    )
    assert ingest(tmp_path, "q.csv", text, kind="text").manifest.notices == ()


def test_media_of_every_form_are_stored_once(tmp_path: Path) -> None:
    content = picture()
    (tmp_path / "source" / "a").mkdir(parents=True)
    (tmp_path / "source" / "a" / "x.png").write_bytes(content)
    text = base64.b64encode(content).decode()
    cells = ["a/x.png", f"data:image/png;base64,{text}", text, {"bytes": text, "path": "x.png"}, ["a/x.png", "a/x.png"]]
    bad = ["a/absent.png", "data:image/png;base64,AAAA", text[:100], "https://example.org/x.png", ""]
    rows = [{"question": "q", "image": cell, "answer": "yes"} for cell in [*cells, *bad]]
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert (result.manifest.samples, result.manifest.media, len(result.rejections)) == (5, 1, 5)
    assert [len(sample.media) for sample in samples(tmp_path)] == [1, 1, 1, 1, 2]
    assert len({sample.cluster for sample in samples(tmp_path)}) == 1
    reasons = " | ".join(row.reason for row in result.rejections)
    for part in ("no such file", "cannot be decoded", "not fetched", "no picture"):
        assert part in reasons
    assert sorted(row.item for row in result.rejections) == ["line 10", "line 6", "line 7", "line 8", "line 9"]


@pytest.mark.parametrize(
    "row", [{"question": "<image 1> or <image 2>?"}, {"question": "q", "choices": ["x", "<image 2>"]}]
)
def test_marks_of_more_pictures_than_a_row_has_reject_it(tmp_path: Path, row: dict[str, Any]) -> None:
    image = base64.b64encode(picture()).decode()
    good = {"question": "<image 1>?", "choices": ["x", "y"], "image": image, "answer": "x"}
    text = "\n".join(map(json.dumps, [good, {**good, **row}]))
    result = ingest(tmp_path, "q.jsonl", text)
    (rejection,) = result.rejections
    assert rejection.reason.startswith("<image 2> stands in a row with 1 picture (`media_optional: true`")
    assert ingest(tmp_path, "q.jsonl", text, columns=ColumnsFile(media_optional=True)).manifest.samples == 2


def test_clips_are_known_by_their_bytes_or_by_any_ending_that_is_read(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip.mp4", frames=3)
    content = (tmp_path / "clip.mp4").read_bytes()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "clip.3GP").write_bytes(content)
    still = {"bytes": picture(), "path": "named.mp4"}
    cells = [{"bytes": content, "path": None}, {"bytes": content, "path": "x.png"}, still]
    rows = [{"question": "q", "video": cell, "answer": "yes"} for cell in cells]
    for name, table in (
        ("q.parquet", parquet(rows)),
        ("bytes.parquet", parquet([{**rows[0], "video": content}])),
        ("q.jsonl", json.dumps({**rows[0], "video": base64.b64encode(content).decode()})),
        ("path.jsonl", json.dumps({**rows[0], "video": "clip.3GP"})),
    ):
        assert not ingest(tmp_path, name, table).rejections
        assert [sample.media[0].kind for sample in samples(tmp_path)] == ["video", "video", "image"][
            : len(samples(tmp_path))
        ]


def test_a_column_of_splits_chooses_rows(tmp_path: Path) -> None:
    text = "id,question,answer,split\na,q,yes,test\nb,q,no,train\nc,q,yes,\nd,q,no,test\n"
    ingest(tmp_path, "q.csv", text, split="test")
    assert [sample.sample_id for sample in samples(tmp_path)] == ["a", "d"]
    ingest(tmp_path, "q.csv", text)
    assert [sample.sample_id for sample in samples(tmp_path)] == ["a", "b", "c", "d"]
    with pytest.raises(SourceError, match=r"--split tset: .*q\.csv has the splits test, train"):
        ingest(tmp_path, "q.csv", text, split="tset")
    with pytest.raises(SourceError, match="has no column split; it has the columns question, answer"):
        ingest(tmp_path, "q.csv", "question,answer\nq,yes\n", split="test")


def test_parquet_structs_of_the_hub_and_splits(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    rows = [{"image": {"bytes": picture(40 + n), "path": None}, "question": f"q{n}", "answer": "yes"} for n in range(3)]
    (folder / "train-00000-of-00001.parquet").write_bytes(parquet(rows[:1]))
    (folder / "test-00000-of-00002.parquet").write_bytes(parquet(rows[:2]))
    (folder / "test-00001-of-00002.parquet").write_bytes(parquet(rows[2:]))
    data = Store(str(tmp_path / "data"))
    assert ingest_table(str(tmp_path / "hub"), data, name="mine").manifest.samples == 3
    assert [sample.sample_id for sample in samples(tmp_path)] == ["1", "2", "3"]  # numbered over both shards
    with pytest.raises(SourceError, match="has the splits test, train"):
        ingest_table(str(tmp_path / "hub"), data, name="mine", split="tset")
    assert ingest_table(str(tmp_path / "hub"), data, name="mine", split="train").manifest.media == 1


@pytest.mark.parametrize(
    ("card", "title"),
    [
        ("---\npretty_name: Shapes  of Things\nlicense: mit\n---\n# Shapes\n", "Shapes of Things"),
        ("\ufeff---\r\npretty_name: Shapes\r\n---\r\n", "Shapes"),
        ("---\nlicense: mit\n---\npretty_name: no\n", "mine"),
        ("---\npretty_name: [a\n---\n", "mine"),
        ("---\npretty_name: 3\n---\n", "mine"),
        ("# No front matter\n", "mine"),
    ],
)
def test_the_title_is_that_of_the_card(tmp_path: Path, card: str, title: str) -> None:
    (tmp_path / "hub" / "data").mkdir(parents=True)
    (tmp_path / "hub" / "data" / "test-00000-of-00001.parquet").write_bytes(parquet(QUESTIONS))
    (tmp_path / "hub" / "README.md").write_bytes(card.encode())
    data = Store(str(tmp_path / "data"))
    ingest_table(str(tmp_path / "hub"), data, name="mine")
    load_tables(data.uri, ["mine"])
    assert benchmark("mine").title == title
    ingest_table(str(tmp_path / "hub"), data, name="mine", columns=ColumnsFile(texts={"title": "My own"}))
    load_tables(data.uri, ["mine"])
    assert benchmark("mine").title == "My own"


def test_the_hubs_cache_is_read_by_its_links(tmp_path: Path) -> None:
    cache = tmp_path / "datasets--owner--name"
    snapshot = cache / "snapshots" / "abc123" / "data"
    for folder in (snapshot, cache / "blobs", cache / "refs"):
        folder.mkdir(parents=True)
    rows = [{"image": {"bytes": picture(), "path": "x.png"}, "question": "q", "answer": "no"}]
    (cache / "blobs" / "f00").write_bytes(parquet(rows))
    (snapshot / "test-00000-of-00001.parquet").symlink_to(cache / "blobs" / "f00")
    (snapshot.parent / "README.md").write_text("---\nlicense: mit\n---\n# A card\n")
    (cache / "refs" / "main").write_text("abc123")
    data = Store(str(tmp_path / "data"))
    assert ingest_table(str(cache), data, name="mine").manifest.media == 1
    (cache / "refs" / "main").unlink()
    assert ingest_table(str(cache), data, name="mine").manifest.samples == 1
    (cache / "snapshots" / "def456").mkdir()
    with pytest.raises(UsageError, match="2 snapshots"):
        ingest_table(str(cache), data, name="mine")


def test_the_hub_out_of_reach_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    data = Store(str(tmp_path / "data"))
    with pytest.raises(StoreError, match="the hub cannot be reached"):
        ingest_table("hf://datasets/owner/no-such-table@main", data, name="mine")
    with pytest.raises(UsageError, match="hf://datasets/OWNER/NAME@REVISION"):
        ingest_table("hf://owner", data, name="mine")


def test_rows_of_a_cluster_are_adjacent_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "columns.yaml"
    path.write_text("cluster: series\n")
    rows = [{"id": str(n), "question": "q", "answer": "no", "series": "abc"[n % 3]} for n in range(9)]
    ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)), columns=read_columns_file(path))
    assert [sample.sample_id for sample in samples(tmp_path)] == list("036147258")


def test_a_columns_file_maps_names_and_words(tmp_path: Path) -> None:
    path = tmp_path / "columns.yaml"
    path.write_text(
        "question: Frage\nanswer: Antwort\ncluster: Text\nkind: number\ntolerance: 0.2\nprompt: 'Zahl? {question}'\n"
    )
    text = "Frage,Antwort,Text\nWie viele?,12,a\nUnd?,13,a\n"
    result = ingest(tmp_path, "q.csv", text, columns=read_columns_file(path))
    table = result.manifest.table
    assert (table.kind, table.tolerance, table.prompt) == ("number", 0.2, "Zahl? {question}")
    assert {sample.cluster for sample in samples(tmp_path)} == {"a"}
    other = ingest(
        tmp_path, "q.csv", text, columns=ColumnsFile(columns={"question": ("Frage",), "answer": ("Antwort",)})
    )
    assert other.manifest.dataset_fingerprint != result.manifest.dataset_fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qestion: x\n", "unknown key 'qestion'; did you mean 'question'"),
        ("kind: chioce\n", "unknown kind 'chioce'; did you mean 'choice'"),
        ("tolerance: much\n", "tolerance must be a number"),
        ("max_new_tokens: 16.5\n", "max_new_tokens must be a whole number"),
        ("media_optional: 'yes'\n", "media_optional must be true or false, not 'yes'"),
        ("media_optional: 1\n", "media_optional must be true or false, not 1"),
        ("headline: acuracy\n", "kind yes-no has no metric 'acuracy'; it has accuracy, f1"),
        ("headline: anls\n", "kind yes-no has no metric 'anls'"),
        ("question: [a, b]\n", "question must be one column"),
        ("id: No\n", "id must be the name of a column, not False; YAML reads No as false"),
        ("- a\n", "not a mapping"),
        ("prompt: 'Look: {qestion}'\n", "unknown placeholder {qestion}; did you mean 'question'"),
        ("prompt: 'Look.'\n", "lacks {question}"),
        ("question: Frage\n", "no column 'Frage'"),
    ],
)
def test_a_wrong_columns_file_says_what_and_which(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "columns.yaml"
    path.write_text(text)
    with pytest.raises(PipelineError) as raised:
        ingest(tmp_path, "q.csv", "question,answer\nwhy,yes\n", columns=read_columns_file(path))
    assert message in str(raised.value)


@pytest.mark.parametrize("value", ["80.3", "-0.1", "nan"])
def test_published_numbers_in_percent_are_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "columns.yaml").write_text("published: published.csv\n")
    (tmp_path / "published.csv").write_text(f"model,metric,value\na,accuracy,1\nb,accuracy,{value}\nc,accuracy,\n")
    with pytest.raises(SourceError, match=f"accuracy of b is {float(value):g}; give a fraction from 0 to 1"):
        read_columns_file(tmp_path / "columns.yaml")


def test_ids_that_differ_in_unicode_form_alone_are_one(tmp_path: Path) -> None:
    rows = [{"id": name, "question": "q", "answer": "no"} for name in ("caf\u00e9", "cafe\u0301", "other")]
    result = ingest(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    assert (result.manifest.samples, [row.reason[:9] for row in result.rejections]) == (2, ["duplicate"])


def test_a_name_is_known_wherever_its_data_root_is(tmp_path: Path) -> None:
    ingest(tmp_path, "q.csv", "question,answer\nwhy,yes\n")
    load_tables(str(tmp_path / "data"), ["mine"])
    assert "mine" in benchmark_names()
    assert dict(benchmark("mine").tasks) == {"yes-no": ("default",)}


@pytest.mark.parametrize("name", ["maia", "table", "a b", "../x", "", "-x"])
def test_a_name_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="--as"):
        ingest_table(str(tmp_path), Store(str(tmp_path / "data")), name=name)


def test_file_of_another_form_is_refused_with_those_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "questions.yaml").write_text("a: 1")
    with pytest.raises(SourceError, match=r"yaml: no table that is read; give \.tsv, \.csv, .*, or a folder"):
        ingest_table(str(tmp_path / "questions.yaml"), Store(str(tmp_path / "data")), name="mine")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_two_columns_of_one_name_are_refused_in_every_form(tmp_path: Path, ending: str) -> None:
    twice = '{"id": "1", "question": "q", "answer": "yes", "answer": "no"}'
    contents: dict[str, str | bytes] = {
        "csv": "id,question,answer,answer\n1,q,yes,no\n",
        "jsonl": twice,
        "json": f"[{twice}]",
    }
    if ending == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_arrays([pa.array(["x"])] * 3, ["question", "answer", "answer"]), sink)
        contents["parquet"] = sink.getvalue()
    with pytest.raises(SourceError, match=rf"q\.{ending}: two columns are named 'answer'; rename one"):
        ingest(tmp_path, f"q.{ending}", contents[ending])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("q.csv", "id,question,answer\n1,q,yes,\n2,q,no,\n", "line 2: 4 fields, .*; does each row end with a comma?"),
        ("q.tsv", "id\tquestion\tanswer\n1\tq\tyes\t\n", "line 2: 4 fields, .*; does each row end with a tab?"),
        ("q.csv", "id;question;answer\n1;q;yes;\n", "line 2: 4 fields, .*; does each row end with a semicolon?"),
        ("q.csv", "id,question,answer\n1,q,yes,no\n", "line 2: 4 fields, the header has 3 columns$"),
        ("q.csv", "id,question,answer,\n1,q,yes\n", "line 2: 3 fields, the header has 4 columns$"),
        ("q.jsonl", "{\n", r"line 1: not JSON"),
        ("q.jsonl", "\n", "it holds none"),
        ("q.json", "[]", "it holds none"),
        ("q.json", "[{}]", "row 1: no fields"),
        ("q.json", "[7]", "row 1: not an object of named fields"),
        ("q.parquet", parquet([]), "it holds none"),
    ],
)
def test_an_unreadable_table_names_its_row_1(tmp_path: Path, name: str, content: str | bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=f"no row could be read; {reason.replace('?', '[?]')}"):
        ingest(tmp_path, name, content)
