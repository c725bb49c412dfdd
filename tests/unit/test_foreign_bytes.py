"""Parsers of foreign bytes end with a sentence on mutated input, within two seconds and 200 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fuzzing import PARSERS


def outcomes_of(names: list[str], inputs: int, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the outcome of each parser that did not end its process, and what was printed to standard error."""
    command = [sys.executable, "-m", "tests.support.fuzzing", str(folder), str(inputs), *names]
    result = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout), result.stderr


def check(name: str, inputs: int, outcomes: dict[str, Any], errors: str) -> None:
    assert name in outcomes, errors[-2000:]
    outcome = outcomes[name]
    assert not outcome["unexpected"]
    assert outcome["inputs"] == inputs
    assert outcome["slowest_s"] < 2
    assert outcome["peak_mb"] < 200


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """All parsers after 200 inputs each, in one process: their imports take long, and are loaded once."""
    return outcomes_of([*PARSERS], 200, tmp_path_factory.mktemp("foreign"))


@pytest.mark.parametrize("name", PARSERS)
def test_mutated_input_ends_with_a_sentence(name: str, outcomes: tuple[dict[str, Any], str]) -> None:
    check(name, 200, *outcomes)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", PARSERS)
def test_many_mutated_inputs_end_with_a_sentence(name: str, tmp_path: Path) -> None:
    check(name, 5000, *outcomes_of([name], 5000, tmp_path))
