"""Text from outside reaches a terminal, a log or a workflow as text alone."""

from __future__ import annotations

import io
import logging
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.shared.output import TEXT_FORMAT, LiveLines, TextFormatter, print_error, print_line, table
from jobs.shared.progress import Progress
from pipelines.clean_text import for_terminal

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\u202ee\udcfff\x00"
UNSAFE = ("\x1b", "\x07", "\x9b", "\u202e", "\udcff", "\x00", "\r")


def assert_inert(text: str) -> None:
    assert not [char for char in UNSAFE if char in text], ascii(text)
    assert all(letter in text for letter in "abcdef")


def test_printed_lines_are_cleaned(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(HOSTILE)
    print_error(f"vlmsweep: {HOSTILE}\nsecond\tline")
    out, err = capsys.readouterr()
    assert_inert(out)
    assert_inert(err)
    assert err.endswith("\nsecond\tline\n")


def test_live_lines_survive_a_terminal_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, stderr = pty.openpty()
    with os.fdopen(stderr, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        lines = LiveLines()
        lines.open()
        os.close(terminal)
        lines.draw(["predict: 1/2"])
        lines.close()
        lines.close()


def test_cell_of_a_table_is_one_cleaned_line() -> None:
    text = table(("model", "rows"), [[f"{HOSTILE}\nb | 9\r\x1b[1A", 3], ["other", None]])
    assert_inert(text)
    assert len(text.splitlines()) == 4


def test_record_of_a_log_cannot_look_like_two() -> None:
    record = logging.LogRecord("vlmsweep", logging.WARNING, "", 0, "%s", (f"{HOSTILE}\nERROR: all lost",), None)
    text = TextFormatter(TEXT_FORMAT).format(record)
    assert_inert(text)
    assert [line.startswith(" ") for line in text.splitlines()] == [False, True]


def test_progress_is_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress()
    progress.phase(f"predict {HOSTILE}", 2)
    progress.note(f"waits for {HOSTILE}")
    progress.finish()
    assert_inert(terminal.getvalue().replace("\r\x1b[2K", "").replace("\x1b[1A\x1b[2K", ""))


@pytest.mark.parametrize("line", ["::add-mask::x", "  ::error::x", "ok\n::set-output name=a::b", "##[group]x"])
def test_no_line_is_a_command_of_a_workflow(line: str) -> None:
    assert not [each for each in for_terminal(line).splitlines() if each.strip().startswith(("::", "##["))]
    assert for_terminal("a::b and ##[x]") == "a::b and ##[x]"


CLOSED = {
    "stdout": ">&-",
    "stderr": "2>&-",
    "stdin": "<&-",
    "all": "<&- >&- 2>&-",
    "full stderr": "2>/dev/full",
}


@pytest.mark.parametrize("redirection", CLOSED.values(), ids=CLOSED)
def test_streams_that_the_shell_closed_change_nothing(redirection: str, tmp_path: Path) -> None:
    """What is opened first would become standard output, and be written into."""
    file = tmp_path / "file"
    code = (
        "import sys, jobs.cli.main\ncli = sys.modules['jobs.cli.main']\nrun = cli.run\n"
        f"def opening(arguments):\n    file = open({str(file)!r}, 'w')\n    return run(arguments)\n"
        "cli.run = opening\ncli.main(['list', 'benchmarks'])"
    )
    process = subprocess.run(
        f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {redirection}",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0
    assert process.stderr == ""
    assert ("vflute" in process.stdout) == (">&-" not in redirection.replace("2>&-", ""))
    assert file.read_text() == ""


@pytest.mark.parametrize("arguments", ["list benchmarks", "list models", "--help"])
def test_standard_output_on_a_full_disk_ends_with_3(arguments: str) -> None:
    program = Path(sys.executable).with_name("vlmsweep")
    shell = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(f"{program} {arguments} >/dev/full", shell=True, env=shell, capture_output=True, text=True)
    assert process.stderr == "vlmsweep: standard output cannot be written: No space left on device\n"
    assert process.returncode == 3


@pytest.mark.parametrize("arguments", ["list benchmarks", "list models --json", "--help", "run --help"])
def test_output_that_is_read_no_further_ends_a_command_quietly(arguments: str) -> None:
    program = Path(sys.executable).with_name("vlmsweep")
    read, write = os.pipe()
    os.close(read)  # as `head` leaves it
    shell = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.run([program, *arguments.split()], stdout=write, env=shell, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert process.stderr == ""
    assert process.returncode == 141


def test_a_letter_that_the_terminal_lacks_is_an_escape() -> None:
    code = "from jobs.shared.output import open_streams, print_line\nopen_streams()\nprint_line('perch\\xe9')"
    shell = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = subprocess.run([sys.executable, "-c", code], env=shell, capture_output=True, text=True, check=True)
    assert process.stdout == "perch\\xe9\n"
