"""What a definition may say: each key on a small table, and what is wrong with one that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.benchmarks import table_benchmark
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest, Row, Sample, Verdict
from pipelines.benchmarks.table.columns_file import parse_columns
from pipelines.errors import SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import IngestResult
from pipelines.ingest.table import ingest_table
from pipelines.storage.store import Store
from tests.support.gallery_layouts import picture
from tests.support.maia_source import write_clip

ROW = {"question": "Which?", "A": "cat", "B": "dog", "answer": "A"}


def ingest(folder: Path, rows: list[dict[str, Any]], keys: dict[str, Any], **files: bytes) -> IngestResult:
    source = folder / "source"
    source.mkdir(exist_ok=True)
    for name, content in files.items():
        (source / name.replace("__", ".")).write_bytes(content)
    (source / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    columns = parse_columns(keys, "columns.yaml")
    return ingest_table(str(source / "q.jsonl"), Store(str(folder / "data")), name="mine", columns=columns)


def samples(folder: Path) -> dict[str, Sample]:
    return {each.sample_id: each for each in Dataset.open(Store(str(folder / "data")), "mine").samples()}


def texts(result: IngestResult, sample: Sample, task: str, setting: str = "default") -> list[str]:
    """Return the parts of a sample's prompt, media by the end of their role."""
    benchmark = table_benchmark(result.manifest.table)
    query = PromptInput(sample, task, setting, PromptTexts(benchmark.prompt_texts), 42)
    (prompt,) = benchmark.prompts(query)
    numbers = {ref.sha256: ref.role.rpartition("/")[2] for ref in sample.media}
    return [
        getattr(part, "text", None) or f"#{numbers[part.source.partition('~')[0]]}"
        for part in prompt.steps[0].turns[0].parts
    ]


def test_id_may_be_a_template_or_the_number_of_the_row(tmp_path: Path) -> None:
    rows = [{**ROW, "set": name, "n": number} for name in "ab" for number in range(2)]
    ingest(tmp_path, rows, {"id": "{set}/{n%2}#{@row}"})
    assert list(samples(tmp_path)) == ["a/0#1", "a/1#2", "b/0#3", "b/1#4"]
    ingest(tmp_path, rows, {"id": "row", "where": {"n": 1}})
    assert list(samples(tmp_path)) == ["2", "4"]


def test_files_of_a_folder_are_one_table_with_their_names_as_columns(tmp_path: Path) -> None:
    for name in ("b/two.jsonl", "a/one.jsonl", "a/other.json"):
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ROW))
    keys = {"files": "*/*.jsonl", "id": "{@folder}/{@file}/{@row}", "category": "@folder"}
    columns, data = parse_columns(keys, "columns.yaml"), Store(str(tmp_path / "data"))
    ingest_table(str(tmp_path / "source"), data, name="mine", columns=columns)
    assert {name: each.category for name, each in samples(tmp_path).items()} == {"a/one/1": "a", "b/two/1": "b"}
    (tmp_path / "source" / "none").mkdir()
    with pytest.raises(SourceError, match="no table"):
        ingest_table(str(tmp_path / "source" / "none"), data, name="mine", columns=columns)


def test_keys_take_what_yaml_makes_of_their_values(tmp_path: Path) -> None:
    rows = [{"question": "Which? (A) x (B) y", "answer": "A", "kept": kept} for kept in (True, False)]
    keys = {"where": {"kept": True}, "letters": ["A", "B"], "fps": 2, "prompt": "{question}", "precision": 2,
            "groups": {"name": "all", "by": "kept"}, "by": "kept"}  # fmt: skip
    ingest(tmp_path, rows, keys)
    (sample,) = samples(tmp_path).values()
    facts = {name: sample.data[name] for name in ("groups", "by", "precision", "options")}
    expected = {"groups": {"all": ["True"]}, "by": {"kept": ["True"]}, "precision": 2, "options": ["A", "B"]}
    assert facts == expected


def test_missing_texts_are_empty_cells_and_null_unmaps_a_name(tmp_path: Path) -> None:
    rows = [{**ROW, "C": "nan", "D": "nan", "hint": "nan", "category": "x"}]
    ingest(tmp_path, rows, {"missing": ["nan"], "category": None})
    (sample,) = samples(tmp_path).values()
    assert (sample.data["options"], sample.category, "hint" in sample.data) == (["cat", "dog"], "", False)
    with pytest.raises(SourceError, match=r"1 of 1 rows have two equal options .*`missing: \[nan\]`"):
        ingest(tmp_path, rows, {})


