"""`vlmsweep status --watch` shows the counts again until nothing is left, with rate and time left."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any

import pytest

from jobs.cli import status as status_module
from jobs.cli.main import run
from jobs.cli.status import status

NOW = "2026-01-02T03:04:05+00:00"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 40 seconds later."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromisoformat("2026-01-02T03:04:45+00:00").astimezone(tz)

    monkeypatch.setattr(status_module, "datetime", Clock)


def counts(running: int, done: int) -> tuple[str, list[dict[str, Any]]]:
    cell = {"model": "m", "benchmark": "maia", "task": "vsv", "setting": "1-frame", "requests": 10, "pending": 0}
    return NOW, [{**cell, "running": running, "done": done, "failed": 0}]


def test_watch_ends_when_nothing_is_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    looks = [counts(10, 0), counts(5, 5), counts(0, 10), counts(0, 10)]
    monkeypatch.setattr("pipelines.sweep.status.status_rows", lambda _uri: looks.pop(0))
    monkeypatch.setattr(status_module, "WATCH_S", 0.001)
    assert run(["status", "out", "--watch"]) == 0
    ends = [line for line in capsys.readouterr().out.splitlines() if line.startswith("as of")]
    assert ends[0] == f"as of {NOW}: 0 of 10 done; last sign of life 40s ago"
    assert ends[1].startswith(f"as of {NOW}: 5 of 10 done; ")
    assert ends[1].endswith("/s, 0s left; last sign of life 40s ago")
    assert ends[2].startswith(f"as of {NOW}: 10 of 10 done")
    assert "sign of life" not in ends[2]
    assert len(looks) == 1


def test_without_watch_one_look_is_enough(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pipelines.sweep.status.status_rows", lambda _uri: counts(10, 0))
    status("out")
    assert capsys.readouterr().out.endswith(f"as of {NOW}: 0 of 10 done; last sign of life 40s ago\n")
