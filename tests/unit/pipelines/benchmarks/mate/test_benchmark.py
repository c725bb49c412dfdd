"""MATE: both forms as distributed, the requests built from them, and how answers are read."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.messages import Media, Text
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.mate.benchmark import BENCHMARK, WHITE_PICTURE
from pipelines.benchmarks.mate.scene import TASKS, parse_scene
from pipelines.benchmarks.mate.scene_rows import parse_row
from pipelines.benchmarks.mate.source import read_mate
from pipelines.benchmarks.mate.wording.own import build_prompt, count_solved_examples
from pipelines.benchmarks.mate.wording.paper import build_paper_prompt
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import MediaRef, Notice, Prompt, RawSample, Rejection, Row, Sample
from pipelines.errors import SourceError
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support.mate_source import RAW, WHITE, development, name_of, png, public, public_row, question, row

TEXTS = PromptTexts(BENCHMARK.prompt_texts)
SHOTS = (("color", "blue"), ("shape", "sphere"))
RED_NAME = question("img2txt", ("color", "red"), "name")
NAMED = ("name", "Object_1")


def files() -> dict[str, list[Any]]:
    """Return a scene with all of its rows, and one without its unimodal ones."""
    pointed = [("name", "Object_2"), ("name", "Object_3")]
    return {
        "mm_0shot": [row(), row("A", "txt2img", NAMED, "color")],
        "mm_1shot": [row(shots=SHOTS[1:]), row("A", "txt2img", NAMED, "color", shots=[("name", "Object_0")])],
        "mm_2shot": [
            row(shots=SHOTS),
            row("A", "txt2img", NAMED, "shape", shots=[("name", "Object_0"), ("size", 0.351)]),
        ],
        "mm_2shot_cot": [row(shots=SHOTS, input_str="step by step")],
        "um_2shot": [row(task="txt2txt", pointer=NAMED, target="rotation", shots=pointed)],
    }


def read(folder: Path) -> tuple[dict[str, RawSample], list[Rejection], list[str]]:
    results = list(read_mate(Folder(str(folder))))
    samples = {item.sample_id: item for item in results if isinstance(item, RawSample)}
    return (
        samples,
        [item for item in results if isinstance(item, Rejection)],
        [item.message for item in results if isinstance(item, Notice)],
    )


def cells(sample: RawSample | Sample) -> set[tuple[str, str]]:
    return {(item["task"], item["setting"]) for item in sample.data["rows"]}


def as_sample(raw: RawSample) -> Sample:
    media = tuple(
        MediaRef(role=file.role, kind="image", sha256=file.role, extension=".png", bytes=1, width=6, height=4)
        for file in raw.media
    )
    return Sample(sample_id=raw.sample_id, category=raw.category, cluster=raw.cluster, media=media, data=raw.data)


def prompts(sample: Sample) -> dict[tuple[str, str], Prompt]:
    results = {}
    for task, settings in BENCHMARK.tasks.items():
        for setting in settings:
            for prompt in BENCHMARK.prompter.prompts(PromptInput(sample, task, setting, texts=TEXTS, seed=42)):
                assert (task, setting) not in results
                results[task, setting] = prompt
    return results


def media_and_text(prompt: Prompt) -> tuple[Media, str]:
    ((turn,),) = (step.turns for step in prompt.steps)
    picture, words = turn.parts
    assert isinstance(picture, Media)
    assert isinstance(words, Text)
    return picture, words.text


class TestDevelopment:
    def test_sample_holds_all_rows_of_its_scene(self, tmp_path: Path) -> None:
        result = ingest_benchmark(
            BENCHMARK, Folder(str(development(tmp_path / "s", files()))), Store(str(tmp_path / "d"))
        )
        assert result.rejections == ()
        samples = {item.sample_id: item for item in Dataset.open(Store(str(tmp_path / "d")), "mate").samples()}
        b, a = samples[name_of("B")], samples[name_of("A")]
        crossmodal = {("img2txt", setting) for setting in ("0-shot", "1-shot", "2-shot", "2-shot-cot")}
        assert cells(b) == crossmodal | {("txt2txt", "2-shot")}
        assert cells(a) == {("txt2img", setting) for setting in ("0-shot", "1-shot", "2-shot")}
        assert (b.category, a.category) == ("6 objects", "3 objects")
        assert [ref.role for ref in b.media] == ["picture", "white"]
        assert [ref.role for ref in a.media] == ["picture"]
        assert b.cluster == hashlib.sha256(png(f"{name_of('B')}.png")).hexdigest()

    def test_prompt_text_is_byte_equal_and_follows_the_picture(self, tmp_path: Path) -> None:
        samples, _, _ = read(development(tmp_path / "s", files()))
        prompts_by_cell = prompts(as_sample(samples[name_of("B")]))
        assert {
            media_and_text(prompt)[0].source for (task, _), prompt in prompts_by_cell.items() if task != "txt2txt"
        } == {"picture"}
        assert media_and_text(prompts_by_cell["txt2txt", "2-shot"]) == (
            Media("image", "white"),
            "words about txt2txt with 2 examples  \n ",
        )
        assert media_and_text(prompts_by_cell["img2txt", "2-shot-cot"])[1] == "step by step"
        limits = {
            setting: prompt.steps[0].generation.max_new_tokens for (_, setting), prompt in prompts_by_cell.items()
        }
        assert limits == {"0-shot": 80, "1-shot": 80, "2-shot": 80, "2-shot-cot": 500}
        assert {prompt.version for prompt in prompts_by_cell.values()} == {"mate-input-v1"}

    def test_missing_white_file_is_replaced_by_a_blank(self, tmp_path: Path) -> None:
        pictures = [f"{name_of(scene)}.png" for scene in "AB"]
        samples, rejections, notices = read(development(tmp_path / "s", files(), pictures))
        assert media_and_text(prompts(as_sample(samples[name_of("B")]))["txt2txt", "2-shot"])[0] == WHITE_PICTURE
        assert (WHITE_PICTURE.source, rejections) == ("blank:FFFFFF:480x320:0:0", [])
        assert not [notice for notice in notices if WHITE in notice]

    def test_damaged_white_file_costs_no_row(self, tmp_path: Path) -> None:
        source = development(tmp_path / "s", files())
        (source / "img" / WHITE).write_bytes(b"\x89PNG and no more")
        samples, rejections, notices = read(source)
        assert len(samples) == 2
        assert rejections == []
        assert any("cannot be decoded" in notice for notice in notices)

    def test_without_input_str_the_prompt_is_built(self, tmp_path: Path) -> None:
        shots = [("name", "Object_2"), ("size", 0.35)]
        rows = [row("B", "txt2img", NAMED, "color", shots=shots, input_str=None)]
        samples, rejections, _ = read(development(tmp_path / "s", {"mm_2shot": rows, "mm_2shot_cot": rows}))
        assert rejections == []
        prompts_by_cell = prompts(as_sample(samples[name_of("B")]))
        shown = [question("txt2img", shot, "color") for shot in shots]
        for setting, cot in (("2-shot", False), ("2-shot-cot", True)):
            prompt = build_prompt(parse_scene(RAW["B"]), question("txt2img", NAMED, "color"), shown, cot=cot)
            assert media_and_text(prompts_by_cell["txt2img", setting])[1] == prompt
        assert {prompt.version for prompt in prompts_by_cell.values()} == {"mate-built-v1"}

    def test_built_prompt_can_be_in_the_papers_words(self, tmp_path: Path) -> None:
        rows = [row("B", "txt2img", NAMED, "color", input_str=None)]
        samples, _, _ = read(development(tmp_path / "s", {"mm_0shot": rows}))
        sample = as_sample(samples[name_of("B")])
        texts = PromptTexts(BENCHMARK.prompt_texts, instead={"mate-built-v1": "mate-built-paper"})
        (prompt,) = BENCHMARK.prompter.prompts(PromptInput(sample, "txt2img", "0-shot", texts, 1))
        assert prompt.version == "mate-built-paper"
        ((_, text),) = (turn.parts for turn in prompt.steps[0].turns)
        assert text == Text(build_paper_prompt(parse_scene(RAW["B"]), question("txt2img", NAMED, "color")))

    def test_missing_picture_costs_only_the_rows_of_its_scene(self, tmp_path: Path) -> None:
        samples, rejections, _ = read(development(tmp_path / "s", files(), [WHITE, f"{name_of('A')}.png"]))
        assert cells(samples[name_of("B")]) == {("txt2txt", "2-shot")}
        assert samples[name_of("B")].cluster == name_of("B")
        assert len(rejections) == 4
        assert {item.reason for item in rejections} == {f"the picture img/{name_of('B')}.png is missing"}

    @pytest.mark.parametrize("file", ["mm_0shot", "mm_2shot_cot"])
    def test_row_that_names_a_missing_picture_costs_no_other_row_of_its_scene(self, tmp_path: Path, file: str) -> None:
        rows = files()
        index = next(i for i, line in enumerate(rows[file]) if line["example_id"] == name_of("B"))
        rows[file][index] = {**rows[file][index], "image": "elsewhere.png"}
        whole = cells(read(development(tmp_path / "whole", files()))[0][name_of("B")])
        pictures = [WHITE, *(f"{name_of(scene)}.png" for scene in "AB")]
        samples, rejections, _ = read(development(tmp_path / "s", rows, pictures))
        (lost,) = whole - cells(samples[name_of("B")])
        assert [(item.item, item.reason) for item in rejections] == [
            (f"{name_of('B')} {lost[0]} {lost[1]}", "the picture img/elsewhere.png is missing")
        ]

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (b'{"example_id": "x"', "not JSON"),
            (b"\xff\xfe", "not JSON"),
            (b"[" * 100_000, "not JSON"),
            (b"17", "no example_id or id"),
            (row(example_id=None), "no example_id or id"),
            (row(scene=None), "no scene"),
            (row(scene={"objects": []}), "no list of objects"),
            (row(task="img2smell"), "unknown task of MATE"),
            (row(task="img2img", target="shape"), "does not belong in a file of img2txt and txt2img"),
            (row(gold_reference=None), "no gold_reference or answer"),
            (row(gold_reference='{"answer": "Object_1"}'), "not the object's name"),
            (row(pointer_attribute={"color": "gray"}), "fits 3 objects"),
            (row(pointer_attribute={"color": ["red"]}), "fits 0 objects"),
            (row(pointer_attribute={"material": "metal"}), "there are color, shape"),
            (row(pointer_attribute={"color": "red", "shape": "cube"}), "2 keys"),
            (row(target_attribute={"color": "red"}), "there are name"),
            (row(few_shot_attributes=[]), "0 solved examples in a row of 2-shot"),
            (row(few_shot_attributes=["color"]), "no list of"),
            (row(few_shot_attributes=SHOTS, image="../secret.png"), "no plain file name"),
            (row(few_shot_attributes=SHOTS, input_str=17), "no text"),
            (row(few_shot_attributes=SHOTS, input_str="half \ud800"), "surrogate"),
            (row(few_shot_attributes=SHOTS, input_str=None, scene_format="yaml"), "in JSON"),
            (row(few_shot_attributes=[["color", "gray"], ["shape", "sphere"]], input_str=None), "fits 3 objects"),
            (row(few_shot_attributes=[["name", "Object_2"], ["shape", "sphere"]], input_str=None), "points with"),
            (row(few_shot_attributes=SHOTS, scene=RAW["A"], example_id=name_of("A")), "not the object's name"),
            (row(few_shot_attributes=SHOTS), "duplicate row of img2txt, 2-shot"),
        ],
        ids=lambda value: value[:30] if isinstance(value, str) else "",
    )
    def test_bad_row_costs_only_itself(self, tmp_path: Path, bad: Any, reason: str) -> None:
        folder = development(
            tmp_path / "s",
            {
                "mm_2shot": [
                    row(shots=SHOTS),
                    bad,
                    row("A", "txt2img", NAMED, "color", shots=[("name", "Object_0"), ("name", "Object_2")]),
                ]
            },
        )
        samples, rejections, _ = read(folder)
        assert {name: cells(sample) for name, sample in samples.items()} == {
            name_of("B"): {("img2txt", "2-shot")},
            name_of("A"): {("txt2img", "2-shot")},
        }
        assert len(rejections) == 1
        assert reason in rejections[0].reason
        assert rejections[0].item in ("line 2", name_of("B"), name_of("A"))

    def test_id_names_one_scene_and_one_picture(self, tmp_path: Path) -> None:
        other = row("A", "txt2img", NAMED, "color", example_id=name_of("B"))
        elsewhere = row(shots=SHOTS, image=f"{name_of('A')}.png")
        _, rejections, _ = read(development(tmp_path / "s", {"mm_0shot": [row(), other], "mm_2shot": [elsewhere]}))
        assert [item.reason[:15] for item in rejections] == [
            "its scene diffe",
            "its picture 'd4"[:4] + rejections[1].reason[4:15],
        ]

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"mm_0shot": [row(linking_attributes=[{"color": "red"}])]}, "linking_attributes differ from those"),
            ({"mm_0shot": [row(linking_attributes="no list")]}, "linking_attributes differ from those"),
            ({"mm_0shot": [row(object_count=9)]}, "object_count differs"),
            ({"mm_0shot": [row()]}, "0-shot: 1 rows of img2txt, 0 of txt2img"),
            ({"mm_0shot": [row()], "notes": [{}]}, "notes.jsonl: not a file of MATE"),
            (
                {"mm_2shot": [row(shots=SHOTS)], "mm_2shot_cot": [row(target="rotation", shots=SHOTS)]},
                "2-shot and 2-shot-cot ask different questions",
            ),
        ],
        ids=lambda value: value[:20] if isinstance(value, str) else "",
    )
    def test_oddities_are_reported_without_rejection(self, tmp_path: Path, changed: Any, message: str) -> None:
        samples, rejections, notices = read(development(tmp_path / "s", changed))
        assert len(samples) == 1
        assert rejections == []
        assert any(message in notice for notice in notices)

    def test_valid_data_gives_no_notice(self, tmp_path: Path) -> None:
        same = {"mm_0shot": [row(), row("A", "txt2img", NAMED, "color")]}
        assert read(development(tmp_path / "s", same))[1:] == ([], [])

    def test_folder_without_mate_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="neither mm_"):
            read(tmp_path)

    def test_settings_keep_their_different_questions(self, tmp_path: Path) -> None:
        rows = {"mm_0shot": [row()], "mm_1shot": [row(pointer=("shape", "sphere"), target="size", shots=SHOTS[:1])]}
        samples, _, _ = read(development(tmp_path / "s", rows))
        assert [item["gold"] for item in samples[name_of("B")].data["rows"]] == ["Object_0", 0.351]


class TestPublic:
    def splits(self, **how: Any) -> dict[str, list[dict[str, Any]]]:
        scene = parse_scene(RAW["B"])
        full = build_prompt(scene, RED_NAME, [question("img2txt", ("shape", "sphere"), "name")])
        bare = row("A", "txt2img", NAMED, "color")
        white = row(task="txt2txt", pointer=NAMED, target="rotation")
        shown = row("A", "img2img", ("color", "gray"), "shape")
        return {
            "cross_modal": [public_row(row(), full, **how), public_row(bare, "What color has 'Object_1'?", **how)],
            "unimodal": [
                public_row(white, "Which rotation has Object_1?", **how),
                public_row(shown, "What shape has the gray one?", **how),
            ],
        }

    @pytest.mark.parametrize("spelled", [json.dumps, repr])
    def test_given_prompts_are_used_and_others_are_built(self, tmp_path: Path, spelled: Any) -> None:
        source = public(tmp_path / "s", self.splits(spelled=spelled))
        result = ingest_benchmark(BENCHMARK, Folder(str(source)), Store(str(tmp_path / "d")))
        assert result.rejections == ()
        assert result.manifest.media == 3
        assert any("3 rows hold a question and no prompt" in notice for notice in result.manifest.notices)
        samples = {item.sample_id: item for item in Dataset.open(Store(str(tmp_path / "d")), "mate").samples()}
        prompts_by_sample = {name: prompts(sample) for name, sample in samples.items()}
        shots = ("0-shot", "1-shot", "2-shot")
        assert set(prompts_by_sample[name_of("B")]) == {
            ("img2txt", "1-shot"),
            *(("txt2txt", setting) for setting in shots),
        }
        assert set(prompts_by_sample[name_of("A")]) == {
            *(("txt2img", setting) for setting in (*shots, "2-shot-cot")),
            *(("img2img", setting) for setting in shots),
        }
        for cell_prompts in prompts_by_sample.values():
            for (_, setting), prompt in cell_prompts.items():
                assert count_solved_examples(media_and_text(prompt)[1]) == int(setting[0])
        white = hashlib.sha256(png(WHITE)).hexdigest()
        assert media_and_text(prompts_by_sample[name_of("B")]["txt2txt", "0-shot"])[0].source == white
        assert (
            media_and_text(prompts_by_sample[name_of("A")]["img2img", "0-shot"])[0].source
            == hashlib.sha256(png(f"{name_of('A')}.png")).hexdigest()
        )
        assert {item["pointer"][1] for item in samples[name_of("A")].data["rows"]} == {"Object_1", "gray"}

    def test_missing_picture_costs_the_rows_that_show_it(self, tmp_path: Path) -> None:
        splits = self.splits()
        splits["cross_modal"][0]["image"] = None
        samples, rejections, _ = read(public(tmp_path / "s", splits))
        assert cells(samples[name_of("B")]) == {("txt2txt", setting) for setting in ("0-shot", "1-shot", "2-shot")}
        assert [item.item for item in rejections] == [f"{name_of('B')} img2txt 1-shot"]

    @pytest.mark.parametrize(
        ("field", "value", "reason"),
        [
            ("question", "What is it?", "contains no color"),
            ("answer", "Object_4", "not the object's name"),
            ("scene", "{", "no list of objects"),
            ("id", None, "no example_id or id"),
            ("pointer_attribute", "gloss", "there are color, shape"),
        ],
    )
    def test_bad_row_costs_only_itself(self, tmp_path: Path, field: str, value: Any, reason: str) -> None:
        splits = self.splits()
        splits["cross_modal"][0][field] = value
        samples, rejections, _ = read(public(tmp_path / "s", splits))
        assert set(samples) == {name_of("A"), name_of("B")}
        assert len(rejections) == 1
        assert reason in rejections[0].reason

    def test_a_broken_file_is_named(self, tmp_path: Path) -> None:
        source = public(tmp_path / "s", self.splits())
        (source / "data" / "cross_modal-00000-of-00001.parquet").write_bytes(b"PAR1 no")
        with pytest.raises(SourceError, match=r"cross_modal.*cannot be read as Parquet"):
            read(source)

    def test_a_missing_column_is_named(self, tmp_path: Path) -> None:
        splits = {
            "cross_modal": [
                {key: v for key, v in item.items() if key != "answer"} for item in self.splits()["cross_modal"]
            ]
        }
        with pytest.raises(SourceError, match="no column answer"):
            read(public(tmp_path / "s", splits))


class TestAnswers:
    def ask(self, output: str | None, task: str = "img2txt", setting: str = "0-shot", **more: Any) -> dict[str, float]:
        kinds = {
            "img2txt": row(),
            "txt2img": row(task="txt2img", pointer=NAMED, target="color"),
            "txt2txt": row(task="txt2txt", pointer=NAMED, target="rotation"),
        }
        _, parsed = parse_row(kinds[task], "", setting, tuple(TASKS))
        assert not isinstance(parsed, str), parsed
        sample = Sample(sample_id="x", data={"scene": RAW["B"], "rows": [parsed.as_data()]})
        reading = BENCHMARK.grader.read_answer(
            Row(
                request_id="r",
                sample=sample,
                model="m",
                task=task,
                setting=setting,
                variant="",
                output=output,
                **{"status": "ok", **more},
            )
        )
        return {**reading.values, "_flags": reading.flags, "_rule": reading.rule}  # type: ignore[dict-item]

    def test_right_wrong_and_unread(self) -> None:
        right = self.ask('{"answer": "Object_0"}')
        assert (right["correct"], right["format_ok"], right["in_scene"], right["overlap"]) == (1, 1, 1, 4)
        wrong = self.ask('{"answer": "Object_1"}')
        assert (wrong["correct"], wrong["in_scene"], wrong["overlap"], wrong["closer"]) == (0, 1, 3, 1)
        none = self.ask("Object_0")
        assert (none["correct"], none["format_ok"], none["in_scene"], none["overlap"]) == (0, 0, 0, -1)
        loose = self.ask("{'answer': 'object_0'}")
        assert (loose["correct"], loose["lenient"], loose["format_ok"]) == (0, 1, 0)

    def test_an_empty_output_is_a_wrong_answer_and_a_failure_is_none(self) -> None:
        assert self.ask("")["correct"] == 0
        assert set(self.ask(None, status="error")) == {"_flags", "_rule"}

    def test_a_cut_answer_is_an_answer(self) -> None:
        cut = self.ask('{"answer": "Object_0"} and so', finish_reason="length")
        assert cut["correct"] == 1
        assert cut["_flags"] == ("truncated",)

    def test_overlap_is_reported_for_crossmodal_rows_only(self) -> None:
        assert "overlap" not in self.ask('{"answer": 10.5}', "txt2txt")

    def test_guesses_are_the_scenes_values_or_the_options(self, tmp_path: Path) -> None:
        sized = row(pointer=("shape", "sphere"), target="size")
        samples, _, _ = read(development(tmp_path / "s", {"mm_0shot": [sized, row("A", "txt2img", NAMED, "shape")]}))
        guesses = {name: prompts(as_sample(sample)) for name, sample in samples.items()}
        sizes = Counter(guesses[name_of("B")]["img2txt", "0-shot"].steps[0].choices)
        assert sizes == {'{"answer": 0.7}': 2, '{"answer": 0.351}': 2, '{"answer": 0.35}': 1, '{"answer": 0.701}': 1}
        shapes = guesses[name_of("A")]["txt2img", "0-shot"].steps[0].choices
        assert shapes == tuple(f'{{"answer": "{shape}"}}' for shape in ("cylinder", "sphere", "cone", "cube"))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(row())), JSON, max_size=4))
def test_no_row_breaks_the_reader(changes: dict[str, Any]) -> None:
    item, parsed = parse_row({**row(), **changes}, "line 1", "0-shot", ("img2txt", "txt2img"))
    assert item == "line 1" or isinstance(changes.get("example_id", ""), str)
    assert parsed
