"""Shared test data of the reports: golden rows, hostile texts, an HTML parser and a small report."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from pipelines.benchmarks.figures import Bars, Cloud, Figure, Lines, Points, Radar, Series
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.predict.records import TaskCount
from pipelines.report.compare import Difference
from pipelines.report.landing.sentences import Judge, Judging
from pipelines.report.landing.standing import Published, Standing
from pipelines.report.metrics_file import Measured
from pipelines.report.model import BenchmarkSection, ExampleAnswer, ReportData, Section
from pipelines.report.references import Chance, People
from tests.support.measured import measured
from tests.support.paths import GOLDEN

GOLDEN_ROWS = GOLDEN / "report"

HOSTILE = (
    "</script><script>alert(1)</script>", "</style><style>*{display:none}</style>", "</svg><svg onload=alert(1)>",
    "<img src=x onerror=alert(1)>", "--><script>alert(1)</script><!--", "]]><script>alert(1)</script>",
    "\" onmouseover=alert(1) x=\"' autofocus onfocus=alert(1) '", '=HYPERLINK("http://x","y")', "+1+cmd|' /C calc'!A0",
    "@SUM(1)", "\t=1", "\r\n=1", "\u200b=1", "\ufeff\u00ad @SUM(1)", "$x^2$ and $\\frac{1}{0}$",
    "\\input{/etc/passwd}\\write18{id}", "^^5cinput{/etc/passwd}", "} \\end{tabular} \\immediate\\write18{id} %",
    "[9cm] \\\\*[9cm]", "| a | b |\n| --- | --- |\n| c | d |", "\x00\x01\x1b[2J\x7f\x85\ufffe\uffff",
    "\ud800 lone \udfff surrogates", "\u202eturned\u2066 around", "{{ 7 * 7 }} {% raw %}", "javascript:alert(1)",
    "[a](javascript:alert(1)) ![b](http://x) <http://x> http://x www.x.org", "한국어 \U0001f600 e\u0301", "x" * 5_000,
)  # fmt: skip


def golden(name: str) -> list[Any]:
    return [json.loads(line) for line in (GOLDEN_ROWS / name).read_text(encoding="utf-8").splitlines()]


class Page(HTMLParser):
    """Parses HTML into elements with attributes, and text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.other: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    def values(self, attribute: str) -> list[str]:
        return [str(attributes[attribute]) for _, attributes in self.elements if attribute in attributes]


def metric(**changes: Any) -> Measured:
    row = {
        "benchmark": "maia", "task": "vsv", "model": "small", "setting": "32-frames", "subset": "", "category": "",
        "metric": "pool_accuracy", "value": 0.5, "unit": "fraction", "n": 120, "n_failed": 1, "ci_low": 0.4,
        "ci_high": 0.6, "note": "",
    }  # fmt: skip
    return measured(**{**row, **changes})


def figures(text: str = "words", prefix: str = "f") -> tuple[Figure, ...]:
    """Return one figure of each kind, with gaps, intervals and all origins, and `text` in every text field."""
    series = (
        Series(label=text, values=(0.1, None, 0.3), low=(0.0, None, 0.2), high=(0.2, None, 0.4)),
        Series(label=f"{text} 2", values=(0.2, 0.3, 0.4), origin="published"),
        Series(label=f"{text} 3", values=(0.5, None, 0.5), baseline=True),
    )
    axes, notes = (text, "b", "c"), (text,)
    return (
        Radar(id=f"{prefix}_radar", title=text, axes=axes, series=series, notes=notes),
        Bars(id=f"{prefix}_bars", title=text, categories=axes, series=series, y_label=text, notes=notes),
        Bars(
            id=f"{prefix}_flat", title=text, categories=axes, series=series, y_label=text, horizontal=True,
            percent=False,
        ),
        Bars(id=f"{prefix}_stack", title=text, categories=axes, series=series[:2], stacked=True),
        Lines(id=f"{prefix}_lines", title=text, x=(0.1, 0.2, 0.3), series=series, x_label=text, y_label=text),
        Points(
            id=f"{prefix}_points",
            title=text,
            clouds=(
                Cloud(label=text, points=((0.1, 0.2),)),
                Cloud(label="p", points=((0.3, 0.4),), origin="published"),
            ),
            x_label=text,
            y_label=text,
            percent=True,
            diagonal=True,
        ),
    )  # fmt: skip


