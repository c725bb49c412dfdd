import csv
import io
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.clean_text import clean, one_line
from pipelines.rendering.environment import VIEW_MARK, csv_cell, latex, markdown, shorten
from pipelines.rendering.formats import column_names, html, to_csv, to_latex, to_markdown
from pipelines.rendering.table_layout import lay_out
from tests.unit.pipelines.report.cases import HOSTILE, Page, golden, table

SMALL = Table(
    id="small",
    title="Table 1. Pool accuracy",
    columns=("Avg.", "n", "Kind"),
    rows=(
        TableRow(label="Chance", cells=(0.25, None, "text"), baseline=True),
        TableRow(label="32-Frames", origin="heading"),
        TableRow(label="Qwen 72B", cells=(0.54, 2400, "paper"), origin="published", note="full set"),
        TableRow(label="ours", cells=(TableValue(value=1 / 3, low=0.25, high=0.4375), 480, "run")),
        TableRow(label="failed", cells=(None, 0, "run")),
    ),
    better=("higher", "", ""),
    notes=("Read with care.",),
)
GROUPED = Table(
    id="grouped", title="Groups", columns=("Homo", "Hetero", "Homo", "Hetero"), groups=(("En-De", 2), ("", 2)),
    rows=(TableRow(label="m", cells=(0.1, 0.2, 0.3, 0.4)),),
)  # fmt: skip


def cells(sample_table: Table) -> list[list[str]]:
    return list(csv.reader(io.StringIO(to_csv(sample_table), newline="")))


def test_table_in_markdown_csv_and_latex() -> None:
    assert to_markdown(SMALL) == (
        "| Model | Avg. | n | Kind |\n"
        "| --- | ---: | ---: | --- |\n"
        "| Chance | .25 | – | text |\n"
        "| **32-Frames** |  |  |  |\n"
        "| *Qwen 72B* (1) | **.54** | *2,400* | *paper* |\n"
        "| ours | .33 \\[.25, .44\\] | 480 | run |\n"
        "| failed | – | 0 | run |\n"
        "\n(1) full set\n"
        "\nRead with care.\n"
    )
    assert to_csv(SMALL) == (
        "block,Model,origin,Avg.,Avg. ci_low,Avg. ci_high,n,Kind,note\n"
        ",Chance,ours,0.25,,,,text,\n"
        "32-Frames,Qwen 72B,published,0.54,,,2400,paper,full set\n"
        "32-Frames,ours,ours,0.3333333333333333,0.25,0.4375,480,run,\n"
        "32-Frames,failed,ours,,,,0,run,\n"
    )
    assert to_latex(SMALL) == (
        "% small: needs the package booktabs; names beyond Latin letters need LuaLaTeX or XeLaTeX\n"
        "\\providecommand{\\ci}[3]{#1\\,{\\scriptsize[#2, #3]}} % value and interval: redefine it for all tables\n"
        "\\begin{table}[tbp]\n"
        "\\centering\\small\n"
        "\\caption{Table 1. Pool accuracy}\n"
        "\\label{tab:small}\n"
        "\\begin{tabular}{lrrl}\n"
        "\\toprule\n"
        "Model & Avg. & n & Kind \\\\\n"
        "\\midrule\n"
        "Chance & .25 & -- & text \\\\\n"
        "\\addlinespace\n"
        "\\multicolumn{4}{l}{\\textbf{32-Frames}} \\\\\n"
        "\\textit{Qwen 72B}\\textsuperscript{1} & \\textit{.54} & \\textit{2,400} & \\textit{paper} \\\\\n"
        "ours & \\ci{.33}{.25}{.44} & 480 & run \\\\\n"
        "failed & -- & 0 & run \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\smallskip{\\footnotesize \\textsuperscript{1}full set}\n"
        "\\par\\smallskip{\\footnotesize Read with care.}\n"
        "\\end{table}\n"
    )


def test_html_has_origin_kind_and_marks_as_classes() -> None:
    page = Page(html(SMALL))
    rows = [attributes["class"] for tag, attributes in page.elements if tag == "tr" and "class" in attributes]
    assert rows == ["ours baseline", "heading", "published", "ours", "ours"]
    data = [attributes["class"] for tag, attributes in page.elements if tag == "td"]
    assert data[0] == "number"
    assert data[1] == "none"
    assert data[2] == "text"
    assert data[3] == "number best"
    assert [attributes.get("scope") for tag, attributes in page.elements if tag == "th"] == [
        *["col"] * 4, "row", "rowgroup", *["row"] * 3,
    ]  # fmt: skip