def test_few_rows_with_equal_options_are_rejected(tmp_path: Path) -> None:
    rows = [{**ROW, "id": str(number)} for number in range(99)] + [{**ROW, "id": "x", "B": "cat"}]
    result = ingest(tmp_path, rows, {})
    assert (result.manifest.samples, result.manifest.rejected) == (99, 1)


def test_file_may_mix_kinds_each_a_task(tmp_path: Path) -> None:
    rows = [{**ROW, "type": "mc"}, {"question": "What?", "answer": "cat", "type": "free"}, {**ROW, "type": "x"}]
    keys = {
        "kind": {"column": "type", "values": {"mc": "choice", "free": "text"}},
        "prompt": {"choice": "{question} {options}", "text": "{question} In a word."},
        "scorer": {"choice": "letter", "text": "exact-lower"},
    }
    result = ingest(tmp_path, rows, keys)
    benchmark, items = table_benchmark(result.manifest.table), samples(tmp_path)
    assert dict(benchmark.tasks) == {"choice": ("default", "circular"), "text": ("default",)}
    assert [rejection.reason for rejection in result.rejections] == ["type 'x' is none of mc, free"]
    assert texts(result, items["1"], "choice") == ["Which? A. cat\nB. dog"]
    assert texts(result, items["2"], "text") == ["What? In a word."]
    query = PromptInput(items["2"], "choice", "default", PromptTexts(benchmark.prompt_texts), 42)
    assert not [*benchmark.prompts(query)]


def test_prompt_has_any_column_and_optional_prefixes(tmp_path: Path) -> None:
    rows = [{**ROW, "hint": "Look.", "unit": "cm"}, {**ROW, "unit": None}]
    result = ingest(tmp_path, rows, {"prompt": '{hint?Hint: }\n{question} {options} {unit?in }{"a": 1}'})
    first, second = samples(tmp_path).values()
    assert texts(result, first, "choice") == ['Hint: Look.\nWhich? A. cat\nB. dog in cm{"a": 1}']
    assert texts(result, second, "choice") == ['Which? A. cat\nB. dog {"a": 1}']
    by_value = {"column": "unit", "values": {"cm": "{question} {options} cm", "": "{question} {options}"}}
    result = ingest(tmp_path, rows, {"prompt": by_value})
    assert texts(result, samples(tmp_path)["1"], "choice")[0].endswith("cm")


def test_pictures_are_at_their_marks_and_others_first(tmp_path: Path) -> None:
    rows = [{**ROW, "question": "See <image 2>, <image 2>?", "image": ["1.png", "2.png"]},
            {**ROW, "question": "From <image> to <image>?", "image": ["1.png", "2.png"]},
            {**ROW, "question": "One <image>?", "image": ["1.png", "2.png"]}]  # fmt: skip
    result = ingest(tmp_path, rows, {"prompt": "{question}{options}"}, **{"1__png": picture(1), "2__png": picture(2)})
    first, second, third = (texts(result, each, "choice") for each in samples(tmp_path).values())
    assert first == ["#0", "See ", "#1", ", <image 2>?A. cat\nB. dog"]
    assert second == ["From ", "#0", " to ", "#1", "?A. cat\nB. dog"]
    assert third == ["#0", "#1", "One <image>?A. cat\nB. dog"]


def test_media_are_looked_for_in_roots_and_after_a_part_of_an_address(tmp_path: Path) -> None:
    (tmp_path / "source" / "b").mkdir(parents=True)
    (tmp_path / "source" / "b" / "1.png").write_bytes(picture(1))
    rows = [{**ROW, "url": "https://x.org/pictures/1.png", "name": "1"}]
    for keys in (
        {"media": "url", "after": "/pictures/", "roots": ["a", "b"]},
        {"media": "{name}.png", "roots": {"q": "b"}, "ignore": ["url"]},
        {"media": "b/{name}.png", "ignore": ["url"]},
    ):
        assert ingest(tmp_path, rows, keys).manifest.media == 1


def test_values_of_a_list_become_rows_and_rows_of_another_table_are_added(tmp_path: Path) -> None:
    rows = [{"key": 7, "word": ["cat", "dog"], "answer": "yes"}, {"key": 8, "word": ["emu"], "answer": "no"}]
    keys = {"question": "word", "explode": "word", "id": "{key}/{@n}", "category": "colour",
            "join": {"files": "more.jsonl", True: ["key", "id"]}}  # fmt: skip
    result = ingest(tmp_path, rows, keys, more__jsonl=b'{"id": 7, "colour": "red", "answer": "no"}')
    assert {name: (each.data["question"], each.category) for name, each in samples(tmp_path).items()} == {
        "7/1": ("cat", "red"),
        "7/2": ("dog", "red"),
    }
    assert [rejection.reason for rejection in result.rejections] == ["no row of more.jsonl has id '8'"]


