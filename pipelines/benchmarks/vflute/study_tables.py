"""Tables and figures of people's judgements of V-FLUTE explanations: Table 6, figure 7, section 5.3."""

from __future__ import annotations

from typing import Final

from pipelines.benchmarks.figures import Bars, Cloud, Figure, Points, Series
from pipelines.benchmarks.tables import Table, TableCell, TableRow
from pipelines.benchmarks.vflute.judgement_study import ERRORS, Study
from pipelines.benchmarks.vflute.results import Results, Who, without_interval

_RATES: Final = {"adequacy": "Adequate", "preference": "Preferred"}
_GROUP: Final = ("95 test instances", "")
_JUDGED: Final = ("adequacy judgements", "")
_PR: Final = ("pr_auc", "average_precision", "max_f1", "threshold_at_max_f1", "threshold_balanced")
_PR_HEADS: Final = ("PR-AUC", "Average precision", "Best F1", "at", "Both above 0.75 at")


def published_study(book: Results) -> list[Table]:
    """Table 6 and section 5.3 as printed."""
    systems = book.tables.get("Table 6", ())
    rates = tuple(
        TableRow(
            label=head,
            cells=tuple(without_interval(book.find("published", who, metric, _GROUP)) for who in systems),
            origin="published",
        )
        for metric, head in _RATES.items()
    )
    kappa = book.find("published", Who("Human", ""), "cohen_kappa", _GROUP)
    note = [] if kappa is None or kappa.value is None else [f"Cohen's kappa of the two annotators: {kappa.value:.2f}."]
    found = [book.find("published", Who("ExplanationScore", ""), metric, _JUDGED) for metric in _PR]
    score = TableRow(label="Published", cells=tuple(without_interval(one) for one in found), origin="published")
    return [
        _rates_table(tuple(who.label for who in systems), rates, tuple(note)),
        _pr_table((score,)),
    ]


def study_tables(study: Study) -> list[Table]:
    """The same from own judgements; the ids end in `_own`."""
    systems = tuple(study.systems)
    rows = tuple(
        TableRow(label=head, cells=tuple(getattr(study.systems[name], metric) for name in systems))
        for metric, head in _RATES.items()
    )
    kappa = "undefined" if study.kappa is None else f"{study.kappa:.2f}"
    notes = (f"Cohen's kappa of the annotators, mean over systems: {kappa}. {study.items:,} items.",)
    tables = [_rates_table(systems, rows, notes, "_own")]
    if study.pr is not None:
        pr = study.pr
        cells: tuple[TableCell, ...] = (
            pr.auc, pr.average_precision, pr.max_f1, pr.max_f1_threshold, pr.balanced_threshold,
        )  # fmt: skip
        tables.append(_pr_table((TableRow(label="Own judgements", cells=cells),), "_own"))
    return tables


def study_figures(study: Study) -> list[Figure]:
    """Figure 7, and the curve of section 5.3 where explanation scores are known."""
    found: list[Figure] = []
    shares = {name: one.errors for name, one in study.systems.items() if one.errors}
    if shares:
        series = tuple(
            Series(label=error, values=tuple(own.get(error, 0.0) for own in shares.values())) for error in ERRORS
        )
        found.append(
            Bars(
                id="vflute_figure7_own",
                title="V-FLUTE Figure 7: what is wrong with explanations that both annotators reject",
                categories=tuple(shares),
                series=series,
                stacked=True,
                notes=("Where annotators name different errors, each counts one half.",),
            )
        )
    if study.curve:
        found.append(
            Points(
                id="vflute_section53_curve_own",
                title="V-FLUTE section 5.3: precision by recall of the explanation score",
                clouds=(Cloud(label="Thresholds", points=study.curve),),
                x_label="Recall",
                y_label="Precision",
                percent=True,
            )
        )
    return found


def _rates_table(
    systems: tuple[str, ...], rows: tuple[TableRow, ...], notes: tuple[str, ...], suffix: str = ""
) -> Table:
    return Table(
        id=f"vflute_table6{suffix}",
        title="V-FLUTE Table 6: explanations that people find adequate, and prefer",
        label_head="Share",
        columns=systems,
        rows=rows,
        style="percent2",
        notes=(
            *notes,
            "Adequate: of the explanations on which both agree. Preferred: of the items with one preference of both.",
        ),
    )


def _pr_table(rows: tuple[TableRow, ...], suffix: str = "") -> Table:
    return Table(
        id=f"vflute_section53{suffix}",
        title="V-FLUTE section 5.3: the explanation score as a predictor of adequacy",
        label_head="Judgements",
        columns=_PR_HEADS,
        rows=rows,
        style="fraction2",
    )
