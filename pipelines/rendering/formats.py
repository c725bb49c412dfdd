"""A `Table` as Markdown, CSV, LaTeX and HTML."""

import csv
import io
import math
from collections.abc import Iterator

from markupsafe import Markup

from pipelines.benchmarks.tables import Table, TableCell, TableValue
from pipelines.clean_text import one_line
from pipelines.rendering.environment import csv_cell, environment, latex, markdown
from pipelines.rendering.table_layout import FormattedCell, FormattedRow, FormattedTable, lay_out, value_of

_EXTRAS = {"delta": "change", "low": "ci_low", "high": "ci_high", "n": "n", "n_failed": "n_failed", "note": "note"}
"""Parts of a `TableValue` that get a CSV column of their own if a column has any."""

MOST_PUBLISHED = 4  # published rows that a page shows unfolded beside ours
_WIDE = 9  # columns above which LaTeX uses a smaller font, to fit a landscape page


def to_markdown(table: Table) -> str:
    """Return a pipe table with footnotes and notes; published rows in italics, the best in bold."""
    formatted = lay_out(table)
    heads = [table.label_head, *column_names(table)]
    rules = ["---", *("---:" if is_numeric(formatted, column) else "---" for column in range(len(table.columns)))]
    lines = [_pipe([markdown(head) for head in heads]), _pipe(rules)]
    for row in formatted.rows:
        if row.origin == "heading":
            lines.append(_pipe([f"**{markdown(row.label) or '.'}**", *[""] * len(table.columns)]))
        else:
            cells = [_markdown_cell(cell, row) for cell in row.cells]
            lines.append(_pipe([_italic(markdown(row.label), row) + _markdown_footnote(row.footnote), *cells]))
    footnotes = [f"({number}) {markdown(note)}" for number, note in enumerate(formatted.footnotes, start=1)]
    below = [*footnotes, *(markdown(note) for note in table.notes)]
    return "\n".join(lines) + "\n" + "".join(f"\n{line}\n" for line in below)


def to_csv(table: Table) -> str:
    """Return one line per row: block, label, origin, then the columns, unrounded.

    Intervals, counts and notes of a column follow it as columns of their own. An empty cell is a number that was not
    measured. Text that a spreadsheet would run as a formula is preceded by an apostrophe.
    """
    names, parts = column_names(table), [_parts(table, column) for column in range(len(table.columns))]
    heads = ["block", table.label_head, "origin"]
    for name, extras in zip(names, parts, strict=True):
        heads += [name, *(f"{name} {_EXTRAS[extra]}" for extra in extras)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_cell(head) for head in [*heads, "note"]])
    block = ""
    for row in table.rows:
        if row.origin == "heading":
            block = row.label
            continue
        cells: list[str] = []
        for cell, extras in zip(row.cells, parts, strict=True):
            cells += [_raw(cell), *(_raw(getattr(cell, extra, None)) for extra in extras)]
        writer.writerow([csv_cell(block), csv_cell(row.label), row.origin, *cells, csv_cell(row.note)])
    return out.getvalue()


def to_latex(table: Table) -> str:
    """Return a floating booktabs table; published rows in italics, headings across all columns."""
    formatted, width = lay_out(table), len(table.columns) + 1
    aligned = "".join("r" if is_numeric(formatted, column) else "l" for column in range(len(table.columns)))
    lines = [
        f"% {one_line(table.id)}: needs the package booktabs; names beyond Latin letters need LuaLaTeX or XeLaTeX",
        r"\providecommand{\ci}[3]{#1\,{\scriptsize[#2, #3]}} % value and interval: redefine it for all tables",
        r"\begin{table}[tbp]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}" if width > _WIDE else r"\centering\small",
        rf"\caption{{{latex(table.caption or table.title)}}}",
        rf"\label{{tab:{table.id}}}",
        rf"\begin{{tabular}}{{l{aligned}}}",
        r"\toprule",
        *_latex_groups(table),
        _latex_row([latex(table.label_head), *(_latex_head(head, wide=width > _WIDE) for head in table.columns)]),
        r"\midrule",
    ]
    for index, row in enumerate(formatted.rows):
        if row.origin == "heading":
            lines += [r"\addlinespace"] if index else []
            text = rf"\textbf{{{latex(row.label)}}}" + _latex_footnote(row.footnote)
            lines.append(_latex_row([rf"\multicolumn{{{width}}}{{l}}{{{text}}}"]))
        else:
            label = _latex_italic(latex(row.label), row) + _latex_footnote(row.footnote)
            lines.append(_latex_row([label, *(_latex_cell(cell, row) for cell in row.cells)]))
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [_latex_footnote(number) + latex(note) for number, note in enumerate(formatted.footnotes, start=1)]
    below = (*notes, *(latex(note) for note in (*table.notes, *_latex_counts(formatted))))
    lines += [rf"\par\smallskip{{\footnotesize {note}}}" for note in below]
    return "\n".join([*lines, r"\end{table}", ""])


