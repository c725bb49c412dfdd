"""MATE: the requests built from its samples, and how answers are scored."""

from collections import Counter
from pathlib import Path
from typing import Any

from models.messages import Media, Text
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.mate.benchmark import BENCHMARK, BLACK_PICTURE, WHITE_PICTURE
from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.scene import TASKS, parse_scene
from pipelines.benchmarks.mate.source import parse_row
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Sample
from tests.support.mate_samples import NAMED, as_sample, files, media_and_text, prompts, read
from tests.support.mate_source import RAW, WHITE, development, name_of, question, row
from tests.support.sweeps import answered_row


class TestPrompts:
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
        (prompt,) = BENCHMARK.prompts(PromptInput(sample, "txt2img", "0-shot", texts, 1))
        assert prompt.version == "mate-built-paper"
        ((_, text),) = (turn.parts for turn in prompt.steps[0].turns)
        assert text == Text(build_prompt(parse_scene(RAW["B"]), question("txt2img", NAMED, "color"), wording="paper"))

    def test_set_black_replaces_the_white_picture_and_nothing_else(self, tmp_path: Path) -> None:
        text_only = row("B", "txt2txt", NAMED, "rotation", input_str=None)
        files = {"mm_0shot": [row("B", "txt2img", NAMED, "color")], "um_0shot": [text_only]}
        samples, _, _ = read(development(tmp_path / "s", files, [f"{name_of('B')}.png"]))
        sample = as_sample(samples[name_of("B")])
        default, black = (
            PromptTexts(BENCHMARK.prompt_texts, instead=instead) for instead in ({}, BENCHMARK.prompt_sets["black"])
        )
        prompts_of = {
            task: [
                prompt
                for texts in (default, black)
                for prompt in BENCHMARK.prompts(PromptInput(sample, task, "0-shot", texts, 1))
            ]
            for task in ("txt2img", "txt2txt")
        }
        assert prompts_of["txt2img"][0] == prompts_of["txt2img"][1]
        white_prompt, black_prompt = prompts_of["txt2txt"]
        assert (white_prompt.version, black_prompt.version) == ("mate-built-v1", "mate-built-v1-black")
        pictures, texts_of = zip(*(prompt.steps[0].turns[0].parts for prompt in prompts_of["txt2txt"]), strict=True)
        assert pictures == (WHITE_PICTURE, BLACK_PICTURE)
        assert texts_of[0] == texts_of[1]


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
        reading = BENCHMARK.reading(answered_row(sample, task, setting, output, **more))
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
        assert set(self.ask(None)) == {"_flags", "_rule"}

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
