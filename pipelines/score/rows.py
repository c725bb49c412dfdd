"""Predictions joined with their samples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Row, Sample
from pipelines.ingest.dataset import Dataset
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store


@dataclass(frozen=True, kw_only=True)
class ScoringContext:
    """What a prediction needs beside itself to be read: its sample, the wording and the seed of its sweep."""

    dataset: Dataset
    texts: PromptTexts
    seed: int

    @classmethod
    def from_json(cls, data: str, benchmark_name: str, prompts: str, seed: int) -> ScoringContext:
        """Open one benchmark's data.

        Args:
            data: URI of canonical data.
            benchmark_name: which benchmark.
            prompts: JSON list of two mappings: the user's own wording, versions used in place of others.
            seed: the sweep's seed.
        """
        overrides, instead = json.loads(prompts)
        texts = PromptTexts(benchmark(benchmark_name).prompt_texts, overrides, instead)
        return cls(dataset=Dataset.open(Store(data), benchmark_name), texts=texts, seed=seed)

    @cached_property
    def samples(self) -> Mapping[str, Sample]:
        """All samples by id."""
        return {sample.sample_id: sample for sample in self.dataset.samples()}


def rows_of(out: Store, path: str, context: ScoringContext) -> Iterator[Row]:
    """The rows of one prediction part whose samples are in the dataset as it is now."""
    fingerprint = context.dataset.manifest.dataset_fingerprint
    for raw in read_part(out, path).to_pylist():
        if raw["dataset_fingerprint"] == fingerprint:
            yield row_from(raw, context)


def row_from(raw: Mapping[str, Any], context: ScoringContext) -> Row:
    """One row of PREDICTIONS with its sample."""
    return Row(
        request_id=raw["request_id"],
        sample=context.samples[raw["sample_id"]],
        model=raw["model"],
        task=raw["task"],
        setting=raw["setting"],
        variant=raw["variant"],
        status=raw["status"],
        output=raw["output"],
        finish_reason=raw["finish_reason"] or "",
        steps=tuple(raw["steps"] or ()),
        given=dict(raw["given"] or ()),
        seed=context.seed,
    )
