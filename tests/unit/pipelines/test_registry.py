"""Entry points: what is registered is loaded when it is asked for, and errors name the distribution."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pipelines import registry
from pipelines.errors import UsageError
from pipelines.registry import load, load_all, registered
from tests.support.distributions import plant
from tests.support.paths import ROOT

GROUP = "vlmsweep.test_group"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plant(
        tmp_path, "alpha", {GROUP: {"size": "alpha:SIZE", "both": "alpha:SIZE", "gone": "alpha:MISSING"}}, "SIZE = 3\n"
    )
    plant(tmp_path, "beta", {GROUP: {"both": "beta:SIZE", "broken": "beta:SIZE"}}, "import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._entries.cache_clear()
    yield
    registry._entries.cache_clear()


@pytest.mark.usefixtures("planted")
def test_what_is_registered_is_loaded_by_name() -> None:
    assert registered(GROUP) == ["both", "broken", "gone", "size"]
    assert load(GROUP, "size") == 3


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", f"no installed package provides 'other' of {GROUP}; install vlmsweep again"),
        ("both", f"alpha and beta both register 'both' in {GROUP}; uninstall one of them"),
        (
            "broken",
            "'broken' of beta: beta:SIZE cannot be imported (ModuleNotFoundError: No module named 'no_such_module')",
        ),
        ("gone", "'gone' of alpha: alpha:MISSING cannot be imported (AttributeError"),
    ],
)
def test_errors_name_the_distribution_and_the_remedy(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        load(GROUP, name)


def test_bug_in_our_own_module_is_no_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_entry: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("importlib.metadata.EntryPoint.load", broken)
    with pytest.raises(ZeroDivisionError):
        load("vlmsweep.commands", "view")


def test_installed_entry_points_are_those_of_the_project_and_can_be_loaded() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    ours = {name: entries for name, entries in groups.items() if name.startswith("vlmsweep.")}
    assert {"vlmsweep.commands", "vlmsweep.extensions", "vlmsweep.prediction_readers"} <= set(ours)
    for group, entries in ours.items():
        installed = {entry.name: entry.value for entry in entry_points(group=group) if entry.dist.name == "vlmsweep"}
        assert installed == entries, "run `make install` again"
        assert all(value is not None for value in load_all(group).values())
