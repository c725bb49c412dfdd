import csv
import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.clean_text import clean, one_line
from pipelines.rendering.escaping import csv_cell, latex, markdown, shorten
from tests.unit.pipelines.report.cases import HOSTILE, golden

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