def test_groups_and_parts_of_values_have_names_of_their_own() -> None:
    assert column_names(GROUPED) == ["En-De Homo", "En-De Hetero", "Homo", "Hetero"]
    assert cells(GROUPED)[0] == ["block", "Model", "origin", "En-De Homo", "En-De Hetero", "Homo", "Hetero", "note"]
    assert " & \\multicolumn{2}{c}{En-De} & \\multicolumn{2}{c}{} \\\\\n\\cmidrule(lr){2-3}\n" in to_latex(GROUPED)
    assert Page(html(GROUPED)).values("colspan") == ["2", "2"]
    cell = TableValue(value=0.5, delta=-0.25, low=0.1, high=0.9, n=4, n_failed=0, note="=why")
    sample_table = Table(id="t", title="T", columns=("a", "b"), rows=(TableRow(label="m", cells=(cell, True)),))
    heads, values = cells(sample_table)
    assert heads[3:] == ["a", "a change", "a ci_low", "a ci_high", "a n", "a n_failed", "a note", "b", "note"]
    assert values[3:] == ["0.5", "-0.25", "0.1", "0.9", "4", "0", "'=why", "true", ""]


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e-17, 1 / 3, 12345.678901234567, -0.5])
def test_csv_numbers_are_read_back_exactly(value: float) -> None:
    sample_table = Table(id="t", title="T", columns=("a",), rows=(TableRow(label="m", cells=(value,)),))
    assert float(cells(sample_table)[1][3]) == value


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_escaped_in_every_format(text: str) -> None:
    hostile, plain_page = Page(html(table(text))), Page(html(table()))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain_page.elements]
    assert [sorted(names) for _, names in hostile.elements] == [sorted(names) for _, names in plain_page.elements]
    assert all(VIEW_MARK.fullmatch(f"<!--{comment}-->") for comment in hostile.other)
    assert "".join(hostile.text).count(clean(text)) >= 7
    rows = cells(table(text))
    assert [len(row) for row in rows] == [len(rows[0])] * 4
    assert rows[1][:2] == [csv_cell(text)] * 2
    for cell in (cell for row in rows for cell in row):
        assert not re.match(r"\s*[=@＝＠]|\s*[+-](?![\d.]+$)|\t|\r", cell)

    def shape(sample_table: Table) -> list[int]:
        lines = [line for line in to_markdown(sample_table).splitlines() if line.startswith("| ")]
        return [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines]

    assert shape(table(text)) == shape(table())
    assert "<" not in to_markdown(table(text))

    def commands(sample_table: Table) -> set[str]:
        return set(re.findall(r"\\(?:[A-Za-z]+|.)", to_latex(sample_table).replace("\n", " ")))

    spelt = {f"\\{sign}" for sign in r"{}$&%#_"} | {
        f"\\{name}"
        for name in ("textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar", "char")
    }
    assert commands(table(text)) - spelt <= commands(table())
    assert to_latex(table(text)).count("\n") == to_latex(table()).count("\n")


def test_every_format_shows_every_row_and_an_empty_table() -> None:
    sample_table = table()
    assert len(lay_out(sample_table).rows) == 4
    assert len(cells(sample_table)) == 1 + 3
    assert to_latex(sample_table).count("\\\\\n") == 2 + 4
    assert [tag for tag, _ in Page(html(sample_table)).elements].count("tr") == 2 + 4
    sample_table = Table(id="t", title="T", columns=(), rows=())
    assert to_markdown(sample_table) == "| Model |\n| --- |\n"
    assert cells(sample_table) == [["block", "Model", "origin", "note"]]
    assert "\\begin{tabular}{l}" in to_latex(sample_table)
    assert [tag for tag, _ in Page(html(sample_table)).elements][:2] == ["div", "table"]


