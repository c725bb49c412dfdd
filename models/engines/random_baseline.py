"""The chance baseline: guesses drawn by hash. Its script of faults makes it the stand-in for tests and drills."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Text, logprobs_to_text
from models.spec import ModelSpec

_LONGEST_GUESS = 8
_FOR_EVER_S = 86_400.0
"""Words of a guess where nothing is offered to choose from."""


class RandomEngine:
    """Draws from a call's choices, or says some words of its prompt; what is said depends on ids and seed alone.

    A choice is drawn by (seed, call id). Without choices the draw is by (seed, prompt), so that a step which several
    requests share says the same whichever of them asks. Tokens are counted as words.
    """

    warnings: tuple[str, ...] = ()
    has_own_timeout = False

    def __init__(
        self,
        spec: ModelSpec,
        *,
        sleep: Callable[[float], None] = time.sleep,
        die: Callable[[], None] | None = None,
    ) -> None:
        self._seed = spec.seed
        self._faults = spec.fault_injection
        self._sleep = sleep
        self._die = die or _kill_this_process
        self._asked = 0

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, but for those that the script of faults drops."""
        del media  # a guesser is blind
        if calls and self._faults.stall_s:
            self._sleep(self._faults.stall_s)
        for call in reversed(calls) if self._faults.reverse else calls:
            started = time.perf_counter()
            self._misbehave(call)
            if self._faults.drop_every and self._asked % self._faults.drop_every == 0:
                continue
            outcome = self._outcome(call)
            yield CallReply(call_id=call.call_id, outcome=outcome, latency_s=time.perf_counter() - started)

    def close(self) -> None:
        """Nothing is held."""

    def _misbehave(self, call: Call) -> None:
        faults = self._faults
        if faults.die_after is not None and self._asked >= faults.die_after:
            self._die()
        if faults.die_on is not None and any(faults.die_on in text for text in _texts(call)):
            self._die()
        if faults.hang_on is not None and any(faults.hang_on in text for text in _texts(call)):
            self._sleep(_FOR_EVER_S)
        self._asked += 1
        if faults.journal is not None:
            _note(faults.journal, call.call_id)
        if faults.call_s:
            self._sleep(faults.call_s)

    def _outcome(self, call: Call) -> Answer | Failure:
        faults = self._faults
        request_id = call.call_id.rpartition("/")[0] or call.call_id
        if request_id in faults.fail_ids:
            return Failure(type="injected", message=f"{request_id} is in the script's fail_ids")
        if _share(self._seed, "fail", call.call_id) < faults.fail_share:
            return Failure(type="injected", message=f"within the script's fail_share of {faults.fail_share:g}")
        asked = sum(len(text.split()) for text in _texts(call))
        if call.scored:
            means = [-_share(self._seed, f"score {index}", call.call_id) for index in range(len(call.scored))]
            return Answer(text=logprobs_to_text(means, [len(text.split()) for text in call.scored]), input_tokens=asked)
        if faults.answer is not None:
            return Answer(text=faults.answer, input_tokens=asked, output_tokens=len(faults.answer.split()))
        guess = self._guess(call)
        words = guess.split()
        limit = call.generation.max_new_tokens
        if len(words) > limit:
            return Answer(text=" ".join(words[:limit]), finish_reason="length", input_tokens=asked, output_tokens=limit)
        return Answer(text=guess, input_tokens=asked, output_tokens=len(words))

    def _guess(self, call: Call) -> str:
        if call.choices:
            return call.choices[_draw(self._seed, "choice", call.call_id) % len(call.choices)]
        words = next((text.split() for text in reversed(_texts(call)) if text.strip()), [])
        if not words:
            return ""
        prompt = repr([(turn.role, turn.parts) for turn in call.turns])
        length = 1 + _draw(self._seed, "length", prompt) % min(_LONGEST_GUESS, len(words))
        start = _draw(self._seed, "start", prompt) % (len(words) - length + 1)
        return " ".join(words[start : start + length])


def _texts(call: Call) -> list[str]:
    return [part.text for turn in call.turns for part in turn.parts if isinstance(part, Text)]


def _draw(seed: int, purpose: str, subject: str) -> int:
    """64 even bits that depend on the arguments alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{purpose}|{subject}".encode()).digest()[:8], "big")


def _share(seed: int, purpose: str, subject: str) -> float:
    return _draw(seed, purpose, subject) / 2**64


def _note(journal: str, call_id: str) -> None:
    """One line in one write: lines of several processes do not mix."""
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{call_id}\n".encode())
    finally:
        os.close(file)


def _kill_this_process() -> None:
    """As hard as a device that falls off its bus: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)