def table(text: str = "words", name: str = "t") -> Table:
    """Return a table with every kind of row and cell, and `text` in every text field."""
    return Table(
        id=name,
        title=text,
        label_head=text,
        columns=(text, "Score"),
        groups=((text, 2),),
        better=("", "higher"),
        second="table",
        heat=(0.0, 1.0),
        rows=(
            TableRow(label=text, origin="heading", note=text),
            TableRow(label=text, cells=(text, TableValue(value=0.5, delta=0.1, low=0.4, high=0.6, n=9, note=text))),
            TableRow(label=text, cells=(None, 0.4), origin="published", note=text),
            TableRow(label="chance", cells=(True, None), baseline=True),
        ),
        notes=(text,),
    )


def report(text: str = "words") -> ReportData:
    """Return a report with `text` in every field that foreign text can reach."""
    rows = (
        metric(model=text),
        metric(model=text, setting="black-video", value=None, ci_low=None, ci_high=None, note=text),
        metric(model=text, metric="bleu", category=text, subset=text, note=text),
    )
    answers = [
        ExampleAnswer(
            benchmark="maia", model=text, task=text, setting=text, sample_id=text, variant=text, question=text,
            output=output, read_as=output, verdict="wrong" if output else "error", note=text,
        )
        for output in (text, None)
    ]  # fmt: skip
    part = BenchmarkSection(
        name="maia", title=text, source=text, measure=text, headline="pool_accuracy",
        settings=("black-video", "32-frames"), tables=(table(text),), figures=figures(text),
    )  # fmt: skip
    across = Section(
        name="people", title=text, summary=(table(text, "s"),), tables=(table(text, "u"),),
        figures=figures(text, "g")[:1],
    )  # fmt: skip
    run = {
        "command": text, text: text, "seed": 42, "models": {text: {"revision": text, text: [text]}},
        "versions": {text: 1},
    }  # fmt: skip
    count = TaskCount(
        benchmark="maia", model=text, task=text, setting=text, requests=10, ok=7, error=1, excluded=1, missing=1
    )
    return ReportData(
        run=run,
        metrics=rows,
        across=(across,),
        benchmarks=(part,),
        counts=(count,),
        answers=tuple(answers),
        warnings=(text,),
        notes=(text,),
        standings=(standing(text),),
        judgings=(
            Judging("maia", text, (text,), (Judge(name=text, version=text, verdicts=2),)),
            Judging("maia", text, (text,)),
        ),
        cost=Table(id="cost", title=text, columns=("Time", "Cost"), rows=(TableRow(label=text, cells=(text, text)),)),
    )


def standing(text: str = "words", **changes: Any) -> Standing:
    """Return a significant lead of `small` over `other`, with `text` in every text field."""
    fields = {
        "benchmark": "maia", "title": text, "metric": "pool_accuracy", "task": "vsv", "setting": "32-frames",
        "ranked": (metric(), metric(model="other", value=0.459), metric(model=text, value=0.3)),
        "unmeasured": (metric(model=f"{text} 2", value=None, note=text),),
        "people": People(value=TableValue(value=0.94), rows="same"), "chance": Chance(0.25),
        "published": Published(model=text, value=0.8, metric="pool_accuracy"), "lead": difference(), "dollars": 3.1,
    }  # fmt: skip
    return Standing(**{**fields, **changes})


def difference(**changes: Any) -> Difference:
    """Return a difference of 4.1 points [1.2, 7.0] that a test finds."""
    fields = {
        "benchmark": "maia", "model_a": "other", "model_b": "small", "task": "vsv", "setting": "32-frames",
        "value": "pool_accuracy", "n": 120, "clusters": 40, "only_one": 0, "mean_a": 0.459, "mean_b": 0.5,
        "delta": 0.041, "ci_low": 0.012, "ci_high": 0.07, "p": 0.01, "changed": None,
    }  # fmt: skip
    return Difference(**{**fields, **changes})
