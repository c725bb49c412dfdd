import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.resources import files as package_files

import pytest

from pipelines.benchmarks.tables import Table, TableRow
from pipelines.clean_text import clean
from pipelines.rendering import formats
from pipelines.rendering.environment import VIEW_MARK, markdown
from pipelines.report.model import BenchmarkSection, ReportData, Section
from pipelines.report.pages.html import html_pages, lead
from pipelines.report.render import markdown_page, render
from tests.unit.pipelines.rendering.figures.test_svg import assert_inert
from tests.unit.pipelines.report.cases import HOSTILE, Page, metric, report, table

TEMPLATES = package_files("pipelines.rendering").joinpath("templates")
CSS, SCRIPT = (TEMPLATES.joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
ATTRIBUTES = {
    "alt", "aria-current", "aria-label", "charset", "class", "colspan", "content", "download", "height", "href",
    "http-equiv", "id", "lang",
} | {"name", "open", "role", "scope", "src", "tabindex", "title", "width"}  # fmt: skip
LINK = re.compile(
    r"#[A-Za-z0-9_-]+|metrics\.json|report\.md|(?:index|people|benchmark-maia)\.html"
    r"|(?:tables|figures)/[A-Za-z0-9_-]+\.(?:csv|tex|svg)"
)
PAGES = ("index.html", "people.html", "benchmark-maia.html")


def pages_of(text: str) -> dict[str, Page]:
    """Return the pages with blank figures, which are tested elsewhere."""
    data = report(text)
    names = [figure.id for figure in (*data.benchmarks[0].figures, *data.across[0].figures)]
    pages = html_pages(data, dict.fromkeys([*names, "summary_figure"], b'<svg xmlns="" width="3" height="4"></svg>'))
    return {name: Page(source) for name, source in pages.items()}


def words_of(page: Page) -> str:
    return "".join(page.text)


@pytest.fixture(scope="module")
def whole() -> dict[str, bytes]:
    return render(report())


@pytest.fixture(scope="module")
def plain_pages(whole: dict[str, bytes]) -> dict[str, Page]:
    return {name: Page(whole[f"report/{name}"].decode()) for name in PAGES}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_no_element_of_the_pages(text: str, plain_pages: dict[str, Page]) -> None:
    hostile_pages = pages_of(text)
    assert tuple(hostile_pages) == PAGES
    for name, hostile in hostile_pages.items():
        assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain_pages[name].elements]
        assert all(VIEW_MARK.fullmatch(f"<!--{comment}-->") for comment in hostile.other)
        assert {attribute for _, attributes in hostile.elements for attribute in attributes} <= ATTRIBUTES
        assert all(LINK.fullmatch(target) for target in hostile.values("href"))
        if len(text) < 1_000:
            assert words_of(hostile).count(clean(text)) >= 10


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_html_to_markdown(text: str) -> None:
    written = markdown_page(report(text))
    assert "<" not in written
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", written)
    assert all(
        re.fullmatch(r"(?:tables|figures)/[a-zA-Z0-9_]+\.(?:csv|tex|svg)|benchmark-maia\.html", link) for link in links
    )
    assert len(links) == 8
    if len(text) < 1_000:
        assert written.count(markdown(text)) >= 8


def test_pages_allow_their_own_style_and_script_alone(plain_pages: dict[str, Page], whole: dict[str, bytes]) -> None:
    for page in plain_pages.values():
        tags = [tag for tag, _ in page.elements]
        forbidden = {"link", "iframe", "object", "embed", "form", "base", "video", "svg", "input", "button"}
        assert not forbidden & set(tags)
        assert all(re.fullmatch(r"figures/[a-z_]+\.svg", source) for source in page.values("src"))
        assert (tags.count("style"), tags.count("script")) == (1, 1)
        assert ("script", {}) in page.elements
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (CSS, SCRIPT))
    for name, page in plain_pages.items():
        (policy,) = (
            attributes["content"]
            for _, attributes in page.elements
            if attributes.get("http-equiv") == "Content-Security-Policy"
        )
        assert policy == (
            f"default-src 'none'; img-src 'self'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
            "base-uri 'none'; form-action 'none'"
        )
        assert f"<style>{CSS}</style>" in whole[f"report/{name}"].decode()
        assert f"<script>{SCRIPT}</script>" in whole[f"report/{name}"].decode()
    assert "@import" not in CSS
    assert "url(" not in CSS


