"""People's judgements of models' explanations on V-FLUTE: Table 6, section 5.3 and figure 7 from a CSV file.

Columns `id,system,annotator,adequate,error_type,preferred`: adequate and preferred are 0 or 1, and an explanation that
is not adequate has one of four errors. Two annotators judge every explanation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipelines.benchmarks.figures import Bars, Cloud, Figure, Points, Series
from pipelines.benchmarks.human import HumanKind, HumanRow
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.metrics.agreement import cohen_kappa
from pipelines.metrics.f1 import PrecisionRecall, precision_recall, precision_recall_curve

ERRORS: Final = {
    "hallucination": "Hallucination: it names what is not in the picture",
    "unsound": "Unsound: its reasons do not support the label",
    "incomplete": "Incomplete: it misses what matters",
    "verbosity": "Verbosity: it says much more than is needed",
}
"""Errors of an explanation, and how the form asks for them."""
RATES: Final = {"adequacy": "Adequate", "preference": "Preferred"}
_DEFINITIONS: Final = (
    "Adequate: of the explanations on which both agree. Preferred: of the items with one preference of both."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStudy:
    """Judgements of one system as fractions, None where there is nothing to divide by."""

    adequacy: float | None  # both find it adequate, of the items on which they agree
    preference: float | None  # both prefer it, of the items on which both prefer the same system or none
    kappa: float | None
    errors: Mapping[str, float]  # shares of errors among what both reject; {} where there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Judgements of all systems."""

    systems: Mapping[str, SystemStudy]
    items: int
    kappa: float | None  # mean over the systems with a value
    pr: PrecisionRecall | None
    """Of the explanation score, on all agreed judgements together; None without scores or without adequate ones."""
    curve: tuple[tuple[float, float], ...] = ()  # recall and precision at each threshold


@dataclass(slots=True)
class _Judgements:
    """Two annotators' judgements of one explanation, by annotator."""

    adequate: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    preferred: dict[str, int] = field(default_factory=dict)

    @property
    def agreed(self) -> int | None:
        """Adequacy if the annotators agree on it."""
        values = set(self.adequate.values())
        return values.pop() if len(values) == 1 else None


def parse_study(text: str, scores: Mapping[tuple[str, str], float] | None = None) -> Study:
    """Parse a file of `JUDGEMENTS` and compute the rates of each system; `scores` is by (id, system).

    Raises:
        ValueError: a column or a value is missing or wrong, an explanation has not two annotators, or an annotator
            prefers two systems for one item.
    """
    judgements = _parse_judgements(text)
    preferences = [choice for choice in _preferences(judgements).values() if choice is not None]
    systems = {}
    for name in dict.fromkeys(system for _, system in judgements):
        of_system = [judged for (_, system), judged in judgements.items() if system == name]
        agreed = [judged.agreed for judged in of_system if judged.agreed is not None]
        pairs = [[judged.adequate[annotator] for annotator in sorted(judged.adequate)] for judged in of_system]
        systems[name] = SystemStudy(
            adequacy=sum(agreed) / len(agreed) if agreed else None,
            preference=preferences.count(name) / len(preferences) if preferences else None,
            kappa=cohen_kappa([a for a, _ in pairs], [b for _, b in pairs]),
            errors=_error_shares([judged for judged in of_system if judged.agreed == 0]),
        )
    kappas = [study.kappa for study in systems.values() if study.kappa is not None]
    pr, curve = _score_as_predictor(judgements, scores or {})
    mean = math.fsum(kappas) / len(kappas) if kappas else None
    return Study(systems=systems, items=len({item for item, _ in judgements}), kappa=mean, pr=pr, curve=curve)


def _preferences(judgements: Mapping[tuple[str, str], _Judgements]) -> dict[str, str | None]:
    """Map items to the system that both annotators prefer, '' where both prefer none, None where they differ."""
    by_item: dict[str, dict[str, str]] = {}
    for (item, system), judged in judgements.items():
        for annotator, preferred in judged.preferred.items():
            choices = by_item.setdefault(item, {})
            if preferred and choices.get(annotator):
                raise ValueError(f"item {item!r}: {annotator!r} prefers {choices[annotator]!r} and {system!r}")
            choices[annotator] = system if preferred else choices.get(annotator, "")
    return {
        item: next(iter(choices.values())) if len(set(choices.values())) == 1 else None
        for item, choices in by_item.items()
    }


def _error_shares(rejected: Sequence[_Judgements]) -> dict[str, float]:
    errors = [error for judged in rejected for error in judged.errors.values()]
    return {name: errors.count(name) / len(errors) for name in ERRORS} if errors else {}


