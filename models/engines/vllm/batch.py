"""One batch on vLLM: prompts are added one by one, so that one that is refused costs no other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import vllm

from models.engines.context_errors import is_too_long
from models.errors import BUGS, EngineDiedError
from models.messages import Call, Failure

_GIVEN_UP = Failure(type="engine_error", message="vllm gave this prompt up, twice; its log says why")
_SEEDS = 2**63
_ATTEMPTS = 2
"""Of a prompt that vLLM gives up: it asks to send one again whose media its two processes do not both cache."""
_NO_ANSWER = ("error", "abort")  # finish reasons of a prompt that was not answered; its output holds no or half a text


@dataclass(frozen=True, slots=True)
class Submission:
    """One prompt as vLLM takes it; `scored` counts its last tokens whose log-probabilities are asked for."""

    call: Call
    prompt: dict[str, Any]
    scored: int = 0


def complete(llm: Any, submissions: Sequence[Submission], lora: Any) -> list[Any]:
    """Return vLLM's output for each prompt, or a `Failure`.

    Raises:
        EngineDiedError: a process of vLLM ended, or vLLM failed while it computed: nothing is known of its state.
    """
    results: list[Any] = [_GIVEN_UP] * len(submissions)
    open_indices = list(range(len(submissions)))
    for _ in range(_ATTEMPTS):
        accepted = []
        for index in open_indices:
            failure = _enqueue(llm, submissions[index], lora)
            if failure is None:
                accepted.append(index)
            else:
                results[index] = failure
        open_indices = []
        for index, output in zip(accepted, _wait(llm) if accepted else [], strict=True):
            if output.outputs[0].finish_reason in _NO_ANSWER:
                open_indices.append(index)
            else:
                results[index] = output
    return results


def rejection(error: Exception) -> Failure:
    """Return the failure of a prompt that cannot be built, or that vLLM rejects."""
    kind = "context_length" if is_too_long(str(error)) else type(error).__name__
    return Failure(type=kind, message=str(error))


def _enqueue(llm: Any, submission: Submission, lora: Any) -> Failure | None:
    """Add a prompt, or return why it was rejected."""
    try:
        llm.enqueue(
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
    return None


def _wait(llm: Any) -> list[Any]:
    """Return the outputs of all prompts that were added, in their order."""
    try:
        outputs: list[Any] = llm.wait_for_completion(use_tqdm=False)
    except Exception as error:
        raise EngineDiedError(f"vllm's engine failed while it answered: {error}") from error
    return outputs


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
