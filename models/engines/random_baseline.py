"""The chance baseline: guesses drawn by hash, or one answer to everything."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from models.messages import DEFAULT_SEED, Answer, Call, CallReply, Frames, Media, Text, logprobs_to_text
from models.spec import ModelSpec

_MAX_GUESS_WORDS = 8  # words of a guess for a call without choices


class RandomEngine:
    """Draws one of a call's choices, or some words of its prompt.

    A choice is drawn by (seed, call id). Without choices the draw is by (seed, prompt), so that a step shared by
    several requests has one answer. Tokens are counted as words.
    """

    warnings: tuple[str, ...] = ()
    has_own_timeout = False

    def __init__(self, spec: ModelSpec) -> None:
        self._seed, self._answer = spec.seed, spec.answer

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call."""
        del media  # guesses do not depend on pixels
        for call in calls:
            started = time.perf_counter()
            outcome = self._outcome(call)
            yield CallReply(call_id=call.call_id, outcome=outcome, latency_s=time.perf_counter() - started)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def _outcome(self, call: Call) -> Answer:
        prompt_tokens = sum(len(text.split()) for text in _texts(call))
        if call.scored:
            means = [-draw(self._seed, f"score {index}", call.call_id) / 2**64 for index in range(len(call.scored))]
            return Answer(
                text=logprobs_to_text(means, [len(text.split()) for text in call.scored]), input_tokens=prompt_tokens
            )
        guess = self._guess(call) if self._answer is None else self._answer
        words, limit = guess.split(), call.generation.max_new_tokens
        answer = Answer(text=guess, input_tokens=prompt_tokens, output_tokens=len(words))
        if self._answer is None and len(words) > limit:
            return replace(answer, text=" ".join(words[:limit]), finish_reason="length", output_tokens=limit)
        return answer

    def _guess(self, call: Call) -> str:
        if call.choices:
            return call.choices[draw(self._seed, "choice", call.call_id) % len(call.choices)]
        words = next((text.split() for text in reversed(_texts(call)) if text.strip()), [])
        if not words:
            return ""
        prompt = repr([(turn.role, turn.parts) for turn in call.turns])
        seed = self._seed + call.generation.seed - DEFAULT_SEED  # repeats of a request have other seeds
        length = 1 + draw(seed, "length", prompt) % min(_MAX_GUESS_WORDS, len(words))
        start = draw(seed, "start", prompt) % (len(words) - length + 1)
        return " ".join(words[start : start + length])


def _texts(call: Call) -> list[str]:
    return [part.text for turn in call.turns for part in turn.parts if isinstance(part, Text)]


def draw(seed: int, name: str, key: str) -> int:
    """Return 64 uniform bits that depend on the arguments alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{name}|{key}".encode()).digest()[:8], "big")
