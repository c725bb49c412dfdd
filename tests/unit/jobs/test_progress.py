"""Phases away from a terminal: a line each, and what they wait for, but not at every look."""

from __future__ import annotations

import pytest

from jobs import progress as progress_module
from jobs.progress import Progress


def test_notes_are_printed_at_most_once_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = Progress()
    progress.phase("predict m", 4)
    for done in range(3):
        progress.note(f"m: {done} of 4 requests answered")
    assert capsys.readouterr().err == "m: 0 of 4 requests answered\n"
    monkeypatch.setattr(progress_module, "NOTE_EVERY_S", 0.0)
    progress.note("m: 4 of 4 requests answered")
    assert capsys.readouterr().err == "m: 4 of 4 requests answered\n"


def test_quiet_progress_prints_no_note(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(quiet=True)
    progress.phase("predict m", 4)
    progress.note("m: 0 of 4 requests answered")
    assert capsys.readouterr().err == ""


def end_of_phase(progress: Progress, capsys: pytest.CaptureFixture[str]) -> str:
    progress.phase("predict m", 10)
    progress.advance(10, 2)
    progress.finish()
    return capsys.readouterr().err


def test_finished_phase_leaves_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of_phase(Progress(), capsys).startswith("predict m: 10 of 10, 2 failed in ")


def test_short_phases_leave_none_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of_phase(Progress(min_s=3600), capsys) == ""
    assert end_of_phase(Progress(quiet=True), capsys) == ""
