"""The engine `scripted`: the guessing model with scripted misbehaviour, in a replica as a model with weights."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from models.engines.random_baseline import RandomEngine, draw
from models.entry_fields import Replicas, StrictModel
from models.errors import DeviceFailedError, EngineUnreachableError
from models.messages import DEFAULT_SEED, Call, CallReply, Failure, Frames, Media, Text
from models.spec import RandomEntry

_HANG_S = 86_400.0


class FaultInjection(StrictModel):
    """Scripted misbehaviour."""

    fail_share: float = Field(default=0.0, ge=0.0, le=1.0)  # share of calls, drawn by id, that fail
    fail_ids: tuple[str, ...] = ()  # requests that always fail, by request id: a call's id up to its last `/`
    die_after: int | None = Field(default=None, ge=0)  # the process exits at the call after this many
    die_on: str | None = None  # the process exits on a prompt that holds this text
    hang_on: str | None = None  # a prompt that holds this text is never answered
    cuda_error_on: str | None = None  # the device fails at a prompt that holds this text
    cuda_error_once: str | None = None  # the device fails at the first call of the process that creates this file
    on_gpu: bool = False  # replicas are placed on GPUs, and use none
    in_driver: bool = False  # answered in the driver, without a replica: the same request ids, nothing to kill
    cuda_error_at: str | None = None  # the device of processes that Ray gave these GPUs fails at each call
    fail_load_once: str | None = None  # the process that creates this file cannot load the model
    stall_s: float = Field(default=0.0, ge=0.0)  # seconds spent on each group of calls
    call_s: float = Field(default=0.0, ge=0.0)  # seconds spent on each call
    reverse: bool = False  # answer each group of calls in reverse order
    journal: str | None = None  # local file to which call ids are appended before the answers: shows repeats
    drop_every: int | None = Field(default=None, ge=1)  # leave every n-th call unanswered, against the contract


class ScriptedEntry(RandomEntry):
    """An entry with scripted misbehaviour."""

    engine: Literal["scripted"] = "scripted"  # type: ignore[assignment]
    builder = "tests.support.scripted_engine:ScriptedEngine"
    fault_injection: FaultInjection = FaultInjection()

    @property
    def needs_no_isolation(self) -> bool:  # type: ignore[override]
        """Whether the driver answers on one machine, as it does for the guessing model."""
        return self.fault_injection.in_driver

    @property
    def can_use_gpu(self) -> bool:
        """Whether a replica is placed on GPUs, as the real engine that it stands in for."""
        return self.fault_injection.on_gpu


def scripted(*, replicas: int = 1, seed: int = DEFAULT_SEED, answer: str | None = None, **faults: Any) -> ScriptedEntry:
    """Return an entry with these faults."""
    return ScriptedEntry(
        replicas=Replicas(max=replicas), seed=seed, answer=answer, fault_injection=FaultInjection(**faults)
    )


class ScriptedEngine(RandomEngine):
    """Guesses, except where its faults are."""

    def __init__(
        self, spec: ScriptedEntry, *, sleep: Callable[[float], None] = time.sleep, die: Callable[[], None] | None = None
    ) -> None:
        super().__init__(spec)
        self._faults = spec.fault_injection
        if self._faults.fail_load_once and _is_first(self._faults.fail_load_once):
            raise EngineUnreachableError("the model cannot be loaded: injected")
        self._sleep = sleep
        self._die = die or _kill_this_process
        self._calls = 0

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, except those that faults drop."""
        if calls and self._faults.stall_s:
            self._sleep(self._faults.stall_s)
        for call in reversed(calls) if self._faults.reverse else calls:
            started = time.perf_counter()
            self._inject_faults(call)
            if self._faults.drop_every and self._calls % self._faults.drop_every == 0:
                continue
            (reply,) = super().generate([call], media)
            reply = replace(reply, latency_s=time.perf_counter() - started)
            yield replace(reply, outcome=failure) if (failure := self._failure(call)) else reply

    def _inject_faults(self, call: Call) -> None:
        faults = self._faults
        if faults.die_after is not None and self._calls >= faults.die_after:
            self._die()
        if _mentions(call, faults.die_on):
            self._die()
        if _mentions(call, faults.cuda_error_on):
            raise DeviceFailedError("the device failed: CUDA error: device-side assert triggered")
        is_broken = faults.cuda_error_at is not None and faults.cuda_error_at == os.environ.get("CUDA_VISIBLE_DEVICES")
        if is_broken or (faults.cuda_error_once and _is_first(faults.cuda_error_once)):
            raise DeviceFailedError("the device failed: CUDA error: uncorrectable ECC error encountered")
        if _mentions(call, faults.hang_on):
            self._sleep(_HANG_S)
        self._calls += 1
        if faults.journal is not None:
            with Path(faults.journal).open("ab", buffering=0) as file:
                file.write(f"{call.call_id}\n".encode())  # in one write: lines of several processes do not mix
        if faults.call_s:
            self._sleep(faults.call_s)

    def _failure(self, call: Call) -> Failure | None:
        request_id = call.call_id.rpartition("/")[0] or call.call_id
        if request_id in self._faults.fail_ids:
            return Failure(type="injected", message=f"{request_id} is in fail_ids")
        share = self._faults.fail_share
        if share and draw(self._seed, "fail", call.call_id) / 2**64 < share:
            return Failure(type="injected", message=f"within the fail_share of {share:g}")
        return None


def _mentions(call: Call, part: str | None) -> bool:
    texts = (text for turn in call.turns for text in turn.parts if isinstance(text, Text))
    return part is not None and any(part in text.text for text in texts)


def _is_first(path: str) -> bool:
    """Create a file; return whether it was not there."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _kill_this_process() -> None:
    """Kill this process as a lost device would: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)
