"""A whole sixth benchmark in one file: sums, as text or as a picture. Tests install it beside the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from models.messages import Generation, Media, Step, user
from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
from pipelines.benchmarks.records import MediaFile, Prompt, RawSample, Reading, Rejection, Row, Source, SourceWarning
from pipelines.errors import SourceError


def read_source(source: Source, _column_map: Mapping[str, str]) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read the lines of `sums.jsonl`."""
    if not source.exists("sums.jsonl"):
        raise SourceError(f"{source.uri}: no sums.jsonl")
    for number, line in enumerate(source.read_bytes("sums.jsonl").splitlines()):
        row = json.loads(line)
        if not isinstance(row.get("answer"), int):
            yield Rejection(file="sums.jsonl", item=f"line {number + 1}", reason="`answer` is no number")
            continue
        picture = MediaFile(role="picture", kind="image", path=row["picture"])
        yield RawSample(sample_id=row["id"], file="sums.jsonl", media=(picture,), data=row)


def prompts(query: PromptInput) -> Iterator[Prompt]:
    """Yield one request a sum."""
    ref = query.sample.ref("picture")
    assert ref is not None
    parts: list[Any] = [Media("image", ref.sha256)] if query.setting == "picture" else []
    text = query.texts.fill("toy-v1", sum=query.sample.data["sum"])
    step = Step(turns=(user(*parts, text),), generation=Generation(max_new_tokens=8), choices=("1", "2"))
    yield Prompt(version=query.texts.version("toy-v1"), steps=(step,))


def read_answer(row: Row) -> Reading:
    """Read the number."""
    answer = (row.output or "").strip()
    return Reading(answer=answer, rule="text", values={"correct": float(answer == str(row.sample.data["answer"]))})


BENCHMARK = BenchmarkDefinition(
    name="toy",
    version="1",
    title="Toy sums",
    citation="made up for a test",
    tasks={"sum": ("words", "picture")},
    prompt_texts={"toy-v1": "How much is {sum}? Answer with a number."},
    source=read_source,
    prompts=prompts,
    read=read_answer,
)
