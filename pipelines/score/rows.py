"""Predictions joined with their samples."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from pipelines.benchmarks.human import OutputKey
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Row, Sample, split_variant
from pipelines.benchmarks.replies.cleaning import clean_reply
from pipelines.ingest.dataset import Dataset, SampleReader
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.stopping.until import STOPPED
from pipelines.plan.stress.conditions import asked_sample
from pipelines.storage.store import Store


@dataclass(frozen=True, kw_only=True)
class ScoringContext:
    """The inputs that score the predictions of one benchmark: their samples, the wording and the seed of the sweep."""

    dataset: Dataset
    prompts: PromptPlan
    labelled: Collection[OutputKey] = ()  # the outputs that people labelled

    @classmethod
    def open(cls, data_uri: str, prompts: PromptPlan, out: Store | None = None, dataset: Dataset | None = None) -> Self:
        """Open the data of a plan's benchmark, if not given, and people's labels in `out`; as `Dataset.open`."""
        name = prompts.benchmark_name
        human = prompts.benchmark.human
        labelled = human.labelled(load_human_files(out, name)) if out and human.label_kind else ()
        return cls(dataset=dataset or Dataset.open(Store(data_uri), name), prompts=prompts, labelled=labelled)

    @property
    def texts(self) -> PromptTexts:
        """The wording."""
        return self.prompts.texts

    @cached_property
    def samples(self) -> Mapping[str, Sample]:
        """All samples by id."""
        return {sample.sample_id: sample for sample in self.dataset.samples()}

    @cached_property
    def sample_reader(self) -> SampleReader:
        """Reads the samples of a part: all of them may be larger than memory."""
        return SampleReader(self.dataset)


def rows_of(part: pa.Table, context: ScoringContext) -> Iterator[Row]:
    """Yield the rows of a prediction part that are about the dataset as it is now."""
    fingerprint = context.dataset.manifest.dataset_fingerprint
    predictions = [raw for raw in part.to_pylist() if raw["dataset_fingerprint"] == fingerprint]
    samples = context.sample_reader.read({raw["sample_id"] for raw in predictions})
    return (row_of(raw, samples[raw["sample_id"]], context) for raw in predictions)


def row_of(raw: Mapping[str, Any], sample: Sample, context: ScoringContext) -> Row:
    """Return one stored prediction with its sample."""
    key = (raw["model"], raw["task"], raw["setting"], raw["sample_id"], raw["variant"])
    variant, repeat = split_variant(raw["variant"])
    row = Row(
        request_id=raw["request_id"],
        sample=asked_sample(
            context.prompts.benchmark,
            sample,
            raw["prompt_version"] or "",
            context.prompts.seed,
        ),
        model=raw["model"],
        task=raw["task"],
        setting=raw["setting"],
        variant=variant,
        repeat=repeat,
        is_stopped=raw["status"] == "excluded" and raw["error"] == STOPPED,
        status=raw["status"],
        output=raw["output"],
        finish_reason=raw["finish_reason"] or "",
        steps=tuple(raw["steps"] or ()),
        given=dict(raw["given"] or ()),
        is_labelled=key in context.labelled,
        seed=context.prompts.seed,
    )
    if row.output is None:
        return row
    read = context.prompts.benchmark.reading
    output, dropped = clean_reply(row.output, lambda text: read(replace(row, output=text)).answer is not None)
    return replace(row, output=output, dropped=dropped)
