"""V-FLUTE: decide whether a picture entails or contradicts a caption, one of them figurative, and explain why.

Paper: Saakyan et al., "Understanding Figurative Meaning through Explainable Visual Entailment", NAACL 2025,
arXiv 2405.01474. Data: huggingface.co/datasets/ColumbiaNLP/V-FLUTE, github.com/asaakyan/V-FLUTE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from models.messages import Generation
from pipelines.benchmarks.base import Benchmark
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import HumanBaseline
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import (
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
from pipelines.benchmarks.vflute.explanation_score import read_row, similarity_of
from pipelines.benchmarks.vflute.facts import SETTINGS, TASK
from pipelines.benchmarks.vflute.prompts import GENERATION, TEXTS, build_prompt
from pipelines.benchmarks.vflute.source import read_vflute

if TYPE_CHECKING:
    import pandas as pd


class Vflute(Benchmark):
    """The benchmark V-FLUTE."""

    name = "vflute"
    version = "1"
    title = "V-FLUTE"
    source = "arXiv 2405.01474; huggingface.co/datasets/ColumbiaNLP/V-FLUTE, github.com/asaakyan/V-FLUTE"
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {TASK: SETTINGS}
    headline = "f1_at_0"
    beside_headline = ("f1_at_53", "f1_at_60", "label_f1", "accuracy")
    descriptive_values = ("label", "label_robust")
    prompt_texts: ClassVar[Mapping[str, str]] = TEXTS
    default_scorers: ClassVar[Mapping[str, str]] = {
        "bertscore": "microsoft/deberta-xlarge-mnli:40",
        "bleurt": "lucadiliello/BLEURT-20",
    }

    def read(
        self, source: Source, *, column_map: Mapping[str, str] | None = None
    ) -> Iterator[RawSample | Rejection | Notice]:
        """Read `vflute-v2-test.json` or `.csv` with picture files, `data/test-*.parquet`, or both joined by id."""
        del column_map
        return read_vflute(source)

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
        """Yield one request a sample; with a scene graph it has two steps."""
        del task, seed, captions
        yield build_prompt(sample, setting, texts)

    def generation(self, task: str, setting: str) -> Generation:
        """Return beam search over three beams with 256 new tokens."""
        del task, setting
        return GENERATION

    def read_answer(self, row: Row) -> Reading:
        """Parse the label under both parsers, and score the explanation."""
        return read_row(row)

    def similarity(self, row: Row) -> Sequence[SimilarityAsk]:
        """Request BERTScore and BLEURT of the explanation against the reference."""
        return similarity_of(row)

    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """Compute all metrics of one model."""
        from pipelines.benchmarks.vflute.metrics import reduce_vflute

        return reduce_vflute(scores, samples)

    def tables(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
        """Build tables 1, 3, 4, 6, 7, 17, 18 and appendix J of the paper, and extra ones."""
        from pipelines.benchmarks.vflute.tables import vflute_tables

        return vflute_tables(metrics, published)

    def figures(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Figure]:
        """Build figures 6, 8, 9 and 11."""
        from pipelines.benchmarks.vflute.figures import vflute_figures

        return vflute_figures(metrics, published)

    def paired_tests(
        self, a: pd.DataFrame, b: pd.DataFrame, setting: str, samples: Mapping[str, Sample]
    ) -> list[PairedTest]:
        """Test F1 of labels and at the thresholds, by Koehn's test."""
        from pipelines.benchmarks.vflute.aggregate import koehn_tests

        return koehn_tests(a, b, setting, samples)

    def people(self) -> HumanBaseline:
        """Return the human baseline."""
        from pipelines.benchmarks.vflute.human import PEOPLE

        return PEOPLE


BENCHMARK = Vflute()
