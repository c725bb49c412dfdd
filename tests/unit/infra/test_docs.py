"""Commands in the documentation exist."""

from __future__ import annotations

import re

import pytest
import typer.main

from jobs.cli.main import app
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


def test_newcomers_walk_names_existing_files_once_in_under_thirty_steps() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`", page, re.MULTILINE)
    assert 20 < len(steps) < 30
    assert len(set(steps)) == len(steps)
    assert [step for step in steps if not (ROOT / step).is_file()] == []
