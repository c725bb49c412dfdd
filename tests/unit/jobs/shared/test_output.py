"""Text from outside reaches a terminal, a log or a workflow as text alone."""

from __future__ import annotations

import errno
import io
import logging
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.shared import output
from jobs.shared.failures import report_failure
from jobs.shared.output import TEXT_FORMAT, LiveLines, TextFormatter, fitted, print_error, print_line, table
from jobs.shared.progress import Progress
from models.guards.regular_files import NotRegularError, read_regular
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


HEADS = ("verdict", "benchmark", "setting", "value", "note")
ROWS = [
    ["differs", "maia", "32-frames", "0.512 [0.400, 0.600]", "a long note about what was seen"],
    ["equal", "maia", "1-frame", "0.312 [0.200, 0.400]", "another one"],
]


def shown(width: int, main: int = len(HEADS)) -> list[str]:
    lines = fitted(HEADS, ROWS, width, main).splitlines()
    assert not width or max(map(len, lines)) <= width, lines
    return lines


def test_wide_terminal_and_pipe_get_the_whole_table() -> None:
    assert shown(0) == shown(200)
    assert [line.split()[:2] for line in shown(200)[2:]] == [["differs", "maia"], ["equal", "maia"]]


def test_constant_column_is_stated_once() -> None:
    lines = shown(80)
    assert lines[0] == "benchmark: maia"
    assert "maia" not in "".join(lines[1:])


def test_columns_after_the_main_ones_are_left_out_and_named() -> None:
    lines = shown(60, main=4)
    assert "note" not in lines[1]
    assert " ".join(lines[-2:]) == "Left out for the width of the terminal: note; --json has all."


def test_long_cells_are_wrapped_and_short_ones_whole() -> None:
    lines = shown(60)
    assert len(lines) > 6
    assert any(line.startswith("differs") and "32-frames" in line for line in lines)


def test_narrow_terminal_gets_a_block_a_row() -> None:
    lines = fitted(HEADS, ROWS, 24, len(HEADS)).splitlines()
    assert lines[:4] == ["benchmark: maia", "verdict: differs", "setting: 32-frames", "value: 0.512 [0.400, 0.600]"]
    assert lines[5] == ""


def test_width_is_that_of_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "benchmark" in table(HEADS, ROWS).splitlines()[0].split()
    monkeypatch.setattr(output, "terminal_width", lambda _stream: 80)
    assert table(HEADS, ROWS).splitlines()[0] == "benchmark: maia"
    assert table(("a", "b"), [[None, 3]]).splitlines()[-1].split() == ["-", "3"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "make it writable, or give another"),
        (errno.EMFILE, "raise the limit, `ulimit -n 4096`"),
        (errno.ENFILE, "raise the limit, `ulimit -n 4096`"),
    ],
)
def test_what_the_machine_lacks_is_a_sentence(number: int, remedy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report_failure(OSError(number, os.strerror(number), "/disk/out")) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("vlmsweep: ")
    assert "/disk/out" in line
    assert f"{remedy}. Run the same command again to resume" in line


def test_pipe_in_place_of_a_file_is_a_sentence_wherever_it_is_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotRegularError) as met:
        read_regular(tmp_path / "pipe")
    assert report_failure(met.value) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"vlmsweep: {tmp_path / 'pipe'}: it is a named pipe")


@pytest.mark.parametrize(
    "error",
    [
        *(MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory"), RuntimeError("can't start new thread")),
        OSError("ray/_raylet.so: failed to map segment from shared object"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:128] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
    ],
)
def test_memory_that_is_used_up_is_a_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert report_failure(error) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("vlmsweep: no memory is left; raise the limits, `ulimit -v` and `ulimit -u`")


def test_other_errors_of_the_system_are_bugs(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_failure(OSError(errno.EBADF, "Bad file descriptor")) == 70
    assert "please report it" in capsys.readouterr().err
