"""Closed questions of the sample data, so that the model answers in their form where it can only guess."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jobs.demo.main import BENCHMARKS, write_sample
from models.messages import Step, Text
from pipelines.benchmarks import benchmark
from pipelines.benchmarks.base import PromptInput
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.ingest.dataset import Dataset
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.plan.selection import selected_groups
from pipelines.storage.store import Store

_LONGEST: Final = 700
"""Characters of a prompt, so that training stays short."""


def closed_questions(folder: Path, seed: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return (prompt, choices) of short requests of one step that have choices; data are written to `folder`.

    MATE's are left out: guessed answers would teach the model not to look.
    """
    data = Store(str(folder / "data"))
    questions: dict[str, tuple[str, ...]] = {}
    for name in BENCHMARKS:
        if name == "mate":
            continue
        definition = benchmark(name)
        ingest_benchmark(definition, Folder(str(write_sample(name, folder))), data)
        dataset = Dataset.open(data, name)
        texts = PromptTexts(definition.prompt_texts, {}, {})
        for shard in dataset.manifest.shards:
            for sample in dataset.read_shard(shard.path):
                for cell in selected_groups(definition, [], []):
                    query = PromptInput(sample, cell.task, cell.setting, texts, seed, None)
                    for prompt in definition.prompts(query):
                        if len(prompt.steps) != 1 or not prompt.steps[0].choices:
                            continue
                        text = "".join(_texts(prompt.steps[0]))
                        if len(text) <= _LONGEST:
                            questions[text] = prompt.steps[0].choices
    return list(questions.items())


def _texts(step: Step) -> Iterator[str]:
    for turn in step.turns:
        yield from (part.text for part in turn.parts if isinstance(part, Text))
