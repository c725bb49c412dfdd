import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from importlib.resources import files as package_files

import pytest

from pipelines.report import BenchmarkSection, ReportData, render
from pipelines.report.pages.html import html_page, lead
from pipelines.report.pages.markdown import markdown_page
from pipelines.report.tables.escaping import clean, markdown, one_line
from tests.unit.pipelines.report.cases import HOSTILE, Page, metric, report
from tests.unit.pipelines.report.figures.test_svg import assert_inert

CSS = package_files("pipelines.report.pages").joinpath("templates", "report.css").read_text(encoding="utf-8")
ATTRIBUTES = {
    "alt",
    "aria-label",
    "charset",
    "class",
    "colspan",
    "content",
    "download",
    "href",
    "http-equiv",
    "id",
    "lang",
} | {"loading", "name", "open", "role", "scope", "src", "tabindex"}
LINK = re.compile(r"#[A-Za-z0-9_-]+|metrics\.json|report\.md|(?:tables|figures)/[A-Za-z0-9_-]+\.(?:csv|tex|svg)")


def page_of(text: str) -> Page:
    """Return the page with blank figures, which are tested elsewhere."""
    data = report(text)
    return Page(html_page(data, {figure.id: b"<svg></svg>" for figure in data.benchmarks[0].figures}))


@pytest.fixture(scope="module")
def whole() -> dict[str, bytes]:
    return render(report())


@pytest.fixture(scope="module")
def plain_page(whole: dict[str, bytes]) -> Page:
    return Page(whole["report/index.html"].decode())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_no_element_of_the_page(text: str, plain_page: Page) -> None:
    hostile = page_of(text)
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain_page.elements]
    assert hostile.other == []
    assert {name for _, attributes in hostile.elements for name in attributes} <= ATTRIBUTES
    assert all(LINK.fullmatch(target) for target in hostile.values("href"))
    if len(text) < 1_000:
        assert "".join(hostile.text).count(clean(text)) >= 20


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_html_to_markdown(text: str) -> None:
    written = markdown_page(report(text))
    assert "<" not in written
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", written)
    assert all(re.fullmatch(r"(?:tables|figures)/[a-zA-Z0-9_]+\.(?:csv|tex|svg)", link) for link in links)
    assert len(links) == 22
    if len(text) < 1_000:
        assert written.count(markdown(text)) >= 15


def test_page_has_no_scripts_and_no_external_content(plain_page: Page) -> None:
    tags = {tag for tag, _ in plain_page.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "base", "video", "svg", "input", "button"}
    assert all(source.startswith("data:image/svg+xml;base64,") for source in plain_page.values("src"))
    assert [tag for tag, _ in plain_page.elements].count("style") == 1


def test_policy_allows_only_the_own_style(whole: dict[str, bytes], plain_page: Page) -> None:
    (policy,) = (
        attributes["content"]
        for _, attributes in plain_page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert f"<style>{CSS}</style>" in whole["report/index.html"].decode()
    assert "@import" not in CSS
    assert "url(" not in CSS


def test_figures_in_the_page_are_inert_and_follow_the_colour_scheme(plain_page: Page) -> None:
    pictures = [base64.b64decode(source.partition(",")[2]) for source in plain_page.values("src")]
    assert len(pictures) == 6
    for picture in pictures:
        assert_inert(picture)
        assert b"@media(prefers-color-scheme:dark)" in picture
        assert ET.fromstring(picture).tag.endswith("svg")


def test_page_has_the_required_sections(plain_page: Page) -> None:
    text = "".join(plain_page.text)
    for words in (
        "Warnings",
        "About this run",
        "Requests by status",
        "Not measured, and why",
        "How to read these numbers",
        "Examples of answers (2)",
        "[40.0, 60.0]",
        "n 120, 1 failed",
    ):
        assert words in text
    opened = [attributes for tag, attributes in plain_page.elements if tag == "details" and "open" in attributes]
    # Failed requests and missing numbers are unfolded; remarks and examples are not.
    assert len(opened) == 2


def test_example_shows_question_output_and_parsed_answer() -> None:
    text = "".join(page_of("the words of the model").text)
    assert text.count("the words of the model") > 20
    assert "none" in text
    assert "nothing" in text


def test_long_answer_is_cut() -> None:
    text = "".join(page_of("x" * 5_000).text)
    assert "x" * 4_000 + "… [1000 more characters]" in text


def test_benchmark_without_headline_rows_has_a_note() -> None:
    part = BenchmarkSection(name="maia", title="MAIA", headline="agg_acc")
    files = render(ReportData(benchmarks=(part,), metrics=(metric(),)))
    for path in ("report/index.html", "report/report.md"):
        assert "The headline metric has no rows." in files[path].decode()
    assert "report/tables/maia_headline.csv" not in files


def test_lead_names_few_models_and_counts_many() -> None:
    part = BenchmarkSection(name="maia", title="MAIA", headline="agg_acc")
    rows = tuple(metric(model=f"m{place}") for place in range(5))
    assert lead(ReportData(metrics=rows[:2], benchmarks=(part,))) == "m0, m1 on MAIA"
    assert lead(ReportData(metrics=rows, benchmarks=(part,), run={"finished": "today", "started": "yesterday"})) == (
        "5 models on MAIA, today"
    )
    assert lead(ReportData()) == "0 models on no benchmark"


def test_markdown_keeps_the_lines_of_an_answer() -> None:
    text = markdown_page(report("one\n\n- two\n    three"))
    assert "> Output:\\\n> one\\\n> \\- two\\\n> three" in text
    assert one_line("one\n\n- two\n    three") in text.replace("\\-", "-")
