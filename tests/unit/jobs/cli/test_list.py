"""`vlmsweep list models` on a narrow terminal: names, whether they run, and each reason once with its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import doctor, tables
from jobs.cli.main import run
from models.engines.hub import HubAnswer


def test_models_fit_a_terminal_and_share_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    away = HubAnswer(state="unreachable", problem="no route")
    monkeypatch.setattr(doctor, "ask_hub", lambda questions, deadline_s: dict.fromkeys(questions, away))
    monkeypatch.setattr(doctor, "local_gpus", list)
    monkeypatch.setattr(doctor, "local_memory", lambda: (24 * 10**9, 0))
    monkeypatch.setattr(tables, "terminal_width", lambda _stream: 60)
    entries = "".join(f"{name}: {{engine: transformers, model: o/{name}, parameters_b: 2}}\n" for name in ("aa", "ab"))
    (tmp_path / "m.yaml").write_text(entries)
    assert run(["list", "models", "--models-file", str(tmp_path / "m.yaml")]) == 0
    table, _, reasons = capsys.readouterr().out.partition("\nwhy not:\n")
    assert max(map(len, table.splitlines())) <= 60
    assert table.splitlines()[0].split("  ")[0] == "model"
    assert ["aa", "no"] in [line.split()[:2] for line in table.splitlines()]
    line = next(line for line in reasons.splitlines() if "aa, ab" in line)
    assert "its files are not in this machine's cache, and the hub cannot be reached (no route)" in line
