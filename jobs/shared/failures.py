"""Exit codes, and the message with which a failed command ends."""

import logging
import sys
import traceback
from typing import Any

import typer

from cluster.errors import ClusterError
from jobs.shared.output import STDOUT_PROBLEM, print_error, settle_streams
from models.errors import ModelError
from models.guards.regular_files import NotRegularError
from pipelines.errors import InternalError, PipelineError, UsageError
from pipelines.logging_context import logs_are_json
from pipelines.storage.errors import describe, is_machine_failure

DONE, USAGE, UNREACHABLE, INTERNAL, INTERRUPTED = 0, 2, 3, InternalError.exit_code, 130
READER_LEFT = 141
"""The code with which a shell reports other programs whose output is read no further, such as `cat` before `head`."""


def report_failure(error: Exception) -> int:
    """Report the error that ended a command and return its exit code; a bug is reported with its traceback."""
    if isinstance(error, typer.TyperException):
        return _fail(_usage_message(error), USAGE)
    if isinstance(error, UnicodeEncodeError) and error.encoding == sys.getfilesystemencoding() != "utf-8":
        error = UsageError(encoding_problem(error.object))
    if isinstance(error, NotRegularError):
        error = UsageError(f"{error.filename}: {error}")
    if isinstance(error, (ClusterError, ModelError, PipelineError)) and error.exit_code != INTERNAL:
        return _fail(str(error), error.exit_code)
    if isinstance(error, OSError) and (problem := settle_streams()):
        return _fail(f"{STDOUT_PROBLEM}: {problem}", UNREACHABLE)
    if is_machine_failure(error):
        return _fail(describe(error), UNREACHABLE)
    if not _is_failure_of_ray(error):
        return _fail_internally(error)
    first_line = str(error).strip().partition("\n")[0]
    message = f"Ray failed ({type(error).__name__}: {first_line}). Run the same command again to resume"
    return _fail(f"{message}; -v shows Ray's own messages.", UNREACHABLE)


def encoding_problem(path: str) -> str:
    """Return that a path cannot be used in this shell, and the remedy."""
    shown = path.encode(errors="surrogateescape").decode(errors="replace")
    problem = f"{shown!r} cannot be used in a shell whose encoding is {sys.getfilesystemencoding()}"
    return f"{problem}: rename it, or set LC_ALL=C.UTF-8 and leave PYTHONUTF8=0 out"


def _usage_message(error: typer.TyperException) -> str:
    """Return the message of a wrong command line: all options that are missing at once, or the commands there are."""
    context = getattr(error, "ctx", None)
    message = error.format_message().partition(", unable to parse")[0]
    message = message.replace("Input should be a valid integer", "it must be a whole number")
    message = message.replace("Input should be", "it must be").replace("a valid number", "a number")
    if context is None:
        return message
    if message.startswith("No such command") and "Did you mean" not in message:
        option = "--" + message.split("'")[1]
        if any(option in item.opts for item in context.command.params):
            return f"{message} Did you mean '{option}'?"
        return f"{message} Commands: {', '.join(context.command.commands)}."
    return _missing(message, context) if type(error).__name__ == "MissingParameter" else message


def _missing(message: str, context: Any) -> str:
    """Return which parameters are missing: all of them, or what the only one is."""
    absent = [item for item in context.command.params if item.required and item.name not in context.params]
    if len(absent) == 1 and absent[0].param_type_name == "argument" and absent[0].help:
        return f"{message.rstrip('.')}: {absent[0].help.rstrip('.')}."
    if len(absent) < 2:
        return message
    return f"Missing {', '.join(item.get_error_hint() for item in absent)}."


def report_interrupt() -> int:
    """Report that the command was interrupted and return its exit code."""
    return _fail("Interrupted. Run the same command again to resume.", INTERRUPTED)


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
