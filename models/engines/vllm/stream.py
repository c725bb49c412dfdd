"""A stream of prompts on vLLM: they are added one by one, so that one that is refused costs no other."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import vllm

from models.engines.context_errors import is_too_long
from models.errors import BUGS, EngineDiedError
from models.messages import Call, Failure

_GIVEN_UP = Failure(type="engine_error", message="vllm gave this prompt up, twice; its log says why")
_SEEDS = 2**63
_ATTEMPTS = 2
"""Of a prompt that vLLM gives up: it asks to send one again whose media its two processes do not both cache."""
_ADDED_A_STEP = 8  # prompts that are preprocessed, where no place is free, before the next outputs are handed out
_NO_ANSWER = ("error", "abort")  # finish reasons of a prompt that was not answered; its output holds no or half a text


@dataclass(frozen=True, slots=True)
class Submission:
    """One prompt as vLLM takes it; `scored` counts its last tokens whose log-probabilities are asked for."""

    call: Call
    prompt: dict[str, Any]
    scored: int = 0


@dataclass(slots=True)
class _Ask:
    """A prompt that a thread waits for."""

    index: int
    submission: Submission
    results: SimpleQueue[tuple[int, Any, float]]
    attempts: int = 0


class PromptStream:
    """Feeds one engine of vLLM with the prompts of several threads, so that none waits for the slowest of another.

    A thread of its own adds prompts and runs the engine's steps: vLLM's offline engine belongs to one thread.
    """

    def __init__(self, llm: Any, lora: Any, places: int) -> None:
        """`places` is the number of prompts that the engine computes together."""
        self._llm, self._lora, self._places = llm, lora, places
        self._asks: SimpleQueue[_Ask | None] = SimpleQueue()
        self._open: dict[str, _Ask] = {}
        self._error: Exception | None = None
        self._last = monotonic()
        self._thread = threading.Thread(target=self._serve, name="vllm-stream", daemon=True)
        self._thread.start()

    def complete(self, submissions: Sequence[Submission]) -> Iterator[tuple[int, Any, float]]:
        """Yield the index of each prompt with vLLM's output for it, or a `Failure`, as they come.

        Third comes the prompt's share of the time since the engine's last output, in seconds.

        Raises:
            EngineDiedError: a process of vLLM ended, or vLLM failed while it computed: nothing is known of its state.
        """
        results: SimpleQueue[tuple[int, Any, float]] = SimpleQueue()
        for index, submission in enumerate(submissions):
            self._asks.put(_Ask(index, submission, results))
        for _ in submissions:
            index, output, seconds = results.get()
            if isinstance(output, Exception):
                raise output
            yield index, output, seconds

    def close(self) -> None:
        """End the thread; what it waits for in the engine ends with that."""
        self._asks.put(None)

    def _serve(self) -> None:
        while (asks := self._next_asks()) is not None:
            for ask in asks:
                self._add(ask)
            if self._open and self._error is None:
                try:
                    self._step()
                except Exception as error:  # noqa: BLE001  raised again where its prompts are waited for
                    self._error = error
            if self._error is not None:
                for ask in self._open.values():
                    ask.results.put((ask.index, self._error, 0.0))
                self._open.clear()

    def _next_asks(self) -> list[_Ask] | None:
        """Return prompts that wait, as many as there are free places, or a few ahead of them; None at the end."""
        asks: list[_Ask] = []
        most = max(_ADDED_A_STEP, self._places - len(self._open))
        while len(asks) < most:
            try:
                ask = self._asks.get(block=not asks and not self._open)
            except Empty:
                break
            if ask is None:
                return None
            asks.append(ask)
        return asks

    def _add(self, ask: _Ask) -> None:
        result: str | Failure | Exception
        if self._error is None:
            try:
                result = _enqueue(self._llm, ask.submission, self._lora)
            except EngineDiedError as error:
                self._error = error
            except Exception as error:  # noqa: BLE001  raised again where the prompt is waited for
                result = error
        if self._error is not None:
            ask.results.put((ask.index, self._error, 0.0))
        elif isinstance(result, str):
            self._open[result] = ask
        else:
            ask.results.put((ask.index, result, 0.0))

    def _step(self) -> None:
        """Let the engine compute, and hand out what it has finished."""
        try:
            outputs = [output for output in self._llm.llm_engine.step() if output.finished]
        except Exception as error:
            raise EngineDiedError(f"vllm's engine failed while it answered: {error}") from error
        now = monotonic()
        seconds, self._last = (now - self._last) / max(1, len(outputs)), now if outputs else self._last
        for output in outputs:
            reason, ask = output.outputs[0].finish_reason, self._open.pop(output.request_id)
            ask.attempts += 1
            if reason not in _NO_ANSWER:
                ask.results.put((ask.index, output, seconds))
            elif ask.attempts < _ATTEMPTS:
                self._asks.put(ask)
            else:
                ask.results.put((ask.index, _GIVEN_UP, seconds))


def rejection(error: Exception) -> Failure:
    """Return the failure of a prompt that cannot be built, or that vLLM rejects."""
    kind = "context_length" if is_too_long(str(error)) else type(error).__name__
    return Failure(type=kind, message=str(error))


def _enqueue(llm: Any, submission: Submission, lora: Any) -> str | Failure:
    """Add a prompt, and return its number; or why it was rejected."""
    try:
        (name,) = llm.enqueue(
            [submission.prompt],
            [_sampling(submission)],
            use_tqdm=False,
            lora_request=lora,
            tokenization_kwargs={"add_special_tokens": False},  # the chat template has added them
        )
    except Exception as error:  # vLLM's own classes; it wraps what a model's preprocessing raises in a ValueError
        if _is_engine_dead(error):
            raise EngineDiedError(f"vllm's engine died: {error}") from error
        if isinstance(error, BUGS):
            raise
        return rejection(error)
    return str(name).partition("-")[0]  # its outputs are named without the ending that vLLM makes it unique by


def _sampling(submission: Submission) -> Any:
    if submission.scored:
        return vllm.SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0)
    generation = submission.call.generation
    return vllm.SamplingParams(
        temperature=generation.temperature, max_tokens=generation.max_new_tokens, seed=generation.seed % _SEEDS
    )


def _is_engine_dead(error: BaseException | None) -> bool:
    """Look for vLLM's error by name along the chain of causes: its module differs between versions."""
    while error is not None:
        if type(error).__name__ == "EngineDeadError":
            return True
        error = error.__cause__
    return False
