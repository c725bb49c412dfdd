"""The command line. Each command parses, builds a spec, runs it, and maps how it ended to an exit code."""

from __future__ import annotations

import logging
import signal
import sys
from enum import StrEnum
from types import FrameType
from typing import Annotated

import typer

from jobs.cli.options import normalize_arguments
from jobs.cli.register import register
from jobs.output import TEXT_FORMAT, log_as_json, print_error
from pipelines.logging_context import logs_are_json

DONE, FAILED_ROWS, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130


class LogFormat(StrEnum):
    """How log lines are written."""

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
def _everywhere(
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="text for people, json: an object a line; may stand anywhere.")
    ] = LogFormat.TEXT,
) -> None:
    log_as_json(wanted=log_format is LogFormat.JSON)
    from jobs.submit.decrypt_env import decrypt_worker_env

    decrypt_worker_env()


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit.

    Exit codes: 0 done; 1 done but more rows failed than allowed; 2 usage or configuration; 3 cluster, store or model
    out of reach; 130 interrupted.
    """
    signal.signal(signal.SIGTERM, _interrupt)  # a spot warning ends a run as Ctrl-C does
    sys.exit(run(normalize_arguments(sys.argv[1:] if arguments is None else arguments)))


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code."""
    logging.basicConfig(level=logging.WARNING, format=TEXT_FORMAT)
    logging.captureWarnings(capture=True)
    try:
        code = int(app(args=arguments, standalone_mode=False) or DONE)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except typer.TyperException as problem:
        return _ended(problem.format_message(), USAGE)
    except Exception as problem:
        known = _code_of(problem)
        if known is None:
            if not logs_are_json():
                raise
            logging.getLogger("vlmsweep").exception("a fault of the program")
            return FAILED_ROWS
        return _ended(_error_message(problem), known)
    return _ended("interrupted; the same command goes on from here", code) if code == INTERRUPTED else code


def _code_of(problem: Exception) -> int | None:
    """The exit code of an error that is told to the user by its message alone; None for ours."""
    from cluster.errors import ClusterError
    from pipelines.errors import ModelUnavailableError, StoreError

    if isinstance(problem, (ClusterError, ModelUnavailableError, StoreError)) or _of_ray(problem):
        return UNREACHABLE
    # DatasetError, SourceError, ModelsFileError, UnknownNameError and their like are ValueErrors with a remedy.
    return USAGE if isinstance(problem, ValueError) else None


def _error_message(problem: Exception) -> str:
    if not _of_ray(problem):
        return str(problem)
    first = str(problem).strip().partition("\n")[0]
    return f"Ray failed ({type(problem).__name__}: {first}); the same command goes on, and -v shows Ray's own words"


def _of_ray(problem: Exception) -> bool:
    """Whether a part of Ray is gone or took too long; what our own code raises in a task of Ray's is ours."""
    kinds = {kind.__name__ for kind in type(problem).__mro__ if kind.__module__ == "ray.exceptions"}
    return "RayError" in kinds and "RayTaskError" not in kinds


def _ended(message: str, code: int) -> int:
    if logs_are_json():
        logging.getLogger("vlmsweep").error("%s", message, extra={"about": {"exit_code": code}})
    else:
        print_error(f"vlmsweep: {message}")
    return code


if __name__ == "__main__":
    main()