def html(table: Table, benchmark: str = "") -> Markup:
    """Return the escaped table in a scrolling box, with footnotes and notes; rows have their origin as class.

    `benchmark` is the one that the rows of models are about, for the viewer's links; '' for several.
    """
    formatted = lay_out(table)
    published = sum(row.is_folded and row.origin != "heading" for row in formatted.rows)
    is_folded = published > MOST_PUBLISHED and any(row.origin == "ours" and not row.baseline for row in formatted.rows)
    template = environment().get_template("table.html.j2", globals={"is_numeric": is_numeric})
    return Markup(template.module.grid(formatted, benchmark, published if is_folded else 0))  # type: ignore[attr-defined]  # noqa: S704 - escaped by the template


def column_names(table: Table) -> list[str]:
    """Return the column heads, preceded by their groups."""
    groups = [text for text, span in table.groups for _ in range(span)] or [""] * len(table.columns)
    return [f"{group} {name}".strip() for group, name in zip(groups, table.columns, strict=True)]


def is_numeric(formatted: FormattedTable, column: int) -> bool:
    """Return whether the column holds numbers and is right-aligned."""
    kinds = {row.cells[column].kind for row in formatted.rows if row.origin != "heading"}
    return "text" not in kinds


def _pipe(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _italic(text: str, row: FormattedRow) -> str:
    return f"*{text}*" if row.origin == "published" and text else text


def _markdown_footnote(footnote: int) -> str:
    return f" ({footnote})" if footnote else ""


def _markdown_cell(cell: FormattedCell, row: FormattedRow) -> str:
    text = markdown(cell.text)
    text = f"**{text}**" if cell.mark == "best" else _italic(text, row)
    suffix = f" {markdown(cell.suffix)}" if cell.suffix else ""
    return text + suffix + _markdown_footnote(cell.footnote)


def _parts(table: Table, column: int) -> tuple[str, ...]:
    measured = [cell for row in table.rows for cell in row.cells[column : column + 1] if isinstance(cell, TableValue)]
    return tuple(extra for extra in _EXTRAS if any(getattr(cell, extra) not in (None, "") for cell in measured))


def _raw(cell: TableCell) -> str:
    if isinstance(cell, str):
        return csv_cell(cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    value = value_of(cell)
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, float) and math.isfinite(value) else str(value)


def _latex_groups(table: Table) -> Iterator[str]:
    if not table.groups:
        return
    heads, rules, column = [""], [], 2
    for text, span in table.groups:
        heads.append(rf"\multicolumn{{{span}}}{{c}}{{{latex(text)}}}")
        rules += [rf"\cmidrule(lr){{{column}-{column + span - 1}}}"] if text else []
        column += span
    yield _latex_row(heads)
    yield "".join(rules)


def _latex_head(head: str, *, wide: bool) -> str:
    """Return a column's head, with stacked words in a wide table."""
    text = latex(head)
    stacked = text.replace(" ", r"\\")
    return rf"\shortstack[r]{{{stacked}}}" if wide and stacked != text else text


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_footnote(footnote: int) -> str:
    return rf"\textsuperscript{{{footnote}}}" if footnote else ""


def _latex_italic(text: str, row: FormattedRow) -> str:
    return rf"\textit{{{text}}}" if row.origin == "published" and text else text


def _latex_cell(cell: FormattedCell, row: FormattedRow) -> str:
    r"""Return a cell: value and interval in `\ci`, bold only where an interval shows that it is the best."""
    text = latex(cell.text)
    if cell.mark == "best" and cell.interval:
        text = rf"\textbf{{{text}}}"
    text = _latex_italic(text, row) + (f" {latex(cell.delta)}" if cell.delta else "")
    if cell.interval:
        low, high = cell.interval.strip("[]").split(", ")
        text = rf"\ci{{{text}}}{{{latex(low)}}}{{{latex(high)}}}"
    return text + _latex_footnote(cell.footnote)


def _latex_counts(table: FormattedTable) -> list[str]:
    """Return the numbers of rows behind the cells as one sentence, in place of one in each cell."""
    cells = [cell for row in table.table.rows for cell in row.cells if isinstance(cell, TableValue)]
    sizes = sorted({cell.n for cell in cells if cell.n is not None})
    failed = sum(cell.n_failed or 0 for cell in cells)
    if not sizes:
        return []
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    return [f"Rows behind a number: {size}" + (f"; {failed:,} failed in all cells together." if failed else ".")]


def format_value(value: float | None, unit: str) -> str:
    """Return a number: a fraction in percent with one digit, others with at most three; '' for none."""
    if value is None:
        return ""
    return f"{100 * value:.1f}" if unit == "fraction" else f"{value:,.3f}".rstrip("0").rstrip(".")
