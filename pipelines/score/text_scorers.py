"""Text-similarity models of a sweep, and the rows that they score."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from models.engines.hub import cached_folder
from models.environment import hub_address
from models.shell.connections import REQUESTS, connection_problem, hub_problem
from pipelines.benchmarks.human import OutputKey
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import Row, Sample, split_variant
from pipelines.benchmarks.replies.cleaning import clean_reply
from pipelines.ingest.dataset import Dataset, SampleReader
from pipelines.ingest.human_files import load_human_files
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.run_spec import ScorerSpec
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
    return replace(row, output=output, dropped=dropped, raw=row.output if dropped else None)


HUB_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class TextScorer:
    """A text-similarity model, loaded."""

    score: Callable[[Sequence[str], Sequence[str]], list[float]]  # of candidates and references in pairs

    def best(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """Return for each candidate its best score over its references."""
        pairs = [(text, reference) for text, texts in zip(candidates, references, strict=True) for reference in texts]
        scores = iter(self.score([text for text, _ in pairs], [reference for _, reference in pairs]))
        return [max(next(scores) for _ in texts) for texts in references]


def build_scorer(spec: ScorerSpec, device: str) -> TextScorer:
    """Load a scorer model; ScorerUnavailableError if that fails."""
    if spec.kind == "bleurt":
        from pipelines.metrics.bleurt import BleurtScorer

        bleurt = BleurtScorer(spec.model, device=device, revision=spec.loaded_revision)
        return TextScorer(lambda candidates, references: bleurt.score(references, candidates))
    from pipelines.metrics.bertscore import BertScorer

    return TextScorer(BertScorer(spec.model, spec.layer, device=device, revision=spec.loaded_revision).score)


def is_available(spec: ScorerSpec) -> bool:
    """Return whether a scorer's files are local or the hub answers (see `look_for`)."""
    from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

    try:
        look_for(spec)
    except ScorerUnavailableError:
        return False
    return True


def look_for(spec: ScorerSpec) -> ScorerSpec:
    """Return the spec of a scorer whose files are local, or whose hub answers: the library would try for long.

    Raises:
        ScorerUnavailableError: neither.
    """
    import requests

    from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError

    if Path(spec.model).is_dir() or cached_folder(spec.model, spec.loaded_revision):
        return spec
    address = hub_address()
    problem = hub_problem() or connection_problem(REQUESTS, address)
    if not problem:
        try:
            requests.head(address, timeout=HUB_TIMEOUT_S)
        except requests.RequestException as error:
            problem = type(error).__name__
    if problem:
        raise ScorerUnavailableError(
            spec.model,
            f"it is no folder, not in the cache, and the hub does not answer ({problem}).",
            "Name a local folder with --scorer, or fetch the model into the cache first.",
        )
    return spec
