"""The command line. Each command parses flags, builds a spec, runs it and returns an exit code."""

import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import warnings
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from jobs.cli.register import CommandSections
from jobs.shared.failures import DONE, INTERRUPTED, READER_LEFT, encoding_problem, report_failure, report_interrupt
from jobs.shared.options import normalize_arguments
from jobs.shared.output import is_read_no_further, log_as_json, log_as_text, open_streams, print_line, settle_streams
from pipelines.errors import UsageError


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


app = typer.Typer(
    name="vlmsweep",
    cls=CommandSections,
    help="Batch evaluation of vision-language models; `vlmsweep list benchmarks` names what they are asked.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(version: bool) -> None:
    if version:
        from pipelines.version import __version__

        print_line(f"vlmsweep {__version__}")
        raise typer.Exit


@app.callback()
def _prepare_process(
    *,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="text for people, json: one object a line; accepted anywhere.")
    ] = LogFormat.TEXT,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print name and version.")
    ] = False,
) -> None:
    log_as_json(enabled=log_format is LogFormat.JSON)
    from jobs.submit.decrypt_env import decrypt_worker_env

    decrypt_worker_env()


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit.

    Exit codes: 0 done; 1 done but more rows failed than allowed; 2 usage or configuration; 3 cluster, store or model
    unreachable; 4 `gate` cannot decide; 70 a bug, with its traceback; 130 interrupted; 141, without a message,
    output that is read no further.
    """
    is_interrupted = threading.Event()
    atexit.register(_skip_native_handlers, is_interrupted)  # before others, so that it runs after them
    signal.signal(signal.SIGTERM, _interrupt)  # a preempted node ends a run as Ctrl-C does, and so a closed terminal
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` sets it
        signal.signal(signal.SIGHUP, _interrupt)
    open_streams()
    if sys.warnoptions:  # `PYTHONWARNINGS=error` is meant for code of one's own: libraries warn where they are imported
        warnings.filterwarnings("default", module="(?!(cluster|jobs|models|pipelines)[.])")
    code = run(normalize_arguments(sys.argv[1:] if arguments is None else arguments))
    if code == INTERRUPTED:
        is_interrupted.set()
        # A second Ctrl-C while exit hooks run would print their tracebacks.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda _signal, _frame: os._exit(code))
    settle_streams()
    sys.exit(code)


def _skip_native_handlers(is_interrupted: threading.Event) -> None:
    """End an interrupted process before the exit handlers of native code: those of a Ray that half started crash."""
    if is_interrupted.is_set():
        settle_streams()
        os._exit(INTERRUPTED)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    signal.alarm(0)  # set by Ray's native handler while Ray starts: it would abort this process
    raise KeyboardInterrupt


def _check_encoding(arguments: list[str]) -> None:
    """Raise UsageError for an argument or a working folder that is not UTF-8: Parquet, pages and Ray take no other."""
    with contextlib.suppress(FileNotFoundError):  # a deleted folder
        arguments = [*arguments, str(Path.cwd())]
    if foreign := [argument for argument in arguments if argument.encode("utf-8", "replace").decode() != argument]:
        raise UsageError(encoding_problem(foreign[0]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    log_as_text()
    logging.captureWarnings(capture=True)
    streams = sys.stdout, sys.stderr
    try:
        _check_encoding(arguments)
        code = int(app(args=arguments or ["--help"], standalone_mode=False) or DONE)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except SystemExit as end:  # with which Typer hides every broken pipe, in streams that raise none
        sys.stdout, sys.stderr = streams
        if is_read_no_further():
            settle_streams()
            return READER_LEFT
        if not isinstance(end.__context__, Exception):
            raise
        return report_failure(end.__context__)
    except Exception as error:  # noqa: BLE001  the edge of the program
        return report_failure(error)
    return report_interrupt() if code == INTERRUPTED else code  # Typer may catch KeyboardInterrupt itself
