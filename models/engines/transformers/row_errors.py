"""Errors that cost the rows of one batch, as opposed to those that end an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jinja2
import torch

from models.errors import BUGS, DeviceFailedError, EngineDiedError, PrefixSharingUnsupportedError
from models.messages import Call, CallReply, Failure

T = TypeVar("T")

ROW_ERRORS: tuple[type[Exception], ...] = (
    ValueError,  # a processor or the model rejects a picture, its number or a text
    ArithmeticError,  # of a processor, by the size of a picture
    RuntimeError,  # of torch: a size that a kernel does not take, or no memory
    MemoryError,
    OSError,  # of Pillow, for a damaged picture
    jinja2.TemplateError,  # a chat template rejects the order of turns
)
"""Errors that the content of one call can cause in a processor, a template or a model; not those in `BUGS`."""


def attempt(action: Callable[[], T], model_name: str) -> T | Exception:
    """Return the result, or the error without the frames that would keep its tensors alive.

    Raises:
        DeviceFailedError: no later call of this process can succeed.
        EngineDiedError: a rank of a group failed where the others may not have; they would wait for it forever.
        Exception: one of `BUGS`, as it is.
    """
    try:
        return action()
    except PrefixSharingUnsupportedError as error:
        return error.with_traceback(None)
    except BUGS:
        raise
    except ROW_ERRORS as error:
        is_device_error = "CUDA error" in str(error) or "device-side assert" in str(error)
        if is_device_error and not is_out_of_memory(error):
            raise DeviceFailedError(f"{model_name}: the device failed: {error}") from error
        # Deterministic Python errors occur in all ranks; these may occur in one only.
        if torch.distributed.is_initialized() and isinstance(error, (RuntimeError, MemoryError, OSError)):
            raise EngineDiedError(f"{type(error).__name__}: {error}") from error
        return error.with_traceback(None)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error of torch means that memory ran out, on a GPU or on the CPU."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(
        text in str(error)
        for text in ("can't allocate memory", "not enough memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    )


def failure_reply(call: Call, error: Exception, kind: str = "compute") -> CallReply:
    """Return the reply of a call that an error ended."""
    failure_type = "out_of_memory" if kind == "compute" and is_out_of_memory(error) else kind
    return CallReply(
        call_id=call.call_id, outcome=Failure(type=failure_type, message=f"{type(error).__name__}: {error}")
    )