def test_figures_load_at_once_in_a_place_of_their_size(whole: dict[str, bytes], plain_pages: dict[str, Page]) -> None:
    images = [attributes for tag, attributes in plain_pages["benchmark-maia.html"].elements if tag == "img"]
    assert len(images) == 6
    for attributes in images:
        drawing = whole[f"report/{attributes['src']}"]
        assert "loading" not in attributes  # a capture or print of the whole page shows them
        assert f'width="{attributes["width"]}" height="{attributes["height"]}"'.encode() in drawing
        assert_inert(drawing)
        assert b"@media(prefers-color-scheme:dark)" in drawing
        assert ET.fromstring(drawing).tag.endswith("svg")


def test_landing_page_shows_the_answers(plain_pages: dict[str, Page]) -> None:
    page = plain_pages["index.html"]
    text = words_of(page)
    for expected in (
        "small 50.0 [40.0, 60.0] leads other by 4.1 [1.2, 7.0]; people 94.0; chance 25.0; $3.10",
        "Read with care",
        "words, requests without an answer: words 1 of 10 failed, words 1 of 10 excluded, words 1 of 10 not run",
        "To compare with",
        "About this run",
        "1 table, 6 figures, 2 examples",
    ):
        assert expected in text
    assert [name for name in page.values("id") if name.startswith("table-")] == ["table-summary", "table-cost"]
    assert [name for name in page.values("id") if name.startswith("figure-")] == ["figure-summary_figure"]
    assert "pool_accuracy" in page.values("title")
    assert not any("open" in attributes for tag, attributes in page.elements if tag == "details")


def test_page_of_a_benchmark_has_the_required_sections(plain_pages: dict[str, Page]) -> None:
    page = plain_pages["benchmark-maia.html"]
    text = words_of(page)
    for expected in (
        "Requests by status",
        "Not measured, and why",
        "How to read these numbers",
        "Examples of answers (2)",
        "[40.0, 60.0]",
        "n 120, 1 failed",
    ):
        assert expected in text
    opened = [attributes for tag, attributes in page.elements if tag == "details" and "open" in attributes]
    # Failed requests and missing numbers are unfolded; remarks and examples are not.
    assert len(opened) == 2


def test_every_section_has_a_page_that_all_others_link_to(plain_pages: dict[str, Page]) -> None:
    tables = [name for name in plain_pages["people.html"].values("id") if name.startswith("table-")]
    assert tables == ["table-s", "table-u"]
    short = Section(name="short", title="Short", summary=(table(name="only"),))
    pages = html_pages(ReportData(across=(short,)), {})
    assert list(pages) == ["index.html", "short.html"]
    assert "table-only" not in pages["index.html"]
    assert "short.html" in pages["index.html"]
    for name, page in plain_pages.items():
        assert set(PAGES) <= set(page.values("href"))
        marked = [attributes["href"] for _, attributes in page.elements if "aria-current" in attributes]
        assert marked == [name]


def test_published_rows_are_folded_beside_ours() -> None:
    rows = [TableRow(label=f"p{index}", cells=(0.5,), origin="published") for index in range(5)]
    many = Table(id="many", title="t", columns=("a",), rows=(*rows, TableRow(label="ours", cells=(0.4,))))
    alone = replace(many, id="alone", rows=tuple(rows))
    few = replace(many, id="few", rows=many.rows[-3:])
    for shown, folded in ((many, 1), (alone, 0), (few, 0)):
        assert formats.html(shown).count("Published rows (5)") == folded


def test_example_shows_question_output_and_parsed_answer_up_to_a_length() -> None:
    text = words_of(pages_of("the words of the model")["benchmark-maia.html"])
    assert text.count("the words of the model") > 20
    assert "none" in text
    assert "nothing" in text
    text = words_of(pages_of("x" * 5_000)["benchmark-maia.html"])
    assert "x" * 4_000 + "… [1000 more characters]" in text


def test_lead_and_headline_say_what_was_measured() -> None:
    part = BenchmarkSection(name="maia", title="MAIA", headline="agg_acc")
    files = render(ReportData(benchmarks=(part,), metrics=(metric(),)))
    for path in ("report/index.html", "report/benchmark-maia.html", "report/report.md"):
        assert "The headline metric has no rows." in files[path].decode()
    assert "report/tables/maia_headline.csv" not in files
    rows = tuple(metric(model=f"m{index}") for index in range(5))
    assert lead(ReportData(metrics=rows[:2], benchmarks=(part,))) == "m0, m1 on MAIA"
    assert lead(ReportData(metrics=rows, benchmarks=(part,), run={"finished": "today", "started": "yesterday"})) == (
        "5 models on MAIA, today"
    )
    people = (*rows[:1], metric(model="human:ann"))
    assert lead(ReportData(metrics=people, benchmarks=(part,))) == "m0 on MAIA"
    assert lead(ReportData()) == "0 models on no benchmark"
