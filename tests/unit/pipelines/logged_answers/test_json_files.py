"""Lines of JSON of unknown origin are read within limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.logged_answers import readers
from pipelines.logged_answers.readers import json_lines


def test_long_line_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_TEXT", 100)
    monkeypatch.setattr(readers, "_CHUNK", 7)
    path = tmp_path / "x.jsonl"
    path.write_text('\ufeff{"a": 1}\n' + json.dumps("x" * 300) + '\n\n[\n{"b": 2}', encoding="utf-8")
    lines = [*json_lines(path)]
    assert [number for number, _ in lines] == [1, 2, 4, 5]
    assert [value for _, value in lines if isinstance(value, dict)] == [{"a": 1}, {"b": 2}]
    assert "longer than" in str(lines[1][1])
