"""Parsers of foreign bytes end with a sentence on mutated input, within two seconds and 200 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fuzzing import PARSERS


@pytest.mark.parametrize("inputs", [500, pytest.param(5000, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("name", PARSERS)
def test_mutated_input_ends_with_a_sentence(name: str, inputs: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.fuzzing", name, str(inputs), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stderr[-2000:]
    outcome = json.loads(result.stdout)
    assert not outcome["unexpected"]
    assert outcome["inputs"] == inputs
    assert outcome["slowest_s"] < 2
    assert outcome["peak_mb"] < 200
