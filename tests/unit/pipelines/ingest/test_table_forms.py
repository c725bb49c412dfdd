"""Tables as other tools leave them: folders of `save_to_disk`, workbooks, conversations of chat models and LLaVA."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipelines.errors import SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import IngestResult
from pipelines.ingest.table import ingest_table
from pipelines.storage.store import Store
from tests.support.saved_datasets import arrow, save_splits, save_to_disk, workbook

COLOURS = ["red", "green", "blue"]


def picture(colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 32), colour).save(buffer, "PNG")
    return buffer.getvalue()


ROWS = [
    {"id": f"q{number}", "image": {"bytes": picture(colour), "path": f"{colour}.png"}, "question": "Which colour?",
     "options": COLOURS, "answer": colour}
    for number, colour in enumerate(COLOURS)
]  # fmt: skip


def ingest(folder: Path, source: str, **options: Any) -> IngestResult:
    return ingest_table(str(folder / source), Store(str(folder / "data")), name="mine", **options)


def samples(folder: Path) -> list[Any]:
    return list(Dataset.open(Store(str(folder / "data")), "mine").samples())


def lines(rows: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize("shards", [1, 2])
def test_a_saved_data_set_is_read_with_its_pictures(tmp_path: Path, shards: int) -> None:
    save_to_disk(tmp_path / "saved", ROWS, shards=shards)
    result = ingest(tmp_path, "saved")
    assert (result.manifest.samples, result.manifest.media, result.rejections) == (3, 3, ())
    assert [sample.data["gold"] for sample in samples(tmp_path)] == [0, 1, 2]


def test_of_saved_splits_one_is_read_as_of_the_hubs_folders(tmp_path: Path) -> None:
    save_splits(tmp_path / "saved", {"train": ROWS, "test": ROWS[:2]})
    assert ingest(tmp_path, "saved").manifest.samples == 2
    assert ingest(tmp_path, "saved", split="train").manifest.samples == 3
    assert ingest(tmp_path, "saved/train").manifest.samples == 3
    assert ingest(tmp_path, "saved/train", split="train").manifest.samples == 3
    with pytest.raises(SourceError, match=r"--split dev: .*saved has the splits train, test"):
        ingest(tmp_path, "saved", split="dev")
    with pytest.raises(SourceError, match=r"--split test: .* has the split train"):
        ingest(tmp_path, "saved/train", split="test")
    save_splits(tmp_path / "others", {"a": ROWS, "b": ROWS})
    with pytest.raises(SourceError, match="several splits: a, b; name one by --split"):
        ingest(tmp_path, "others")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("{", r"saved/state\.json: not JSON"),
        ("[]", r"saved/state\.json: not an object"),
        ("{}", r"saved/state\.json: no list `_data_files`"),
        ('{"_data_files": [7]}', r"no list `_data_files`"),
        ('{"_data_files": [{"filename": "x.arrow"}]}', r"saved/x\.arrow: no such file, though state\.json names it"),
        ('{"_data_files": [{"filename": "../x.arrow"}]}', r"no such file"),
        ('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_indices_data_files": [{}]}',
         "flatten_indices"),
    ],
)  # fmt: skip
def test_a_damaged_state_is_one_sentence(tmp_path: Path, state: str, message: str) -> None:
    save_to_disk(tmp_path / "saved", ROWS)
    (tmp_path / "saved" / "state.json").write_text(state)
    with pytest.raises(SourceError, match=message):
        ingest(tmp_path, "saved")


def test_states_of_another_program_and_splits_without_their_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "q.csv").write_text("question,answer\nx,red\n")
    (tmp_path / "mine" / "state.json").write_text('{"window": 3}')
    with pytest.raises(SourceError, match=r"several tables: q\.csv, state\.json; name one"):
        ingest(tmp_path, "mine")
    save_splits(tmp_path / "saved", {"test": ROWS})
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["validation"]}')
    with pytest.raises(SourceError, match=r"validation/state\.json: no such file; copy the whole folder"):
        ingest(tmp_path, "saved")
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": [7]}')
    with pytest.raises(SourceError, match="no list `splits` of names"):
        ingest(tmp_path, "saved")


def test_a_workbook_follows_the_rules_of_csv(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["id", "question", "answer"],
        ["a", "How many?", 3],
        [],
        ["b", "And?", None],
        ["c", "?", 4, "x"],
    ]
    (tmp_path / "q.xlsx").write_bytes(workbook(rows, sheets=2, media=1))
    result = ingest(tmp_path, "q.xlsx")
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [["3"]]
    assert [(row.item, row.reason) for row in result.rejections] == [
        ("row 4, b", "no answer"),
        ("row 5", "cell D5 is filled, and its column has no name"),
    ]
    assert result.manifest.notices == (
        "q.xlsx: the first of 2 sheets is read; save another one as a file of its own",
        "q.xlsx: 1 pictures in the sheets are not read; give their files in a column",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK", r"q\.xlsx: cannot be read as an archive"),
        (workbook([]), r"q\.xlsx: no header with the names of columns"),
        (workbook([["id", "question", "answer"]]), r"q\.xlsx: no row could be read; it holds none"),
        (workbook([["id", "id", "answer"], [1, 2, 3]]), r"q\.xlsx: two columns are named 'id'"),
    ],
)
def test_a_workbook_without_rows_is_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "q.xlsx").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        ingest(tmp_path, "q.xlsx")


@pytest.mark.parametrize("name", ["q.arrow", "q.parquet"])
def test_labels_have_their_names(tmp_path: Path, name: str) -> None:
    """`datasets` stores a ClassLabel as a number, with the names in the schema."""
    label = {"names": ["no", "yes"], "_type": "ClassLabel"}
    metadata = json.dumps({"info": {"features": {"answer": label, "question": {"dtype": "string", "_type": "Value"}}}})
    table = pa.table({"question": ["q"] * 4, "answer": [1, 0, -1, 7]})
    _write(tmp_path / name, table.replace_schema_metadata({"huggingface": metadata}))
    result = ingest(tmp_path, name, kind="yes-no")
    assert [sample.data["answers"] for sample in samples(tmp_path)] == [["yes"], ["no"]]
    assert [row.reason.partition(";")[0] for row in result.rejections] == ["no answer", "answer 7 is not yes or no"]
    _write(tmp_path / name, table.replace_schema_metadata({"huggingface": '{"info": [7]}'}))
    assert ingest(tmp_path, name).manifest.table.kind == "number"  # type: ignore[union-attr]


def _write(path: Path, table: pa.Table) -> None:
    if path.suffix == ".arrow":
        path.write_bytes(arrow(table))
    else:
        pq.write_table(table, path)


def chat(number: int, **row: Any) -> dict[str, Any]:
    turns = [
        {"role": "system", "content": "Be short."} if number else None,
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which colour?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": COLOURS[number]}]},
    ]
    return {"messages": [turn for turn in turns if turn], "images": [f"{COLOURS[number]}.png"], **row}


def test_chat_lines_are_questions_with_the_row_that_cannot_be_one_listed(tmp_path: Path) -> None:
    for colour in COLOURS:
        (tmp_path / f"{colour}.png").write_bytes(picture(colour))
    rows = [chat(0), chat(1), chat(2), {"messages": chat(0)["messages"]}, {"messages": chat(0)["messages"][:1]}]
    (tmp_path / "sft.jsonl").write_text(lines(rows))
    result = ingest(tmp_path, "sft.jsonl", kind="text")
    assert [(sample.sample_id, sample.data.get("hint"), sample.data["answers"]) for sample in samples(tmp_path)] == [
        ("1", None, ["red"]),
        ("2", "Be short.", ["green"]),
        ("3", "Be short.", ["blue"]),
    ]
    assert [len(sample.media) for sample in samples(tmp_path)] == [1, 1, 1]
    assert [row.item for row in result.rejections] == ["line 4", "line 5"]
    assert "the row has no picture or clip" in result.rejections[0].reason
    assert "the last turn of messages is the user's" in result.rejections[1].reason


def test_conversations_are_read_from_every_form_of_file(tmp_path: Path) -> None:
    rows = [{**chat(number), "images": [{"bytes": picture(COLOURS[number]), "path": None}]} for number in range(3)]
    text = [
        {**row, "messages": [{**turn, "content": _plain(turn["content"])} for turn in row["messages"]]} for row in rows
    ]
    table = pa.Table.from_pylist(text)
    pq.write_table(table, tmp_path / "sft.parquet")
    (tmp_path / "sft.arrow").write_bytes(arrow(table))
    for name in ("sft.parquet", "sft.arrow"):
        assert ingest(tmp_path, name).manifest.media == 3
        assert [sample.data.get("hint") for sample in samples(tmp_path)] == [None, "Be short.", "Be short."]
        assert [sample.data["question"] for sample in samples(tmp_path)] == ["Which colour?"] * 3


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "<image>") for part in content)


def test_llavas_conversations_are_read_with_earlier_turns_as_text(tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(picture("red"))
    first = {"from": "human", "value": "<image>\nWhich colour?"}
    reply = {"from": "gpt", "value": "red"}
    rows: list[dict[str, Any]] = [
        {"id": "a", "image": "red.png", "conversations": [first, reply]},
        {"id": "b", "image": "red.png",
         "conversations": [first, reply, {"from": "human", "value": "Sure?"}, {"from": "gpt", "value": "yes"}]},
        {"id": "c", "conversations": [first, reply]},
    ]  # fmt: skip
    (tmp_path / "llava.json").write_text(json.dumps(rows))
    result = ingest(tmp_path, "llava.json")
    assert [sample.data["question"] for sample in samples(tmp_path)] == [
        "Which colour?",
        "User: Which colour?\nAssistant: red\nUser: Sure?",
    ]
    assert result.manifest.notices == ("1 row of several exchanges: the earlier turns are in the question",)
    (rejection,) = result.rejections
    assert (rejection.file, rejection.item) == ("llava.json", "row 3")
    assert "the question holds <image> or <video>, and the row has no picture or clip" in rejection.reason


def test_a_table_with_answers_keeps_its_columns_and_one_of_prompts_and_conversations_asks_which(tmp_path: Path) -> None:
    row = {"question": "Which?", "answer": "red", "messages": [{"role": "user", "content": "x"}]}
    (tmp_path / "q.jsonl").write_text(lines([row]))
    ingest(tmp_path, "q.jsonl")
    assert samples(tmp_path)[0].data == {"question": "Which?", "answers": ["red"]}
    (tmp_path / "bad.jsonl").write_text(lines([{"messages": row["messages"]}]))
    with pytest.raises(SourceError, match=r"no row could be read; line 1: the last turn of messages is the user's"):
        ingest(tmp_path, "bad.jsonl")
    turns = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "red"}]
    (tmp_path / "q.jsonl").write_text(lines([{"prompt": "Which?", "messages": turns}]))
    with pytest.raises(SourceError, match="2 columns may be the question: question, prompt; name the right one"):
        ingest(tmp_path, "q.jsonl")