def _score_as_predictor(
    judgements: Mapping[tuple[str, str], _Judgements], scores: Mapping[tuple[str, str], float]
) -> tuple[PrecisionRecall | None, tuple[tuple[float, float], ...]]:
    """Return precision and recall of the explanation score as a predictor of agreed adequacy."""
    adequate, scored = [], []
    for key, judged in judgements.items():
        if judged.agreed is not None and key in scores:
            adequate.append(judged.agreed)
            scored.append(scores[key])
    if not any(adequate):
        return None, ()
    precision, recall, _ = precision_recall_curve(adequate, scored)
    points = tuple((float(r), float(p)) for r, p in zip(recall[::-1], precision[::-1], strict=True))
    return precision_recall(adequate, scored), (*points, (0.0, 1.0))


def _parse_judgements(text: str) -> dict[tuple[str, str], _Judgements]:
    judgements: dict[tuple[str, str], _Judgements] = {}
    for _, row in JUDGEMENTS.rows(text):
        judged, annotator = judgements.setdefault((row["id"], row["system"]), _Judgements()), row["annotator"]
        judged.adequate[annotator], judged.preferred[annotator] = int(row["adequate"]), int(row["preferred"])
        if row["adequate"] == "0":
            judged.errors[annotator] = row["error_type"]
    for (item, system), judged in judgements.items():
        if len(judged.adequate) != 2:
            raise ValueError(f"item {item!r}, system {system!r}: {len(judged.adequate)} annotators, expected two")
    return judgements


def _judgement(row: HumanRow) -> HumanRow:
    if row["adequate"] == "0" and row["error_type"] not in ERRORS:
        raise ValueError(f"error_type is {row['error_type']!r}, expected {', '.join(ERRORS)}")
    return row


JUDGEMENTS: Final = HumanKind(
    name="judgements",
    columns=("id", "system", "annotator", "adequate", "error_type", "preferred"),
    about="A person's judgement of a model's explanation: adequate and preferred are 0 or 1; where adequate is 0,"
    " error_type is hallucination, unsound, incomplete or verbosity, else it is empty. Two people judge every"
    " explanation. The system is a model's name, or model/setting.",
    item=("id", "system"),
    may_be_empty=("error_type",),
    values={"adequate": ("0", "1"), "preferred": ("0", "1")},
    read=_judgement,
    sample="id",
    sample_noun="row",
    check_whole=parse_study,
)


def study_tables(study: Study) -> list[Table]:
    """Build Table 6 and section 5.3 from own judgements; the ids end in `_own`."""
    systems = tuple(study.systems)
    rows = tuple(
        TableRow(label=head, cells=tuple(getattr(study.systems[name], metric) for name in systems), origin="human")
        for metric, head in RATES.items()
    )
    kappa = "undefined" if study.kappa is None else f"{study.kappa:.2f}"
    notes = (f"Cohen's kappa of the annotators, mean over systems: {kappa}. {study.items:,} items.",)
    tables = [rates_table(systems, rows, notes, "_own")]
    if study.pr is not None:
        pr = study.pr
        cells: tuple[TableCell, ...] = (
            pr.auc, pr.average_precision, pr.max_f1, pr.max_f1_threshold, pr.balanced_threshold,
        )  # fmt: skip
        tables.append(predictor_table(TableRow(label="Own judgements", cells=cells, origin="human"), "_own"))
    return tables


def study_figures(study: Study) -> list[Figure]:
    """Build figure 7, and the curve of section 5.3 where explanation scores are known."""
    figures: list[Figure] = []
    shares = {name: system.errors for name, system in study.systems.items() if system.errors}
    if shares:
        series = tuple(
            Series(label=error, values=tuple(errors.get(error, 0.0) for errors in shares.values())) for error in ERRORS
        )
        figures.append(
            Bars(
                id="vflute_figure7_own",
                title="V-FLUTE Figure 7: errors of explanations that both annotators reject",
                categories=tuple(shares),
                series=series,
                stacked=True,
                notes=("Where annotators name different errors, each counts one half.",),
            )
        )
    if study.curve:
        figures.append(
            Points(
                id="vflute_section53_curve_own",
                title="V-FLUTE section 5.3: precision by recall of the explanation score",
                clouds=(Cloud(label="Thresholds", points=study.curve),),
                x_label="Recall",
                y_label="Precision",
                percent=True,
            )
        )
    return figures


def rates_table(systems: tuple[str, ...], rows: Sequence[TableRow], notes: tuple[str, ...], suffix: str = "") -> Table:
    """Build Table 6."""
    return Table(
        id=f"vflute_table6{suffix}",
        title="V-FLUTE Table 6: explanations that people find adequate, and prefer",
        label_head="Share",
        columns=systems,
        rows=tuple(rows),
        style="percent2",
        notes=(*notes, _DEFINITIONS),
    )


def predictor_table(row: TableRow, suffix: str = "") -> Table:
    """Build the table of section 5.3."""
    return Table(
        id=f"vflute_section53{suffix}",
        title="V-FLUTE section 5.3: the explanation score as a predictor of adequacy",
        label_head="Judgements",
        columns=("PR-AUC", "Average precision", "Best F1", "at", "Both above 0.75 at"),
        rows=(row,),
    )
