"""A whole sixth benchmark in one file: sums, asked in words or shown as a picture. Tests lay it beside the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from models.messages import Generation, Media, Step, user
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import MediaFile, Metric, Notice, Prompt, RawSample, Reading, Rejection, Row, Sample
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.tables import Table
from pipelines.errors import SourceError

if TYPE_CHECKING:
    import pandas as pd


class Toy(Benchmark):
    """See the module's docstring."""

    name = "toy"
    version = "1"
    title = "Toy sums"
    source = "made up for a test"
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {"sum": ("words", "picture")}
    headline = "accuracy"
    prompt_texts: ClassVar[Mapping[str, str]] = {"toy-v1": "How much is {sum}? Answer with a number."}

    def read(
        self, source: Source, *, column_map: Mapping[str, str] | None = None
    ) -> Iterator[RawSample | Rejection | Notice]:
        """Lines of `sums.jsonl`."""
        del column_map
        if not source.exists("sums.jsonl"):
            raise SourceError(f"{source.uri}: no sums.jsonl")
        for number, line in enumerate(source.read_bytes("sums.jsonl").splitlines()):
            row = json.loads(line)
            if not isinstance(row.get("answer"), int):
                yield Rejection(file="sums.jsonl", item=f"line {number + 1}", reason="`answer` is no number")
                continue
            picture = MediaFile(role="picture", kind="image", path=row["picture"])
            yield RawSample(sample_id=row["id"], file="sums.jsonl", media=(picture,), data=row)

    def prompts(
        self,
        sample: Sample,
        task: str,
        setting: str,
        *,
        texts: PromptTexts,
        seed: int,
        captions: Mapping[str, str] | None = None,
    ) -> Iterator[Prompt]:
        """One request a sum."""
        del task, seed, captions
        ref = sample.ref("picture")
        assert ref is not None
        parts: list[Any] = [Media("image", ref.sha256)] if setting == "picture" else []
        words = texts.fill("toy-v1", sum=sample.data["sum"])
        step = Step(turns=(user(*parts, words),), generation=Generation(max_new_tokens=8), choices=("1", "2"))
        yield Prompt(version=texts.version("toy-v1"), steps=(step,))

    def read_answer(self, row: Row) -> Reading:
        """The number."""
        if row.status != "ok":
            return Reading(answer=None, rule=row.status)
        output = (row.output or "").strip()
        return Reading(answer=output, rule="text", values={"correct": float(output == str(row.sample.data["answer"]))})

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """Accuracy by setting."""
        del samples
        return [
            Metric(
                task="sum",
                setting=str(setting),
                metric="accuracy",
                value=float(rows["correct"].mean()),
                n=len(rows),
            )
            for setting, rows in scores[scores["status"] == "ok"].groupby("setting")
        ]

    def tables(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
        """None of a paper's."""
        del metrics, published
        return []


BENCHMARK = Toy()
