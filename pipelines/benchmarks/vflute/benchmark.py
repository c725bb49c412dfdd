"""V-FLUTE: decide whether a picture entails or contradicts a caption, one of them figurative, and explain why.

Paper: Saakyan et al., "Understanding Figurative Meaning through Explainable Visual Entailment", NAACL 2025,
arXiv 2405.01474. Data: huggingface.co/datasets/ColumbiaNLP/V-FLUTE, github.com/asaakyan/V-FLUTE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pipelines.benchmarks.base import BenchmarkDefinition, PackageReporter, PromptInput, lazy_part
from pipelines.benchmarks.records import (
    Notice,
    Prompt,
    Publication,
    RawSample,
    Reading,
    Rejection,
    Row,
    SimilarityRequest,
    Source,
)
from pipelines.benchmarks.vflute.explanation_score import read_row, similarity_of
from pipelines.benchmarks.vflute.facts import FULL_TEST, PUBLISHED_SETTINGS, REPORTED_THRESHOLDS, SETTINGS, TASK
from pipelines.benchmarks.vflute.people.authors_files import READER
from pipelines.benchmarks.vflute.prompts import PROMPT_SETS, TEXTS, build_prompt
from pipelines.benchmarks.vflute.source import read_vflute


class _Vflute:
    """Source, prompter and grader of V-FLUTE."""

    def read(self, source: Source, _column_map: Mapping[str, str], /) -> Iterator[RawSample | Rejection | Notice]:
        """Read `vflute-v2-test.json` or `.csv` with picture files, `data/test-*.parquet`, or both joined by id."""
        return read_vflute(source)

    def prompts(self, query: PromptInput, /) -> Iterator[Prompt]:
        """Yield one request a sample; with a scene graph it has two steps."""
        yield build_prompt(query.sample, query.setting, query.texts)

    def read_answer(self, row: Row) -> Reading:
        """Parse the label under both parsers, and score the explanation."""
        return read_row(row)

    def expected(self, row: Row) -> Sequence[str]:
        """Return the label."""
        return (row.sample.data["label"],)

    def similarity(self, row: Row) -> Sequence[SimilarityRequest]:
        """Request BERTScore and BLEURT of the explanation against the reference."""
        return similarity_of(row)


_PARTS: Final = _Vflute()
BENCHMARK: Final = BenchmarkDefinition(
    name="vflute",
    version="1",
    title="V-FLUTE",
    citation="arXiv 2405.01474; huggingface.co/datasets/ColumbiaNLP/V-FLUTE, github.com/asaakyan/V-FLUTE",
    tasks={TASK: SETTINGS},
    headline="label_f1",
    corpus_metrics=("label_f1", "f1_at_0", "f1_at_53", "f1_at_60"),
    headline_at=(TASK, "zero-shot"),
    printed_headline="f1_at_0",
    measure="Macro F1 of the labels entailment and contradiction, whatever the explanation is worth. Higher is better.",
    secondary_metrics=("f1_at_0", "f1_at_53", "f1_at_60", "accuracy"),
    descriptive_values=("label", "label_robust"),
    publication=Publication(
        settings={"": "zero-shot", **PUBLISHED_SETTINGS},
        requests={TASK: FULL_TEST},
        other_items={"Table 7": "99 test rows whose ids are not published"},
        scorers={f"f1_at_{k}": ("bertscore", "bleurt") for k in REPORTED_THRESHOLDS},
        other_prompts=("vflute-instruction-own-v1",),
    ),
    prompt_texts=TEXTS,
    prompt_sets=PROMPT_SETS,
    default_scorers={
        "bertscore": "microsoft/deberta-xlarge-mnli:40",
        "bleurt": "lucadiliello/BLEURT-20",
    },
    source=_PARTS,
    prompter=_PARTS,
    grader=_PARTS,
    reporter=PackageReporter(__package__),
    similarity=_PARTS.similarity,
    expected=_PARTS.expected,
    predictions_reader=READER,
    paired_metrics=lazy_part("pipelines.benchmarks.vflute.metrics:paired_metrics"),
    human=lazy_part("pipelines.benchmarks.vflute.people.human:HUMAN_BASELINE"),
    item_lists=lazy_part("pipelines.benchmarks.vflute.item_lists:item_lists"),
    annotation_form=lazy_part("pipelines.benchmarks.vflute.people.annotation:annotation_form"),
)