def test_judge_is_asked_in_the_definitions_words_and_scored_on_its_scale(tmp_path: Path) -> None:
    rows = [{"question": "What?", "answer": "a cat<AND>a dog", "level": "hard"}]
    prompt = "{level}: {question} Right: {answer} Reply: {reply}"
    keys = {"kind": "open", "scorer": "judge", "judge_prompt": prompt, "judge_scale": "0-10"}
    benchmark = table_benchmark(ingest(tmp_path, rows, keys).manifest.table)
    (sample,) = samples(tmp_path).values()
    row = Row(
        request_id="", sample=sample, model="m", task="open", setting="default", variant="", status="ok", output="cats"
    )
    assert benchmark.judge is not None
    request = benchmark.judge.ask(row, PromptTexts(benchmark.prompt_texts))
    assert isinstance(request, JudgeRequest)
    assert request.step.turns[0].parts[0].text == "hard: What? Right: a cat <AND> a dog Reply: cats"
    assert [benchmark.judge.read(reply) for reply in ("7", "2", "11")] == [True, False, None]
    for verdict, score in ((Verdict(state="ok", accepted=True, reply="7"), 0.7), (Verdict(state="invalid"), None),
                           (Verdict(state="ok", accepted=False), 0.0), (Verdict(state="absent"), None)):  # fmt: skip
        judged = Row(**{name: getattr(row, name) for name in Row.__slots__} | {"verdict": verdict})
        assert benchmark.read(judged).values.get("official_score") == score


def test_clips_have_the_frames_and_spans_that_the_definition_says(tmp_path: Path) -> None:
    write_clip(tmp_path / "source" / "c.mp4", frames=40, fps=10)
    row = {**ROW, "video": "c.mp4", "from": 1.0, "to": 2.0}
    for keys, expected in (
        ({}, [(32, "")]),
        ({"frames": 8, "fps": 2.0}, [(8, "")]),
        ({"fps": 2.0}, [(8, "")]),
        ({"fps": 5.0, "start": "from", "end": "to"}, [(6, "~span-10-20")]),
    ):
        result = ingest(tmp_path, [row], keys)
        (sample,) = samples(tmp_path).values()
        benchmark = table_benchmark(result.manifest.table)
        query = PromptInput(sample, "choice", "default", PromptTexts(benchmark.prompt_texts), 42)
        (prompt,) = benchmark.prompts(query)
        medium = prompt.steps[0].turns[0].parts[0]
        assert [(medium.frames, medium.source[64:])] == expected
    (rejection,) = ingest(tmp_path, [row, {**row, "to": 0.5}], {"start": "from", "end": "to"}).rejections
    assert rejection.reason == "start and end 1 and 0.5 are no span of seconds"


def test_each_turn_of_a_conversation_is_asked_and_scored(tmp_path: Path) -> None:
    rows = [{"q": ["Which animal?", "How many?"], "answer": ["cat", ["2", "two"]], "image": "1.png"},
            {"q": ["One?", "Two?"], "answer": ["yes"], "image": "1.png"}]  # fmt: skip
    keys = {"turns": "q", "kind": "text", "scorer": "exact", "prompt": "{question} In a word."}
    result = ingest(tmp_path, rows, keys, **{"1__png": picture(1)})
    assert [rejection.reason for rejection in result.rejections] == ["1 answer for 2 turns"]
    (sample,), benchmark = samples(tmp_path).values(), table_benchmark(result.manifest.table)
    query = PromptInput(sample, "text", "default", PromptTexts(benchmark.prompt_texts), 42)
    first, second = benchmark.prompts(query)
    assert [len(first.steps), len(second.steps)] == [1, 2]
    shown = [[getattr(part, "text", type(part).__name__) for part in turn.parts] for turn in second.steps[1].turns]
    assert shown == [["Media", "Which animal? In a word."], ["StepOutput"], ["How many? In a word."]]
    for variant, scores in (("0", [1.0, 0.0]), ("1", [0.0, 1.0])):
        rows_of = [
            Row(request_id="", sample=sample, model="m", task="text", setting="default", variant=variant, status="ok",
                output=output)
            for output in ("cat", "two")
        ]  # fmt: skip
        assert [benchmark.read(row).values["official_score"] for row in rows_of] == scores
        assert benchmark.expected(rows_of[0]) == (("cat",) if variant == "0" else ("2", "two"))


