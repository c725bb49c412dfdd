"""No variable that users set reaches the tests, whatever this process started with."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.environment import remove_library_settings, remove_process_settings
from tests.tools.hostile import VARIABLES


def test_variables_of_the_shell_are_gone() -> None:
    hostile = {name for name, value in VARIABLES.items() if os.environ.get(name) == value}
    assert hostile == set(), "fixtures of other tests may set variables of their own"
    assert Path(os.environ["HOME"]).is_dir()


def test_hostile_variables_are_all_removed() -> None:
    environment = {
        **VARIABLES,
        "LC_TIME": "it_IT",
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "PATH": "/bin",
        "TMPDIR": "/tmp",
    }
    remove_library_settings(environment)
    assert environment["PYTHONHASHSEED"] == VARIABLES["PYTHONHASHSEED"], "worker processes start with it"
    remove_process_settings(environment)
    assert {*environment} == {"PATH", "TMPDIR", "HOME"}
    assert not [*Path(environment["HOME"]).iterdir()]
