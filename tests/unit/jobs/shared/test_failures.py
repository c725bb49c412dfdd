"""A shortage of the machine ends as a sentence with its remedy, wherever it happens; a bug keeps its traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jobs.shared.failures import report_failure
from models.guards.regular_files import NotRegularError, read_regular


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
