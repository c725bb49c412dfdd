"""The chance baseline: guesses drawn by hash. With fault injection it stands in for real engines in tests."""

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from models.environment import visible_gpus
from models.errors import DeviceFailedError, EngineUnreachableError
from models.messages import DEFAULT_SEED, Answer, Call, CallReply, Failure, Frames, Media, Text, logprobs_to_text
from models.spec import ModelSpec

_MAX_GUESS_WORDS = 8  # words of a guess for a call without choices
_HANG_S = 86_400.0


class RandomEngine:
    """Draws one of a call's choices, or some words of its prompt.

    A choice is drawn by (seed, call id). Without choices the draw is by (seed, prompt), so that a step shared by
    several requests has one answer. Tokens are counted as words.
    """

    warnings: tuple[str, ...] = ()
    has_own_timeout = False

    def __init__(
        self, spec: ModelSpec, *, sleep: Callable[[float], None] = time.sleep, die: Callable[[], None] | None = None
    ) -> None:
        self._seed = spec.seed
        self._faults = spec.fault_injection
        if self._faults.fail_load_once and _is_first(self._faults.fail_load_once):
            raise EngineUnreachableError("the model cannot be loaded: injected")
        self._sleep = sleep
        self._die = die or _kill_this_process
        self._calls = 0

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, except those that fault injection drops."""
        del media  # guesses do not depend on pixels
        if calls and self._faults.stall_s:
            self._sleep(self._faults.stall_s)
        for call in reversed(calls) if self._faults.reverse else calls:
            started = time.perf_counter()
            self._inject_faults(call)
            if self._faults.drop_every and self._calls % self._faults.drop_every == 0:
                continue
            outcome = self._outcome(call)
            yield CallReply(call_id=call.call_id, outcome=outcome, latency_s=time.perf_counter() - started)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def _inject_faults(self, call: Call) -> None:
        faults = self._faults
        if faults.die_after is not None and self._calls >= faults.die_after:
            self._die()
        if _mentions(call, faults.die_on):
            self._die()
        if _mentions(call, faults.cuda_error_on):
            raise DeviceFailedError("the device failed: CUDA error: device-side assert triggered")
        is_broken = faults.cuda_error_at is not None and faults.cuda_error_at == visible_gpus()
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

    def _outcome(self, call: Call) -> Answer | Failure:
        faults = self._faults
        request_id = call.call_id.rpartition("/")[0] or call.call_id
        if request_id in faults.fail_ids:
            return Failure(type="injected", message=f"{request_id} is in fail_ids")
        if faults.fail_share and _share(self._seed, "fail", call.call_id) < faults.fail_share:
            return Failure(type="injected", message=f"within the fail_share of {faults.fail_share:g}")
        prompt_tokens = sum(len(text.split()) for text in _texts(call))
        if call.scored:
            means = [-_share(self._seed, f"score {index}", call.call_id) for index in range(len(call.scored))]
            return Answer(
                text=logprobs_to_text(means, [len(text.split()) for text in call.scored]), input_tokens=prompt_tokens
            )
        guess = self._guess(call) if faults.answer is None else faults.answer
        words, limit = guess.split(), call.generation.max_new_tokens
        answer = Answer(text=guess, input_tokens=prompt_tokens, output_tokens=len(words))
        if faults.answer is None and len(words) > limit:
            return replace(answer, text=" ".join(words[:limit]), finish_reason="length", output_tokens=limit)
        return answer

    def _guess(self, call: Call) -> str:
        if call.choices:
            return call.choices[_draw(self._seed, "choice", call.call_id) % len(call.choices)]
        words = next((text.split() for text in reversed(_texts(call)) if text.strip()), [])
        if not words:
            return ""
        prompt = repr([(turn.role, turn.parts) for turn in call.turns])
        seed = self._seed + call.generation.seed - DEFAULT_SEED  # repeats of a request have other seeds
        length = 1 + _draw(seed, "length", prompt) % min(_MAX_GUESS_WORDS, len(words))
        start = _draw(seed, "start", prompt) % (len(words) - length + 1)
        return " ".join(words[start : start + length])


def _texts(call: Call) -> list[str]:
    return [part.text for turn in call.turns for part in turn.parts if isinstance(part, Text)]


def _mentions(call: Call, part: str | None) -> bool:
    return part is not None and any(part in text for text in _texts(call))


def _draw(seed: int, name: str, key: str) -> int:
    """Return 64 uniform bits that depend on the arguments alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{name}|{key}".encode()).digest()[:8], "big")


def _share(seed: int, purpose: str, subject: str) -> float:
    return _draw(seed, purpose, subject) / 2**64


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
