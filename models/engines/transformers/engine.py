"""The `transformers` engine: any vision-language or text model with a chat template, on GPU or CPU.

Calls that begin with the same pictures or clips are answered as one: the pixels and all common tokens are read once.
What cannot be shared goes in plain batches.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TypeVar

import torch

from models.engines.transformers.checkpoint import load_checkpoint
from models.engines.transformers.logprobs import Scorer
from models.engines.transformers.media_inputs import PixelLimit
from models.engines.transformers.memory import Memory, is_out_of_memory
from models.engines.transformers.padded_batch import PaddedBatchModel
from models.engines.transformers.prefix_sharing import SharedModel, SharedPrompt, unshareable
from models.engines.transformers.prompts import ROW_ERRORS, Prompt, PromptMaker
from models.engines.transformers.sampling import GeneratedTokens
from models.engines.transformers.token_lower_bound import least_tokens
from models.errors import EngineDiedError, EngineUnreachableError, PrefixSharingUnsupportedError
from models.launch import LaunchedModel
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, decoding_name
from models.spec import ModelSpec

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class TransformersEngine:
    """Answers calls with a checkpoint of transformers; see `models.engines.base.Engine`.

    Input tokens are those of the prompt, pixels included; output tokens count the end token; cached tokens are those
    that an earlier call had paid for. `latency_s` is the time of the batches in which a call was read and answered.
    """

    has_own_timeout = False

    def __init__(self, spec: ModelSpec, *, launched: LaunchedModel | None = None) -> None:
        """Load the model.

        Args:
            spec: the model.
            launched: the same model with its files fetched already.

        Raises:
            EngineUnreachableError: it is unavailable; the message gives cause and remedy.
        """
        self._checkpoint = load_checkpoint(spec, launched)
        self._maker = PromptMaker(self._checkpoint, spec)
        self._memory = Memory(self._checkpoint, spec)
        self._plain = PaddedBatchModel(self._checkpoint)
        self._scorer = Scorer(self._checkpoint, self._maker)
        self._plain_reason: str | None = None
        self._shared = self._share()
        if not spec.share_prefix:
            self._go_plain("share_prefix is false")
        if (
            hasattr(self._checkpoint.model, "hf_device_map")
            and len(set(self._checkpoint.model.hf_device_map.values())) > 1
        ):
            self._go_plain("its layers lie on several devices")
        self._max_len = spec.limits.max_model_len or self._checkpoint.max_len
        self._model_name = spec.model
        self._least: dict[str, int] = {}
        self.warnings: tuple[str, ...] = ()

    @property
    def media_kind(self) -> str:
        """How clips reach the model: `video`, `image` (one picture a frame), or `none` for a text model."""
        return self._maker.rules.kind

    @property
    def pixel_limit(self) -> PixelLimit:
        """Who keeps `limits.max_pixels`: `none`, the model's own `processor`, or this engine `before` it."""
        return self._maker.rules.pixel_limit

    @property
    def plain_reason(self) -> str | None:
        """Why all calls go in plain batches; None while beginnings are shared."""
        return self._plain_reason

    @property
    def max_model_len(self) -> int | None:
        """Tokens of prompt and answer together that are let through."""
        return self._max_len

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, batch by batch.

        Raises:
            EngineUnreachableError: the device is gone.
        """
        self._least.clear()
        plain: list[Prompt] = []
        ready: list[SharedPrompt] = []
        for group in _by_media([call for call in calls if call.scored]):
            yield from self._scored(group, media)
        for group in _by_media([call for call in calls if not call.scored]):
            prompts: list[Prompt] = []
            for made in self._maker.make(group, media):
                checked = self._checked(made) if isinstance(made, Prompt) else made
                if isinstance(checked, Prompt):
                    prompts.append(checked)
                else:
                    yield checked
            self._least |= least_tokens(prompts)
            for alike in _by_head(prompts):
                jobs = self._read(alike)
                if jobs is None and ready:
                    yield from self._answer_ready(ready, least=1)
                    jobs = self._read(alike)
                ready.extend(jobs or ())
                begun = {job.prompt.call.call_id for job in jobs or ()}
                plain.extend(prompt for prompt in alike if prompt.call.call_id not in begun)
                yield from self._answer_ready(ready, least=0)
        yield from self._answer_ready(ready, least=1)
        yield from self._answer_plainly(plain)

    def close(self) -> None:
        """Let go of the model and its memory; the engine answers no more."""
        for part in ("_shared", "_plain", "_scorer", "_maker", "_memory", "_checkpoint"):
            self.__dict__.pop(part, None)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def parameters(self) -> list[torch.Tensor]:
        """The weights, as this process holds them."""
        return list(self._checkpoint.model.parameters())

    def _share(self) -> SharedModel | None:
        reason = unshareable(self._checkpoint.model.config)
        if reason is not None:
            self._go_plain(reason)
            return None
        try:
            return SharedModel(self._checkpoint, kept_bytes=self._memory.kept_bytes, chunk=self._memory.chunk)
        except AttributeError as error:
            self._go_plain(f"its language model is not found: {error}")
            return None

    def _go_plain(self, reason: str) -> None:
        self._shared = None
        if self._plain_reason is None:
            self._plain_reason = reason
            _log.warning("%s answers in plain batches: %s", self._checkpoint.model.config.model_type, reason)

    def _checked(self, prompt: Prompt) -> Prompt | CallReply:
        """The prompt, or why it cannot be answered."""
        generation = prompt.call.generation
        tokens, new = len(prompt.ids), generation.max_new_tokens
        if self._max_len is not None and tokens + new > self._max_len:
            failure = Failure(
                type="context_length",
                message=f"{tokens} tokens of prompt and {new} of answer are more than {self._max_len}",
            )
        elif generation.num_beams > 1 and generation.temperature > 0:
            failure = Failure(type="unsupported", message="beam search with a temperature above 0")
        else:
            return prompt
        return CallReply(call_id=prompt.call.call_id, outcome=failure)

    def _read(self, prompts: Sequence[Prompt]) -> list[SharedPrompt] | None:
        """Read what prompts of one beginning share; no jobs for those that must be answered plainly.

        None when memory ran out.
        """
        shared = self._shared
        single = [prompt for prompt in prompts if shared is not None and shared.takes(prompt)]
        if shared is None or not single:
            return []
        started = perf_counter()
        if len(single) == 1 and single[0].head.inputs:
            jobs = self._attempt(lambda: [shared.read_alone(single[0])])
        else:
            jobs = self._attempt(lambda: shared.read(single))
        if not isinstance(jobs, Exception):
            for job in jobs:
                job.seconds = perf_counter() - started
            return jobs
        if isinstance(jobs, PrefixSharingUnsupportedError):
            self._go_plain(str(jobs))
            return []
        _log.warning("%d calls cannot be begun together: %s", len(single), jobs)
        shared.forget()
        self._memory.release()
        return None if is_out_of_memory(jobs) else []

    def _scored(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Score the texts of calls about the same media; in halves where that fails, and at last one by one."""
        started = perf_counter()
        found = self._attempt(lambda: self._scorer.score(calls, media, self._shared, self._max_len))
        if isinstance(found, list):
            seconds = perf_counter() - started
            yield from (replace(reply, latency_s=seconds) for reply in found)
        elif isinstance(found, PrefixSharingUnsupportedError):
            self._go_plain(str(found))
            yield from self._scored(calls, media)
        elif len(calls) > 1:
            _log.warning("%d calls cannot be scored together: %s", len(calls), found)
            self._memory.release()
            middle = len(calls) // 2
            yield from self._scored(calls[:middle], media)
            yield from self._scored(calls[middle:], media)
        else:
            kind = "out_of_memory" if is_out_of_memory(found) else "compute"
            failure = Failure(type=kind, message=f"{type(found).__name__}: {found}")
            yield CallReply(call_id=calls[0].call_id, outcome=failure)

    def _answer_ready(self, ready: list[SharedPrompt], *, least: int) -> Iterator[CallReply]:
        """Answer waiting jobs in full batches; with `least` 1, the last one need not be full."""
        for alone in (False, True):
            jobs = [job for job in ready if (job.logits is not None) is alone]
            jobs.sort(key=lambda job: (job.prompt.call.generation.max_new_tokens, len(job.tail)))
            while jobs:
                most = self._memory.rows(max(_own_tokens(job) for job in jobs))
                held = sum({id(s): s.nbytes for job in jobs for s in job.path}.values())
                if len(jobs) < most and held < self._memory.kept_bytes and not least:
                    break
                batch, jobs = jobs[:most], jobs[most:]
                taken = {id(job) for job in batch}
                ready[:] = [job for job in ready if id(job) not in taken]
                yield from self._answer(batch)

    def _answer(self, jobs: Sequence[SharedPrompt]) -> Iterator[CallReply]:
        """Answer one batch; halves of it where memory runs out, plainly where all else fails."""
        started = perf_counter()
        shared = self._shared
        texts = self._attempt(lambda: shared.answer(jobs)) if shared is not None else None
        if isinstance(texts, list):
            seconds = perf_counter() - started
            for job, text in zip(jobs, texts, strict=True):
                yield self._reply(job.prompt, text, seconds + job.seconds, job.cached)
        elif isinstance(texts, Exception) and is_out_of_memory(texts) and len(jobs) > 1:
            self._memory.shrink(len(jobs))
            middle = len(jobs) // 2
            yield from self._answer(jobs[:middle])
            yield from self._answer(jobs[middle:])
        else:
            if isinstance(texts, PrefixSharingUnsupportedError):
                self._go_plain(str(texts))
            elif texts is not None:
                _log.warning("%d calls go in plain batches: %s", len(jobs), texts)
            yield from self._answer_plainly([job.prompt for job in jobs])

    def _answer_plainly(self, prompts: Sequence[Prompt]) -> Iterator[CallReply]:
        """Answer in padded batches of like prompts, those with the same pixels together."""
        many = Counter(id(prompt.head) for prompt in prompts)
        kinds: dict[tuple[object, ...], list[Prompt]] = {}
        for prompt in prompts:
            own = id(prompt.head) if many[id(prompt.head)] > 1 else None
            kinds.setdefault((*self._plain.kind(prompt), own), []).append(prompt)
        for alike in kinds.values():
            left = sorted(alike, key=lambda prompt: len(prompt.ids))
            while left:
                new = max(prompt.call.generation.max_new_tokens for prompt in left)
                beams = left[0].call.generation.num_beams
                most = self._memory.rows((len(left[-1].ids) + new) * beams)
                batch, left = left[:most], left[most:]
                yield from self._plain_batch(batch)

    def _plain_batch(self, prompts: Sequence[Prompt]) -> Iterator[CallReply]:
        started = perf_counter()
        texts = self._attempt(lambda: self._plain.answer(prompts))
        if isinstance(texts, list):
            seconds = perf_counter() - started
            for prompt, text in zip(prompts, texts, strict=True):
                yield self._reply(prompt, text, seconds)
        elif len(prompts) == 1:
            kind = "out_of_memory" if is_out_of_memory(texts) else "compute"
            failure = Failure(type=kind, message=f"{type(texts).__name__}: {texts}")
            yield CallReply(call_id=prompts[0].call.call_id, outcome=failure)
        else:
            _log.warning("a batch of %d is tried again in halves: %s: %s", len(prompts), type(texts).__name__, texts)
            if is_out_of_memory(texts):
                self._memory.shrink(len(prompts))
            middle = len(prompts) // 2
            yield from self._plain_batch(prompts[:middle])
            yield from self._plain_batch(prompts[middle:])

    def _reply(self, prompt: Prompt, text: GeneratedTokens, seconds: float, cached: int = 0) -> CallReply:
        words = self._checkpoint.tokenizer.decode(
            text.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        answer = Answer(
            text=words,
            finish_reason=text.finish_reason,
            decoding=decoding_name(prompt.call.generation, beams=True),
            input_tokens=len(prompt.ids),
            output_tokens=text.computed,
            cached_tokens=cached,
            head_tokens=len(prompt.head.ids),
            least_tokens=self._least.pop(prompt.call.call_id, None),
        )
        return CallReply(call_id=prompt.call.call_id, outcome=answer, latency_s=seconds)

    def _attempt(self, work: Callable[[], _T]) -> _T | Exception:
        """The result, or the error without the frames that would keep its tensors alive.

        Raises:
            EngineUnreachableError: the device failed, and no later call can succeed.
            EngineDiedError: a rank of a group failed where the others may not have; they would wait for it for ever.
        """
        try:
            return work()
        except ROW_ERRORS as error:
            if "CUDA error" in str(error) or "device-side assert" in str(error):
                raise EngineUnreachableError(f"{self._model_name}: the device failed: {error}") from error
            if torch.distributed.is_initialized() and _may_be_alone(error):
                raise EngineDiedError(f"{type(error).__name__}: {error}") from error
            return error.with_traceback(None)


def _may_be_alone(error: Exception) -> bool:
    """Whether an error may have struck one rank and not the others; what Python raises of itself strikes all alike."""
    return isinstance(error, (RuntimeError, MemoryError, OSError)) and not isinstance(
        error, PrefixSharingUnsupportedError
    )


def _by_media(calls: Sequence[Call]) -> list[list[Call]]:
    groups: dict[tuple[Media, ...], list[Call]] = {}
    for call in calls:
        groups.setdefault(call.media, []).append(call)
    return list(groups.values())


def _by_head(prompts: Sequence[Prompt]) -> list[list[Prompt]]:
    groups: dict[bytes, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.head.ids.tobytes(), []).append(prompt)
    return list(groups.values())


def _own_tokens(job: SharedPrompt) -> int:
    """Tokens whose keys and values a job's row keeps for itself, its answer included."""
    read = job.path[0].length if job.logits is not None else len(job.tail)
    return read + job.prompt.call.generation.max_new_tokens
