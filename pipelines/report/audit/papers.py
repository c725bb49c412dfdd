"""The rules of each paper (`pipelines.benchmarks.published` names them), and their audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from models.catalog_loader import load_models
from models.errors import suggest
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.errors import UsageError
from pipelines.report.audit.cells import Cells
from pipelines.report.audit.checks import audit_paper
from pipelines.report.audit.paper import Finding, Paper
from pipelines.report.audit.rules import (
    AtMost,
    Change,
    FactModels,
    FactSum,
    Granularity,
    Mean,
    Order,
    OtherItems,
    Rule,
    Share,
    Sum,
    Unbounded,
)

_MAIA: Final[tuple[Rule, ...]] = (
    Mean(metrics=("pool_accuracy", "statement_accuracy", "oevqa_accuracy", "agg_acc"), dimension="category", whole=""),
    AtMost(lower="pool_accuracy", upper="statement_accuracy"),
    AtMost(lower="agg_acc", upper="pool_accuracy", upper_task="vsv"),
    AtMost(lower="agg_acc", upper="oevqa_accuracy", upper_task="oevqa"),
    Unbounded(metrics=("cider",)),
)

_ITEMS: Final = {"VCR": 1144, "Ego4D": 533, "": 1677, "human-400": 400}
_ERRORS: Final = ("count_fs", "count_su", "count_ne")
_SUBSETS: Final = ("VCR", "Ego4D")

_VAGUE: Final[tuple[Rule, ...]] = (
    Share(metric="accuracy", count="count_correct", items=_ITEMS),
    Change(metric="delta_vs_lm", of="accuracy", baselines={"sm": "lm", "vlm": "lm"}),
    Change(metric="cot_delta", of="accuracy", baselines={"sm-cot": "sm", "vlm-cot": "vlm"}),
    Sum(dimension="metric", parts=(*_ERRORS, "count_correct"), whole="valid_count"),
    Sum(dimension="metric", parts=(*_ERRORS, "count_correct"), whole=400, where={"table": "Table 2"}),
    Sum(dimension="subset", metrics=_ERRORS, parts=_SUBSETS, whole=""),
    Mean(
        metrics=("accuracy",),
        dimension="subset",
        whole="",
        parts=_SUBSETS,
        weights=tuple(_ITEMS[name] for name in _SUBSETS),
    ),
    FactSum(whole="items_total", parts=("items_vcr", "items_ego4d")),
)

_SOURCES: Final = ("HAIVMET", "IRFL (metaphor/simile)", "IRFL (idiom)", "MuSE", "MemeCap", "NYCartoons")
_SPLITS: Final = ("train", "valid", "test")

_VFLUTE: Final[tuple[Rule, ...]] = (
    AtMost(lower="f1_at_53", upper="f1_at_0"),
    AtMost(lower="f1_at_60", upper="f1_at_53"),
    OtherItems(tables=("Table 7",)),
    FactSum(whole="instances_total", parts=tuple(f"instances/{name}" for name in _SOURCES)),
    FactSum(whole="instances_total", parts=tuple(f"{split}/Total" for split in _SPLITS)),
    *(FactSum(whole=f"{split}/Total", parts=tuple(f"{split}/{name}" for name in _SOURCES)) for split in _SPLITS),
    *(FactSum(whole=f"instances/{name}", parts=(f"entailment/{name}", f"contradiction/{name}")) for name in _SOURCES),
    *(FactSum(whole=f"instances/{name}", parts=tuple(f"{split}/{name}" for split in _SPLITS)) for name in _SOURCES),
)

_MATE: Final[tuple[Rule, ...]] = (
    Mean(metrics=("exact_match",), dimension="task", whole="crossmodal", parts=("img2txt", "txt2img")),
    Mean(metrics=("exact_match",), dimension="task", whole="unimodal", parts=("img2img", "txt2txt")),
    Change(metric="cot_delta", of="exact_match", baselines={"2-shot-cot": "2-shot"}),
    FactModels(fact="models_evaluated", table="Table 8", excluded_rows=("Human", "Random")),
)

_KINDS: Final = ("Homo", "Hetero")
_ALIKE: Final = ("bertscore", "win_rate")

_UNPIE: Final[tuple[Rule, ...]] = (
    Mean(
        metrics=("accuracy", "correct_pct", "delta_vs_lm", "bleu4", "meteor"),
        dimension="category",
        whole="All",
        parts=_KINDS,
    ),
    Mean(metrics=_ALIKE, dimension="subset", whole="average of De/Fr/Ko", parts=("De", "Fr", "Ko")),
    *(
        Change(metric="delta_vs_lm", of=metric, baselines={"sm": "lm", "vlm": "lm"})
        for metric in ("exact_match", "correct_pct")
    ),
    Sum(dimension="model", metrics=("win_rate",), parts=("Plain translation", "Pun-aware translation"), whole=1),
    Order(wins="win_rate", score="bertscore"),
    Granularity(metrics=("exact_match",), n=500, where={"table": "Table 4"}),
    Granularity(metrics=("accuracy",), n=100, where={"table": "Table 8"}),
)

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "maia": _MAIA,
    "vague": _VAGUE,
    "vflute": _VFLUTE,
    "mate": _MATE,
    "unpie": _UNPIE,
}
"""Rules by benchmark; ranges, repeated rows and cells that are printed twice are checked in every paper."""


def papers() -> tuple[str, ...]:
    """Return the benchmarks with published numbers, under whose names their papers are audited."""
    return tuple(name for name in benchmark_names() if benchmark(name).published)


def audit(names: Sequence[str] = ()) -> tuple[list[Finding], dict[str, int]]:
    """Return the findings in the papers of these benchmarks, and how many numbers of each were checked.

    Without names all papers; UsageError for one that is not there. Case and hyphens of names do not count.
    """
    known_names = papers()
    chosen = [name.lower().replace("-", "") for name in names]
    for name, given_name in zip(chosen, names, strict=True):
        if name not in known_names:
            raise UsageError(f"no published tables of {given_name!r}{suggest(given_name, known_names)}")
    checked = {name: load_paper(name) for name in chosen or known_names}
    findings = [finding for paper in checked.values() for finding in audit_paper(paper)]
    return findings, {name: len(paper.cells.cells) for name, paper in checked.items()}


def load_paper(name: str) -> Paper:
    """Return the printed numbers of one paper with its rules."""
    rules = RULES.get(name, ())
    tables = tuple(table for rule in rules if isinstance(rule, OtherItems) for table in rule.tables)
    aliases = {
        printed.name: model
        for model, spec in load_models().items()
        for printed in spec.published_as
        if printed.benchmark == name
    }
    return Paper(name, Cells(benchmark(name).published, aliases, tables), load_dataset_facts(name), rules)
