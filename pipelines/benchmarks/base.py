"""What a benchmark is to the rest of the pipeline: one subclass of `Benchmark` in one file.

A benchmark says what is asked, how answers are read and what is right. It never names a model, touches a cluster, or
opens a store: samples come in as records, prompts and verdicts go out as records. The file is long because it is the
whole of that interface, and most of it says what each part means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from models.messages import Generation, Step
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import (
    JudgeAsk,
    Metric,
    Notice,
    PairedTest,
    Prompt,
    RawSample,
    Reading,
    Rejection,
    Row,
    Sample,
    SimilarityAsk,
)
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.tables import Table

if TYPE_CHECKING:
    import pandas as pd


class Benchmark(ABC):
    """One benchmark, stateless. Subclasses are found by their module's `BENCHMARK` attribute."""

    name: ClassVar[str]
    version: ClassVar[str]
    """Rises when reading or scoring changes meaning."""
    title: ClassVar[str]
    source: ClassVar[str]
    """Where the benchmark comes from: paper and data."""
    tasks: ClassVar[Mapping[str, tuple[str, ...]]]
    """Task -> settings."""
    named_only: ClassVar[tuple[str, ...]] = ()
    """Settings that run only where `--settings` names them: not every model can be asked so."""
    derived_tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Tasks that ask nothing of their own: name -> the tasks they are computed from."""
    headline: ClassVar[str]
    """The metric that stands first; higher is better."""
    beside_headline: ClassVar[tuple[str, ...]] = ()
    """Metrics shown beside it at the end of a run."""
    prompt_texts: ClassVar[Mapping[str, str]]
    """Wording by version name."""
    default_scorers: ClassVar[Mapping[str, str]] = {}
    """Scorer kind -> `model[:layer]`."""

    descriptive_values: ClassVar[tuple[str, ...]] = ()
    """Values of `Reading` that describe a row and judge nothing; comparisons leave them out."""
    content_field: ClassVar[str] = ""
    """Where ids are places in a file: the field of a sample's data by which a later ingest sees that a place holds
    something else now; '' where ids name their content."""
    column_map_names: ClassVar[tuple[str, ...]] = ()
    """Our names that `--column-map` may give the source's names for; none: the flag is refused."""

    @abstractmethod
    def read(
        self, source: Source, *, column_map: Mapping[str, str] | None = None
    ) -> Iterator[RawSample | Rejection | Notice]:
        """Read the benchmark as distributed, row by row.

        Args:
            source: the folder.
            column_map: our name -> the source's path, where it is not the usual one.

        Raises:
            SourceError: the folder holds no data of this benchmark.
        """

    @abstractmethod
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
        """The requests of one sample in one cell, in the order of their variants.

        Args:
            sample: whose.
            task: one of `tasks`.
            setting: one of the task's settings.
            texts: the wording.
            seed: the sweep's seed.
            captions: what the sweep's captioner said, by picture hash; None when it has none.
        """

    @abstractmethod
    def read_answer(self, row: Row) -> Reading:
        """Read one prediction. Called for rows of every status; an error row gets no value it did not earn."""

    @abstractmethod
    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """All metrics of one model.

        Args:
            scores: one row a request of the plan: sample_id, task, setting, variant, subset, category, cluster, status
                (`ok`, `error`, `excluded`, or `missing` when it was never run), answer, rule, flags, finish_reason,
                verdict_state, and a float column a value (NaN where there is none).
            samples: by id, for references.
        """

    def reduce_together(
        self, scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample]
    ) -> Mapping[str, list[Metric]]:
        """Metrics that several models make together, by the name under which they are shown.

        Args:
            scores: by model; each as `reduce` gets them.
            samples: by id.
        """
        del scores, samples
        return {}

    def caption(self, sample: Sample, setting: str, texts: PromptTexts) -> Sequence[Step]:
        """What the sweep's captioner is asked about this sample's pictures under a setting; one picture a step."""
        del sample, setting, texts
        return ()

    def similarity(self, row: Row) -> Sequence[SimilarityAsk]:
        """Text comparisons that this row needs from scorer models."""
        del row
        return ()

    def judge(self, row: Row, texts: PromptTexts) -> JudgeAsk | bool | None:
        """The question to the judge about this row; a bool where a rule decides without asking; None for no need."""
        del row, texts
        return None

    def read_verdict(self, text: str) -> bool | None:
        """Read the judge's reply; None when it cannot be read."""
        raise NotImplementedError(f"{self.name} asks no judge: {text[:20]!r}")

    def tables(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
        """Tables in the paper's layout from the rows of metrics.json (columns as there) and of the published CSV."""
        del metrics, published
        return []

    def figures(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Figure]:
        """Figures of the paper from the same rows."""
        del metrics, published
        return []

    def paired_tests(
        self, a: pd.DataFrame, b: pd.DataFrame, setting: str, samples: Mapping[str, Sample]
    ) -> list[PairedTest]:
        """Metrics that are no mean over rows, compared on the same rows of one setting.

        Args:
            a: scores of the first, as `reduce` takes them, in the order of `b`.
            b: scores of the second.
            setting: of both.
            samples: by id.
        """
        del a, b, setting, samples
        return []

    def people(self) -> HumanBaseline:
        """What is known of people on this benchmark: human figures, and files of people's own work."""
        return HumanBaseline()

    def generation(self, task: str, setting: str) -> Generation:
        """The page's generation settings, which a model's own `generation` overrides."""
        del task, setting
        return Generation()
