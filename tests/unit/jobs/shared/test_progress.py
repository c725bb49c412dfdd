"""Phases on a terminal and in a log: a line that is drawn again while nothing happens, and one a minute."""

from __future__ import annotations

import io
import logging
import os
import re
import threading
from collections.abc import Callable
from time import monotonic

import pytest

from jobs.shared import progress as progress_module
from jobs.shared.output import LIVE_LINES, TEXT_FORMAT, log_as_text, print_error
from jobs.shared.progress import Progress, live_lines
from pipelines.progress import Rate


class Terminal(io.StringIO):
    """Standard error that is a terminal and says when a text was written."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.changed:
            self.changed.notify_all()
            return super().write(text)

    def wait_for(self, condition: Callable[[str], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self.getvalue()), timeout=60)

    def screen(self) -> list[str]:
        """Return the lines that a person sees, after erasures."""
        lines = [""]
        for token in re.findall(r"\x1b\[2K|\x1b\[1A|\r|\n|[^\x1b\r\n]+", self.getvalue()):
            if token == "\n":
                lines.append("")
            elif token == "\x1b[2K":
                lines[-1] = ""
            elif token == "\x1b[1A":
                lines.pop()
            elif token != "\r":
                lines[-1] += token
        return lines


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let standard error be a terminal: in the test itself, because pytest sets the stream again after its fixtures."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress_module, "TICK_S", 0.01)
    return terminal


def test_notes_are_printed_at_most_once_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Progress() as progress:
        progress.phase("predict m", 4)
        for done in range(3):
            progress.note(f"{done} of 4 requests answered")
        assert capsys.readouterr().err == "predict m: 0 of 4 requests answered\n"
        monkeypatch.setattr(progress_module, "LOG_EVERY_S", 0.0)
        progress.note("4 of 4 requests answered")
        assert capsys.readouterr().err.startswith("predict m: 4 of 4 requests answered\n")


def test_quiet_progress_prints_no_note(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(quiet=True) as progress:
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


def test_phase_that_counts_nothing_leaves_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.phase("check models and data", 0)
    assert capsys.readouterr().err == ""


def test_log_gets_a_line_about_an_unfinished_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_terminal(monkeypatch)
    monkeypatch.setattr(log, "isatty", lambda: False)
    monkeypatch.setattr(progress_module, "LOG_EVERY_S", 0.01)
    with Progress() as progress:
        progress.phase("predict m", 10)
        progress.advance(5, 1)
        log.wait_for(
            lambda text: re.search(r"^predict m: 5/10, .*/s, \d+s left, 1 failed$", text, re.MULTILINE) is not None
        )
    assert "\x1b" not in log.getvalue()


def test_terminal_is_drawn_at_once_and_while_no_row_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Progress() as progress:
        progress.phase("predict m", 10)
        assert terminal.screen() == ["predict m: 0/10, 0s"]
        terminal.wait_for(lambda text: text.count("predict m") > 3)
    assert [line.partition(" in ")[0] for line in terminal.screen()] == ["predict m: 0 of 10", ""]


def test_message_replaces_the_live_lines_and_they_return(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Progress() as progress:
        progress.phase("predict m", 10)
        progress.note("the first\nthe second")
        assert terminal.screen() == ["predict m: 0/10, 0s", "  the first", "  the second"]
        print_error("a message")
        terminal.wait_for(lambda text: text.endswith("the second"))
        assert [line.strip() for line in terminal.screen()][0::2] == ["a message", "the first"]


def test_log_record_begins_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    log_as_text()
    with Progress() as progress:
        progress.phase("predict m", 10)
        root.warning("slow")
        assert terminal.screen()[0] == TEXT_FORMAT % {"levelname": "WARNING", "message": "slow"}


def test_interrupt_leaves_the_state_and_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)

    def interrupted() -> None:
        with Progress() as progress:
            progress.phase("predict m", 10)
            terminal.write("^C")  # which a terminal echoes
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    print_error("vlmsweep: Interrupted.")
    lines = terminal.screen()
    assert lines[-2] == "vlmsweep: Interrupted."
    assert lines[-3].startswith("predict m: 0/10")
    terminal.truncate(0)
    LIVE_LINES.end()
    assert "predict" not in terminal.getvalue(), "nothing is drawn after the end"


def test_terminal_is_drawn_while_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's start closes it for seconds."""
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal, os.fdopen(master, "rb", buffering=0) as screen:
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr(progress_module, "TICK_S", 0.01)
        with Progress() as progress:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, slave)
            os.close(null)
            progress.phase("start Ray", 0)
            text = b""
            while text.count(b"start Ray: 0s") < 3:
                text += screen.read(100)


def test_lines_fit_the_terminal() -> None:
    rate = Rate("predict " + "very-long-name-of-a-model, " * 9, 4540, done=160, failed=3, last=monotonic() + 80.0)
    notes = "\n".join(f"model {n}: " + "x" * 90 for n in range(12))
    lines = live_lines(rate, notes, 59)
    assert max(map(len, lines)) <= 59
    assert re.fullmatch(r"predict very.*…: 160/4540, 2/s, .*left, 3 failed", lines[0])
    assert lines[-1] == "  and 4 more"
    assert len(lines) == 10


def test_time_left_is_that_of_the_last_finished_rows() -> None:
    now = monotonic()
    rate = Rate("predict m", 100, start=now - 100.0, done=50, last=now - 50.0)
    assert re.fullmatch(r"50/100, 1/s, (0|1)s left", rate.text())  # 50 rows at 1/s, 50 s ago
    assert re.fullmatch(r"0/100, 1m4\ds", Rate("predict m", 100, start=now - 100.0).text())
