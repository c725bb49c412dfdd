import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from importlib.resources import files as package_files

import pytest

from pipelines.clean_text import clean, one_line
from pipelines.rendering.escaping import markdown
from pipelines.rendering.viewer_marks import MARK
from pipelines.report import BenchmarkSection, ReportData, render
from pipelines.report.model import Section
from pipelines.report.pages.html import LANDING_ROWS, html_pages, lead
from pipelines.report.pages.markdown import markdown_page
from tests.unit.pipelines.rendering.figures.test_svg import assert_inert
from tests.unit.pipelines.report.cases import HOSTILE, Page, metric, report, table

CSS = package_files("pipelines.rendering").joinpath("templates", "report.css").read_text(encoding="utf-8")
ATTRIBUTES = {
    "alt",
    "aria-current",
    "aria-label",
    "charset",
    "class",
    "colspan",
    "content",
    "download",
    "height",
    "href",
    "http-equiv",
    "id",
    "lang",
} | {"loading", "name", "open", "role", "scope", "src", "tabindex", "width"}
LINK = re.compile(
    r"#[A-Za-z0-9_-]+|metrics\.json|report\.md|(?:index|people|benchmark-maia)\.html"
    r"|(?:tables|figures)/[A-Za-z0-9_-]+\.(?:csv|tex|svg)"
)
PAGES = ("index.html", "people.html", "benchmark-maia.html")


def pages_of(text: str) -> dict[str, Page]:
    """Return the pages with blank figures, which are tested elsewhere."""
    data = report(text)
    figures = (*data.benchmarks[0].figures, *data.across[0].figures)
    pages = html_pages(data, {figure.id: b'<svg xmlns="" width="3" height="4"></svg>' for figure in figures})
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
        assert all(MARK.fullmatch(f"<!--{comment}-->") for comment in hostile.other)
        assert {attribute for _, attributes in hostile.elements for attribute in attributes} <= ATTRIBUTES
        assert all(LINK.fullmatch(target) for target in hostile.values("href"))
        if len(text) < 1_000:
            assert words_of(hostile).count(clean(text)) >= 10


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_html_to_markdown(text: str) -> None:
    written = markdown_page(report(text))
    assert "<" not in written
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", written)
    assert all(re.fullmatch(r"(?:tables|figures)/[a-zA-Z0-9_]+\.(?:csv|tex|svg)", link) for link in links)
    assert len(links) == 28
    if len(text) < 1_000:
        assert written.count(markdown(text)) >= 15


def test_pages_have_no_scripts_and_no_external_content(plain_pages: dict[str, Page]) -> None:
    for page in plain_pages.values():
        tags = [tag for tag, _ in page.elements]
        forbidden = {"script", "link", "iframe", "object", "embed", "form", "base", "video", "svg", "input", "button"}
        assert not forbidden & set(tags)
        assert all(re.fullmatch(r"figures/[a-z_]+\.svg", source) for source in page.values("src"))
        assert tags.count("style") == 1


