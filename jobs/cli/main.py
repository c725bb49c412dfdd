"""The command line. Each command parses flags, builds a spec, runs it and returns an exit code."""

from __future__ import annotations

import logging
import signal
import sys
import traceback
from enum import StrEnum
from types import FrameType
from typing import Annotated

import typer

from cluster.errors import ClusterError
from jobs.cli.options import normalize_arguments
from jobs.cli.register import register
from jobs.output import TEXT_FORMAT, log_as_json, print_error
from models.errors import ModelError
from pipelines.errors import InternalError, PipelineError
from pipelines.logging_context import logs_are_json

DONE, USAGE, UNREACHABLE, INTERNAL, INTERRUPTED = 0, 2, 3, InternalError.exit_code, 130


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


app = typer.Typer(
    name="vlmsweep",
    help="Batch evaluation of vision-language models on VAGUE, V-FLUTE, MAIA, MATE and UNPIE.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
register(app)


@app.callback()
def _prepare_process(
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="text for people, json: one object a line; accepted anywhere.")
    ] = LogFormat.TEXT,
) -> None:
    log_as_json(enabled=log_format is LogFormat.JSON)
    from jobs.submit.decrypt_env import decrypt_worker_env

    decrypt_worker_env()


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit.

    Exit codes: 0 done; 1 done but more rows failed than allowed; 2 usage or configuration; 3 cluster, store or model
    unreachable; 70 a bug, with its traceback; 130 interrupted.
    """
    signal.signal(signal.SIGTERM, _interrupt)  # a preempted node ends a run as Ctrl-C does
    sys.exit(run(normalize_arguments(sys.argv[1:] if arguments is None else arguments)))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    logging.basicConfig(level=logging.WARNING, format=TEXT_FORMAT)
    logging.captureWarnings(capture=True)
    try:
        code = int(app(args=arguments, standalone_mode=False) or DONE)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except typer.TyperException as error:
        return _fail(error.format_message(), USAGE)
    except (ClusterError, ModelError, PipelineError) as error:
        return _fail(str(error), error.exit_code) if error.exit_code != INTERNAL else _fail_internally(error)
    except Exception as error:  # noqa: BLE001  the edge of the program
        if not _is_failure_of_ray(error):
            return _fail_internally(error)
        first_line = str(error).strip().partition("\n")[0]
        message = f"Ray failed ({type(error).__name__}: {first_line}). Run the same command again to resume"
        return _fail(f"{message}; -v shows Ray's own messages.", UNREACHABLE)
    if code == INTERRUPTED:  # raised, or returned by Typer, which catches KeyboardInterrupt itself
        return _fail("Interrupted. Run the same command again to resume.", INTERRUPTED)
    return code


def _is_failure_of_ray(error: Exception) -> bool:
    """Return whether a part of Ray is gone or timed out; our own exceptions in a Ray task do not count."""
    names = {base.__name__ for base in type(error).__mro__ if base.__module__ == "ray.exceptions"}
    return "RayError" in names and "RayTaskError" not in names


def _fail(message: str, exit_code: int) -> int:
    if logs_are_json():
        logging.getLogger("vlmsweep").error("%s", message, extra={"about": {"exit_code": exit_code}})
    else:
        print_error(f"vlmsweep: {message}")
    return exit_code


def _fail_internally(error: Exception) -> int:
    """Report a bug with its traceback; a worker's is in the error's message."""
    if logs_are_json():
        extra = {"about": {"exit_code": INTERNAL}}
        logging.getLogger("vlmsweep").error("internal error", exc_info=error, extra=extra)
    else:
        print_error("".join(traceback.format_exception(error, chain=not isinstance(error, InternalError))).rstrip())
        print_error("vlmsweep: internal error, please report it. Finished work is kept.")
    return INTERNAL
