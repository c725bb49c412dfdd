"""The example in each command's help can be copied: its names exist, and what only the user has is in capitals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import typer

from jobs.cli.main import app, run
from jobs.finetune.spec import VARIANTS
from jobs.shared.options import names
from models.catalog_loader import load_models, named_models, select_models
from models.spec import ModelSpec
from pipelines.benchmarks import benchmark_names
from pipelines.plan.stress.conditions import Condition

Values = Mapping[str, Any]
LISTED = ("benchmarks", "models", "settings")
USERS = re.compile(r"(s3://BUCKET/\w+|[A-Z][A-Z_]*(\.\w+)?)")
MADE = {"data", "out"}
"""What the examples of `ingest` and `run` write, and others read."""
LOCATIONS = {
    *("baseline", "column_map", "columns", "data", "eee", "evil", "folder", "fresh", "history", "like", "models_file"),
    *("out", "out_a", "out_b", "output", "policy", "predictions", "prompts", "source", "summary", "suspects", "to"),
    "uri",
}
WRITES = {"to", "folder"}
"""Parameters that name what the command itself writes, besides `out` of those below."""
WRITERS = ("generate", "finetune", "demo")


@cache
def all_commands() -> dict[str, Any]:
    commands = dict(typer.main.get_command(app).commands)
    return commands | {f"export {name}": form for name, form in commands.pop("export").commands.items()}


def example(name: str) -> list[str]:
    """Return the words of a command's example behind its name."""
    line = all_commands()[name].epilog.partition("Example:\n")[2].strip()
    program, *words = shlex.split(line)
    start = len(name.split())
    assert [program, *words[:start]] == ["vlmsweep", *name.split()]
    return words[start:]


def values(name: str) -> Values:
    """Return the parameters that an example gives, by name; a command line that is refused raises."""
    return all_commands()[name].make_context(name, example(name)).params


@cache
def catalog() -> Mapping[str, ModelSpec]:
    return load_models([])


def check_models(text: Any) -> None:
    selected = select_models(names(text), catalog())
    assert selected
    unable = [model for model, spec in selected.items() if spec.withdrawn or spec.unsupported]
    assert unable == []


def check_benchmarks(text: Any) -> None:
    assert names(text)
    assert {*names(text)} <= {*benchmark_names()}


CHECKS: Mapping[str, Callable[[Any], object]] = {
    "models": check_models,
    "model": check_models,
    "judge": lambda value: named_models(names(value), catalog(), "--judge"),
    "benchmarks": check_benchmarks,
    "benchmark": check_benchmarks,
    "paper": check_benchmarks,
    "stress": lambda value: [Condition.parse(name) for name in names(value)],
    "variant": lambda value: VARIANTS[value],
    "what": LISTED.index,
}
OTHER = {
    *("limit", "difference", "n", "people", "examples", "budget_usd", "address", "no_key", "verbose"),
    *LOCATIONS,
}
"""Parameters whose values are no names."""


@pytest.mark.parametrize("name", all_commands())
def test_names_in_an_example_exist(name: str) -> None:
    given = values(name)
    parsed = {
        parameter.name: given[parameter.name]
        for parameter in all_commands()[name].params
        if set(parameter.opts) & set(example(name)) or parameter.param_type_name == "argument"
    }
    for parameter, value in parsed.items():
        if value not in (None, "", []):
            assert parameter in CHECKS or parameter in OTHER, parameter
            CHECKS.get(str(parameter), bool)(value)


@pytest.mark.parametrize("name", all_commands())
def test_files_in_an_example_are_made_by_another_or_in_capitals(name: str) -> None:
    given = values(name)
    writes = WRITES | ({"out"} if name.partition(" ")[0] in WRITERS else set())
    for parameter in LOCATIONS & {*given} - writes:
        value = given[parameter]
        for place in value if isinstance(value, list | tuple) else [value] if value else []:
            assert str(place) in MADE or USERS.fullmatch(str(place)), f"{parameter}: {place}"


def test_submits_example_reaches_for_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """A relative location would be refused before, with 2."""
    words = [word.replace("8265", "9") for word in example("submit")]
    assert run(["submit", *words]) == 3
    assert "the cluster at 127.0.0.1:9 cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["list", "audit"])
def test_an_example_that_needs_nothing_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, *example(name)]) == 0
    assert capsys.readouterr().out
