"""Commands, files and links in the documentation exist, and its references leave nothing out."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer.main

from infra.docs.build import generated_pages, write_pages
from infra.docs.command_line import all_commands
from infra.docs.markdown import explanations
from infra.docs.records import field_texts, nested
from jobs.cli.main import app
from jobs.shared.options import normalize_arguments
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.published import load_published
from tests.support import docs
from tests.support.browser import CHROMIUM, browser
from tests.support.paths import ROOT

PAGES = {name: (ROOT / name).read_text().replace("\\\n", " ") for name in ("README.md", "docs/operations.md")}
COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("page", sorted(PAGES))
def test_flags_of_documented_commands_exist(page: str) -> None:
    used = re.findall(r"(?:^|`)vlmsweep ([a-z]+) ?([^`\n#]*)", PAGES[page], re.MULTILINE)
    assert len(used) > 2
    for name, rest in used:
        assert name in COMMANDS, name
        options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= options | {"--help"}, (name, rest)


@pytest.mark.parametrize("page", sorted(PAGES))
def test_named_files_exist(page: str) -> None:
    named = set(re.findall(r"(?<![\w./-])((?:infra|docs|jobs|\.github)/[\w./-]+\.(?:ya?ml|md|sh|py))", PAGES[page]))
    assert named
    missing = {path for path in named if not (ROOT / path).exists()}
    assert missing == set()


def test_the_way_from_a_command_to_a_number_names_at_most_15_files() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`", page, re.MULTILINE)
    assert 10 < len(steps) <= 15
    assert len(set(steps)) == len(steps)
    assert [step for step in steps if not (ROOT / step).is_file()] == []


@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.stem)
def test_commands_that_are_not_run_are_parsed_by_the_command_line(page: Path) -> None:
    for block in docs.blocks(page.read_text(encoding="utf-8")):
        assert block.language in ("console", "yaml", "python", "toml", "csv"), block.language
        for command in docs.commands(block) if block.language == "console" and block.reason else ():
            name, *arguments = docs.words(command)
            if name == "vlmsweep":
                COMMANDS[arguments[0]].make_context(arguments[0], normalize_arguments(arguments[1:]))


def test_links_of_pages_outside_the_site_lead_to_files() -> None:
    for name in ("README.md", "ARCHITECTURE.md"):
        links = re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / name).read_text())
        assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a site; a warning would end its build."""
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "infra.docs.build", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
def test_site_has_all_pages_and_fetches_nothing(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert {f"reference/benchmarks/{name}.html" for name in explanations("benchmarks")} <= set(pages)
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*", re.IGNORECASE)
    assert {name: links for name, page in pages.items() if (links := fetched.findall(page))} == {}


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
def test_search_works_where_the_site_is_opened_as_a_file(site: Path, tmp_path: Path) -> None:
    with browser(tmp_path) as page:
        page.open(site / "index.html")
        page.evaluate("document.querySelector('[data-md-toggle=search]').click()")
        page.evaluate(
            "window.field = document.querySelector('.md-search__input'); field.focus(); field.value = 'captioner'"
        )
        page.evaluate("field.dispatchEvent(new KeyboardEvent('keyup'))")
        deadline = time.monotonic() + 60
        while not page.evaluate("document.querySelectorAll('.md-search-result__item').length"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "captioners.html" in page.evaluate("document.querySelector('.md-search-result').innerHTML")
        assert page.evaluate("performance.getEntriesByType('resource').every((each) => each.name.startsWith('file:'))")


@pytest.mark.full
def test_a_broken_anchor_ends_the_build(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    with (tmp_path / "docs" / "view.md").open("a") as page:
        page.write("\n[gone](operations.md#no-such-heading)\n")
    code = "import sys, logging, pathlib; from infra.docs.build import build; logging.basicConfig(); "
    code += "build(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))"
    command = [sys.executable, "-c", code, str(tmp_path / "docs"), str(tmp_path / "site")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode != 0
    assert "no-such-heading" in result.stderr


def test_every_key_of_a_models_file_is_explained() -> None:
    records = [ModelSpec, *nested(ModelSpec)]
    unexplained = {
        record.__name__: [name for name, text in field_texts(record).items() if not text] for record in records
    }
    assert {name: keys for name, keys in unexplained.items() if keys} == {}
    given = explanations("models_file")
    stale = {
        name: set(texts) - set(fields)
        for name, texts in given.items()
        if (fields := keys_of(records, name)) is not None
    }
    assert set(given) <= {record.__name__ for record in records}
    assert {name: keys for name, keys in stale.items() if keys} == {}


def keys_of(records: list[type], name: str) -> list[str]:
    return [key for record in records if record.__name__ == name for key in record.model_fields]


def test_every_published_metric_is_explained() -> None:
    for name in explanations("benchmarks"):
        patterns = [*explanations("metrics")[name], *explanations("metrics")["every benchmark"]]
        metrics = {row.metric for row in load_published(name)}
        assert {
            metric for metric in metrics if not any(fnmatch.fnmatch(metric, pattern) for pattern in patterns)
        } == set()


def test_every_benchmark_and_setting_is_described() -> None:
    described = explanations("benchmarks")
    assert sorted(described) == benchmark_names()
    for name, texts in described.items():
        definition = benchmark(name)
        settings = {setting for settings in definition.tasks.values() for setting in settings}
        assert set(texts["settings"]) == settings | {*definition.explicit_settings, *definition.people_settings}


def test_every_command_and_exit_code_is_in_the_reference() -> None:
    pages = generated_pages()
    commands = dict(all_commands(typer.main.get_command(app)))
    assert {"view", "export inspect"} <= {*commands}
    assert re.findall(r"^## (.+)$", pages["reference/commands.md"], re.MULTILINE) == [*commands]
    for command in commands.values():
        for option in (option for parameter in command.params for option in parameter.opts if option.startswith("-")):
            assert option in pages["reference/commands.md"]
    assert "`UsageError`" in pages["reference/exit-codes.md"]