def test_latex_has_the_caption_rows_and_failures_once_and_tighter_wide_tables() -> None:
    assert r"\caption{In words.}" in to_latex(replace(SMALL, caption="In words."))
    assert "In words." not in to_markdown(replace(SMALL, caption="In words."))
    names = tuple(f"Spatial {index}" for index in range(9))
    sample_table = Table(id="wide", title="W", columns=names, rows=(TableRow(label="m", cells=(0.5,) * 9),))
    assert "\\footnotesize\\setlength{\\tabcolsep}{3pt}" in to_latex(sample_table)
    assert "\\shortstack[r]{Spatial\\\\0}" in to_latex(sample_table)
    cells = (TableValue(value=0.5, n=9, n_failed=2), TableValue(value=0.5, n=1_200, n_failed=1))
    table = Table(id="t", title="t", columns=("a", "b"), rows=(TableRow(label="m", cells=cells),))
    assert "Rows behind a number: 9 to 1,200; 3 failed in all cells together." in to_latex(table)


def test_bold_of_latex_needs_an_interval_clear_of_all_others() -> None:
    def column(*values: TableValue | float) -> Table:
        rows = tuple(TableRow(label=str(index), cells=(value,)) for index, value in enumerate(values))
        return Table(id="t", title="t", columns=("a",), rows=rows, better=("higher",))

    best, near = TableValue(value=0.8, low=0.7, high=0.9), TableValue(value=0.6, low=0.5, high=0.71)
    far = TableValue(value=0.5, low=0.4, high=0.6)
    assert r"\ci{\textbf{.80}}{.70}{.90}" in to_latex(column(best, far))
    assert "textbf" not in to_latex(column(best, near))
    assert "textbf" not in to_latex(column(0.8, 0.6))
    assert "**" not in to_markdown(column(best, near))
    assert "**.80**" in to_markdown(column(0.8, 0.6))
    tested = replace(near, value=0.81, low=0.75, high=0.85, best=True)
    assert r"\textbf{.81}" in to_latex(replace(column(tested, best), better=()))


ESCAPES = golden("escapes.jsonl")
ANY_TEXT = st.one_of(st.text(), st.text(st.characters(categories=["Cs", "Cc", "Po", "Sm"])), st.sampled_from(HOSTILE))
COMMANDS = r"\\(?:textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|ldots)\{\}"
INERT_LATEX = re.compile(
    rf"(?:{COMMANDS}|\\[{{}}$&%#_]|\{{\\char\d\d\}}|\{{[\[\]*?]\}}|\$(?:-|\\[A-Za-z]+)\$|-\{{\}}"
    r"|[^\\{}$&%#_^~<>|\"`\[\]*\x00-\x1f])*"
)


@pytest.mark.parametrize("row", ESCAPES, ids=lambda row: row["name"])
@pytest.mark.parametrize("escape", [markdown, latex, csv_cell], ids=["markdown", "latex", "csv"])
def test_escapers_match_golden_rows(row: dict[str, Any], escape: Any) -> None:
    assert escape(row["text"]) == row[{"markdown": "markdown", "latex": "latex", "csv_cell": "csv"}[escape.__name__]]


@given(ANY_TEXT)
def test_any_text_is_clean_encodable_and_inert(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.encode().decode() == cleaned
    assert clean(cleaned) == cleaned
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]", cleaned)
    assert len(one_line(text).splitlines()) <= 1
    bare = re.sub(r"\\[\\`*_\[\]|~$#^:.=+)-]", "", markdown(text))
    assert not re.search(r"[<>\n\\`*_\[\]|~$#^]|://|www\.", bare)
    assert INERT_LATEX.fullmatch(latex(text))


@given(ANY_TEXT)
def test_csv_cell_is_read_back_and_starts_no_formula(text: str) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([csv_cell(text), "end"])
    assert next(csv.reader(io.StringIO(out.getvalue(), newline=""))) == [csv_cell(text), "end"]
    assert csv_cell(text).replace("'", "") == clean(text).replace("'", "")
    cell = "".join(char for char in csv_cell(text) if char.isprintable() and not char.isspace())
    if cell[:1] in tuple("=+-@"):
        float(csv_cell(text))


@given(st.lists(st.sampled_from([*'=+-@;\t\n"\u200b, a1', "=1+1"]), max_size=12).map("".join))
def test_csv_cell_starts_no_formula_after_other_separators(text: str) -> None:
    cell = csv_cell(text)
    for field in re.split(r"[;\t\n]", cell):
        cell = "".join(char for char in field if char.isprintable() and not char.isspace() and char != '"')
        if cell[:1] in tuple("=+-@"):
            assert cell == field == clean(text)
            float(cell)


def test_shorten_counts_the_cut_characters() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcde", 3) == "abc… [2 more characters]"
