"""Samples of MATE as its reader returns them, and their prompts."""

from pathlib import Path
from typing import Any

from models.messages import Media, Text
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.mate.benchmark import BENCHMARK
from pipelines.benchmarks.mate.source import read_mate
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import MediaRef, Prompt, RawSample, Rejection, Sample, SourceWarning
from pipelines.ingest.source_folder import Folder
from tests.support.mate_source import row

TEXTS = PromptTexts(BENCHMARK.prompt_texts)
SHOTS = (("color", "blue"), ("shape", "sphere"))
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
        [item.message for item in results if isinstance(item, SourceWarning)],
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
            for prompt in BENCHMARK.prompts(PromptInput(sample, task, setting, texts=TEXTS, seed=42)):
                assert (task, setting) not in results
                results[task, setting] = prompt
    return results


def media_and_text(prompt: Prompt) -> tuple[Media, str]:
    ((turn,),) = (step.turns for step in prompt.steps)
    picture, text = turn.parts
    assert isinstance(picture, Media)
    assert isinstance(text, Text)
    return picture, text.text