def test_rows_without_answers_are_asked_and_not_scored(tmp_path: Path) -> None:
    result = ingest(tmp_path, [{"question": "Describe it."}], {"kind": "generate"})
    benchmark = table_benchmark(result.manifest.table)
    (sample,) = samples(tmp_path).values()
    row = Row(
        request_id="", sample=sample, model="m", task="generate", setting="default", variant="", status="ok",
        output="a cat",
    )  # fmt: skip
    assert texts(result, sample, "generate") == ["Describe it."]
    assert benchmark.read(row).values == {"characters": 5.0, "words": 2.0}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"columns": 7}, "unknown key 'columns'"),
        ({"scorrer": "anls"}, "columns.yaml: unknown key 'scorrer'; did you mean 'scorer'?"),
        ({"scorer": "anl"}, "scorer: unknown scorer 'anl'; did you mean 'anls'?"),
        ({"kind": {"column": "t", "values": {"a": "chioce"}}}, "unknown kind 'chioce'; did you mean 'choice'?"),
        ({"groups": [{"name": "x"}]}, "groups.0.by: Field required"),
        ({"groups": [{"name": "x", "by": ["a"], "of": 1}]}, "groups.0: unknown key 'of'"),
        ({"macro": "subject"}, "macro: no grouping 'subject'"),
        ({"judge_scale": "0-5"}, "judge_scale must be yes-no, 0-1, 0-10, or a list of classes, not '0-5'"),
        ({"box": "xyhw"}, "box: Input should be 'xywh' or 'xyxy', not 'xyhw'"),
        ({"frames": -1}, "frames: Input should be greater than or equal to 0, not -1"),
        ({"fps": "2"}, "fps must be a number, not '2'"),
        ({"title": True}, "title must be text, not True"),
        ({"scorer": "letter", "kind": "text"}, "scorer letter does not fit kind text"),
        ({"scorer": "iou"}, "scorer iou does not fit kind choice"),
        ({"media": "clips/{vid}.mp4"}, "no column 'vid', which media names"),
        ({"by": ["level"]}, "no column 'level', which by names"),
        ({"prompt": "{question} {options} {answer}"}, "unknown placeholder {answer}"),
    ],
    ids=str,
)
def test_wrong_definition_names_the_key_and_the_column(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError) as raised:
        ingest(tmp_path, [ROW], keys)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "answer": "3", "option": ["A. x", "B. y", "C. z", "D. w"]}, "column 'option' holds options"),
        ({"question": "q", "answer": "B", "texts": {"A": "x", "B": "y"}}, "column 'texts' holds options"),
        (
            {"question": "q", "answer": "B", "clip": "k1"},
            "column 'clip' holds names of .*`media: FOLDER/{clip}.mp4`",
        ),
        ({"question": "q", "answer": ["man in red"], "bbox": [1, 2, 3, 4]}, "column 'bbox' holds boxes .*`kind: box`"),
    ],
)
def test_column_that_nothing_takes_is_named_unless_it_is_ignored(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    clip = tmp_path / "source" / "videos" / "k1.mp4"
    clip.parent.mkdir(parents=True)
    clip.write_bytes(b"x")
    with pytest.raises(SourceError, match=message):
        ingest(tmp_path, [row], {})
    column = [*row][-1]
    assert ingest(tmp_path, [row], {"ignore": [column], "kind": "text"}).manifest.samples == 1


def test_each_picture_of_a_table_may_be_asked_about(tmp_path: Path) -> None:
    rows = [{"id": "a", "pictures": ["1.png", "2.png"]}, {"id": "b", "pictures": ["2.png"]}]
    keys = {"kind": "generate", "media": "pictures", "for_each": "media", "prompt": "Describe the picture."}
    result = ingest(tmp_path, rows, keys, **{"1__png": picture(1), "2__png": picture(2)})
    assert sorted(samples(tmp_path)) == ["a/1", "a/2", "b/1"]
    assert texts(result, samples(tmp_path)["a/2"], "generate") == ["#0", "Describe the picture."]


def test_more_marks_than_pictures_reject_the_row(tmp_path: Path) -> None:
    rows = [{**ROW, "image": "1.png"}, {**ROW, "question": "<image> or <image>?", "image": "1.png"}]
    (rejection,) = ingest(tmp_path, rows, {}, **{"1__png": picture(1)}).rejections
    assert rejection.reason == "2 marks <image> or <video> in a row with 1 picture"


def test_clips_beside_the_folder_of_a_table_are_named_too(tmp_path: Path) -> None:
    clip = tmp_path / "data" / "k1.mp4"
    clip.parent.mkdir()
    clip.write_bytes(b"x")
    row = {"question": "q", "answer": "B", "videoID": "k1"}
    with pytest.raises(SourceError, match="column 'videoID' holds names of pictures or clips and is not taken"):
        ingest(tmp_path, [row], {})
    assert ingest(tmp_path, [{**row, "videoID": "k2"}], {}).manifest.samples == 1
