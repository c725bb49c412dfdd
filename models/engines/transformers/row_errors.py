"""Errors that cost the rows of one batch, as opposed to those that end an engine."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import jinja2
import torch
from torch import distributed

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

AGREEMENT_TIMEOUT = timedelta(seconds=60)
"""For the other ranks to run out of memory too: after it, one of them has not, or at another place, and waits."""


class RankAgreement:
    """A side group of ranks that share a model, on the CPU: one without memory on its GPU can still take part."""

    def __init__(self, timeout: timedelta = AGREEMENT_TIMEOUT) -> None:
        """Join the side group; every rank must."""
        self._group: Any = distributed.new_group(backend="gloo", timeout=timeout)
        self._attempts = 0

    def begin(self) -> None:
        """Count an attempt: ranks agree on the same one only."""
        self._attempts += 1

    def have_all_failed(self) -> bool:
        """Return whether all ranks are here in the same attempt, after as many collectives of the model."""
        world: Any = distributed.group.WORLD
        place = torch.tensor([self._attempts, world._get_sequence_number_for_group()])  # noqa: SLF001  no public name
        places = [torch.empty_like(place) for _ in range(distributed.get_world_size())]
        try:
            distributed.all_gather(places, place, group=self._group)
        except RuntimeError:  # a rank is gone, or waits for this one in a collective of the model
            return False
        return all(torch.equal(other, place) for other in places)


def join_ranks() -> RankAgreement | None:
    """Return the agreement with the other ranks of a group; None in a process of its own."""
    return RankAgreement() if distributed.is_initialized() and distributed.get_world_size() > 1 else None


def attempt(action: Callable[[], T], model_name: str, ranks: RankAgreement | None = None) -> T | Exception:
    """Return the result, or the error without the frames that would keep its tensors alive.

    Out of memory is a result like others where all `ranks` of a group agree on it.

    Raises:
        DeviceFailedError: no later call of this process can succeed.
        EngineDiedError: a rank of a group failed where the others may not have; they would wait for it forever.
        Exception: one of `BUGS`, as it is.
    """
    if ranks:
        ranks.begin()
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
        may_be_alone = ranks is not None and isinstance(error, (RuntimeError, MemoryError, OSError))
        if ranks and may_be_alone and not (is_out_of_memory(error) and ranks.have_all_failed()):
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


def not_finite_reply(call: Call, tokens: int, dtype: torch.dtype) -> CallReply:
    """Return the reply of a call whose logits overflowed after some tokens."""
    if dtype == torch.float16:
        remedy = "values exceed the range of float16: set `dtype: bfloat16` or `float32` in its entry"
    else:
        remedy = "the weights are damaged: fetch the checkpoint again, or try `dtype: float32` in its entry"
    message = f"logits are not finite after {tokens} tokens of the answer: {remedy}"
    return CallReply(call_id=call.call_id, outcome=Failure(type="not_finite", message=message))


def failure_reply(call: Call, error: Exception, kind: str = "compute") -> CallReply:
    """Return the reply of a call that an error ended."""
    failure_type = "out_of_memory" if is_out_of_memory(error) else kind
    failure = Failure(type=failure_type, message=f"{type(error).__name__}: {error}")
    return CallReply(call_id=call.call_id, outcome=failure)