def test_policy_allows_only_the_own_style(whole: dict[str, bytes], plain_pages: dict[str, Page]) -> None:
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    for name, page in plain_pages.items():
        (policy,) = (
            attributes["content"]
            for _, attributes in page.elements
            if attributes.get("http-equiv") == "Content-Security-Policy"
        )
        assert policy == (
            f"default-src 'none'; img-src 'self'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        )
        assert f"<style>{CSS}</style>" in whole[f"report/{name}"].decode()
    assert "@import" not in CSS
    assert "url(" not in CSS


def test_figures_load_when_seen_in_a_place_of_their_size(whole: dict[str, bytes], plain_pages: dict[str, Page]) -> None:
    images = [attributes for tag, attributes in plain_pages["benchmark-maia.html"].elements if tag == "img"]
    assert len(images) == 6
    for attributes in images:
        drawing = whole[f"report/{attributes['src']}"]
        assert attributes["loading"] == "lazy"
        assert f'width="{attributes["width"]}" height="{attributes["height"]}"'.encode() in drawing
        assert_inert(drawing)
        assert b"@media(prefers-color-scheme:dark)" in drawing
        assert ET.fromstring(drawing).tag.endswith("svg")


def test_landing_page_shows_headlines_and_short_tables(plain_pages: dict[str, Page]) -> None:
    page = plain_pages["index.html"]
    text = words_of(page)
    for expected in (
        "1 warning",
        "About this run",
        "1 tables, 6 figures, 2 examples",
        "[40.0, 60.0]",
        "n 120, 1 failed",
    ):
        assert expected in text
    assert [name for name in page.values("id") if name.startswith("table-")] == ["table-maia_headline", "table-s"]
    assert not any("open" in attributes for tag, attributes in page.elements if tag == "details")


def test_headline_of_many_models_is_cut_on_the_landing_page() -> None:
    part = BenchmarkSection(name="maia", title="MAIA", headline="pool_accuracy")
    rows = tuple(metric(model=f"m{index:03}") for index in range(LANDING_ROWS + 3))
    pages = html_pages(ReportData(benchmarks=(part,), metrics=rows), {})
    last = f"m{LANDING_ROWS + 2:03}"
    assert last not in pages["index.html"]
    assert "3 more rows are on the benchmark" in pages["index.html"]
    assert last in pages["benchmark-maia.html"]


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


def test_section_with_long_tables_has_a_page_of_its_own(plain_pages: dict[str, Page]) -> None:
    tables = [name for name in plain_pages["people.html"].values("id") if name.startswith("table-")]
    assert tables == ["table-s", "table-u"]
    short = Section(name="short", title="Short", summary=(table(name="only"),))
    pages = html_pages(ReportData(across=(short,)), {})
    assert list(pages) == ["index.html"]
    assert "table-only" in pages["index.html"]
    assert "short.html" not in pages["index.html"]


def test_every_page_links_to_all_others_and_marks_itself(plain_pages: dict[str, Page]) -> None:
    for name, page in plain_pages.items():
        assert set(PAGES) <= set(page.values("href"))
        marked = [attributes["href"] for _, attributes in page.elements if "aria-current" in attributes]
        assert marked == [name]


def test_example_shows_question_output_and_parsed_answer() -> None:
    text = words_of(pages_of("the words of the model")["benchmark-maia.html"])
    assert text.count("the words of the model") > 20
    assert "none" in text
    assert "nothing" in text


def test_long_answer_is_cut() -> None:
    text = words_of(pages_of("x" * 5_000)["benchmark-maia.html"])
    assert "x" * 4_000 + "… [1000 more characters]" in text


def test_benchmark_without_headline_rows_has_a_note() -> None:
    part = BenchmarkSection(name="maia", title="MAIA", headline="agg_acc")
    files = render(ReportData(benchmarks=(part,), metrics=(metric(),)))
    for path in ("report/index.html", "report/benchmark-maia.html", "report/report.md"):
        assert "The headline metric has no rows." in files[path].decode()
    assert "report/tables/maia_headline.csv" not in files


def test_lead_names_few_models_and_counts_many() -> None:
    part = BenchmarkSection(name="maia", title="MAIA", headline="agg_acc")
    rows = tuple(metric(model=f"m{index}") for index in range(5))
    assert lead(ReportData(metrics=rows[:2], benchmarks=(part,))) == "m0, m1 on MAIA"
    assert lead(ReportData(metrics=rows, benchmarks=(part,), run={"finished": "today", "started": "yesterday"})) == (
        "5 models on MAIA, today"
    )
    assert lead(ReportData()) == "0 models on no benchmark"


def test_markdown_keeps_the_lines_of_an_answer() -> None:
    text = markdown_page(report("one\n\n- two\n    three"))
    assert "> Output:\\\n> one\\\n> \\- two\\\n> three" in text
    assert one_line("one\n\n- two\n    three") in text.replace("\\-", "-")
