"""Models on vllm: one offline engine a replica, with tensor parallelism of its own. Read against vllm 0.33.0's source.

Optional: `pip install 'vlmsweep[vllm]'`. Importing this module imports vllm, so that its absence is told by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import vllm
from vllm.model_executor.model_loader import get_model_cls

from models.engines.transformers.media_inputs import clip_metadata
from models.errors import EngineUnreachableError
from models.media_sampling import uniform_indices
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Text, Turn
from models.spec import ModelSpec

_CONTEXT = re.compile(r"longer than the maximum model length|maximum context length|max_model_len", re.IGNORECASE)
_MOST_PICTURES = 16
"""Of one prompt; few-shot prompts hold several."""
_SEEDS = 2**63
_UNSCORED = Failure(
    type="unsupported",
    message="log-probabilities of given texts are not asked of vllm here; ask the model with `engine: transformers`",
)


class VLLMEngine:
    """Answers calls by vllm's batches.

    All calls of a media group are handed over at once and name their media by content hash, so that vllm's caches of
    prefixes, of encoder outputs and of preprocessed media hit. A batch that vllm refuses for one prompt is halved until
    that prompt is alone. There is no beam search here: `num_beams` above 1 is a `Failure`.

    A model whose processor has a chat template is shown its media as parts of a turn. One that brings a tokenizer only,
    as models with code of their own do (InternVL2, Phi-3.5-vision, Molmo), is shown words with the marks that vllm's
    class of the model names; where that class takes no clips, their frames are pictures.
    """

    warnings: tuple[str, ...] = ()
    has_own_timeout = False

    def __init__(self, spec: ModelSpec, *, make: Callable[..., Any] | None = None) -> None:
        """Load the weights.

        Args:
            spec: the model.
            make: makes the engine; vllm's own `LLM` when left out.

        Raises:
            EngineUnreachableError: they cannot be had.
        """
        from transformers import AutoProcessor, PreTrainedTokenizerBase

        self._spec = spec
        revision = None if Path(spec.model).is_dir() else spec.revision
        try:
            self._llm: Any = (make or vllm.LLM)(**_settings(spec, revision))
            self._processor = AutoProcessor.from_pretrained(
                spec.model, revision=revision or "main", trust_remote_code=spec.trust_remote_code
            )
        except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
            raise EngineUnreachableError(f"the model {spec.model} cannot be loaded by vllm: {error}") from error
        self._lora = _lora(spec)
        self._template: Any = self._processor
        self._mark: Callable[[str, int], str | None] | None = None
        if isinstance(self._processor, PreTrainedTokenizerBase) or not self._processor.chat_template:
            self._template = self._llm.get_tokenizer()
            self._mark = getattr(get_model_cls(self._llm.model_config), "get_placeholder_str", _none_taken)

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call.

        Raises:
            EngineUnreachableError: vllm's engine died.
        """
        ready: list[tuple[Call, dict[str, Any]]] = []
        for call in calls:
            if call.scored:
                yield CallReply(call_id=call.call_id, outcome=_UNSCORED)
                continue
            try:
                ready.append((call, self._prompt(call, media)))
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                yield _failed(call, error)
        yield from self._answered(ready)

    def close(self) -> None:
        """End vllm's processes and give back the memory."""
        core = getattr(getattr(self._llm, "llm_engine", None), "engine_core", None)
        if core is not None:
            core.shutdown()
        self._llm = None

    def _answered(self, ready: Sequence[tuple[Call, dict[str, Any]]]) -> Iterator[CallReply]:
        if not ready:
            return
        started = monotonic()
        try:
            outputs = self._llm.generate(
                [prompt for _, prompt in ready],
                [_sampling(call) for call, _ in ready],
                use_tqdm=False,
                lora_request=self._lora,
                tokenization_kwargs={"add_special_tokens": False},  # the chat template has put them in
            )
        except Exception as error:  # vllm's own classes, and whatever a model's preprocessing raises
            if _dead(error):
                raise EngineUnreachableError(f"vllm's engine for {self._spec.model} died: {error}") from error
            if len(ready) == 1:
                yield _failed(ready[0][0], error)
                return
            middle = len(ready) // 2
            yield from self._answered(ready[:middle])
            yield from self._answered(ready[middle:])
            return
        each = (monotonic() - started) / len(ready)
        for (call, _), output in zip(ready, outputs, strict=True):
            yield CallReply(call_id=call.call_id, outcome=_answer(output), latency_s=each)

    def _prompt(self, call: Call, media: Mapping[Media, Frames]) -> dict[str, Any]:
        if call.generation.num_beams > 1:
            raise ValueError("num_beams: vllm has no beam search in batches; use engine: transformers")
        turns = call.turns
        if self._spec.system and turns[0].role != "system":
            turns = (Turn("system", (Text(self._spec.system),)), *turns)
        speaks = turns[-1].role == "assistant"
        shown = _Shown(self._mark, self._spec.limits.max_frames)
        text = self._template.apply_chat_template(
            [{"role": turn.role, "content": shown.content(turn, media)} for turn in turns],
            tokenize=False,
            add_generation_prompt=not speaks,
            continue_final_message=speaks,
        )
        if not shown.data:
            return {"prompt": text}
        return {"prompt": text, "multi_modal_data": shown.data, "multi_modal_uuids": shown.names}


class _Shown:
    """The media of one prompt, put in order as its turns are written."""

    def __init__(self, mark: Callable[[str, int], str | None] | None, max_frames: int | None) -> None:
        self._mark, self._max_frames = mark, max_frames
        self._films = mark is None or _takes_clips(mark)
        self.data: dict[str, list[Any]] = {}
        self.names: dict[str, list[str]] = {}
        """What vllm's caches know each by; equal names must be equal pixels."""

    def content(self, turn: Turn, media: Mapping[Media, Frames]) -> str | list[dict[str, Any]]:
        """A turn as its template takes it: parts, or one text with marks."""
        parts = [said for part in turn.parts for said in self._part(part, media)]
        return parts if self._mark is None else "".join(str(part.get("text", "")) for part in parts)

    def _part(self, part: object, media: Mapping[Media, Frames]) -> list[dict[str, Any]]:
        if isinstance(part, Text):
            return [{"type": "text", "text": part.text}]
        if not isinstance(part, Media):
            raise TypeError("an earlier step's output was not put in its place")
        frames, name = media[part], f"{part.source}:{part.frames}"
        if part.kind == "image":
            return [self._add("image", _picture(frames.pixels[0]), name)]
        picked = uniform_indices(len(frames.pixels), self._max_frames)
        if not self._films:
            return [self._add("image", _picture(frames.pixels[index]), f"{name}:{index}") for index in picked]
        # Models that place frames in time (Qwen2.5-VL, Qwen3-VL) refuse a clip without its metadata.
        facts = {**clip_metadata(frames, picked), "do_sample_frames": False}
        return [self._add("video", (np.ascontiguousarray(frames.pixels[list(picked)]), facts), name)]

    def _add(self, kind: str, pixels: Any, name: str) -> dict[str, Any]:
        self.data.setdefault(kind, []).append(pixels)
        self.names.setdefault(kind, []).append(name)
        if self._mark is None:
            return {"type": kind}
        # A line of its own, as vllm's chat interface writes it; None: vllm's processor puts the mark in by itself.
        mark = self._mark(kind, len(self.data[kind]))
        return {"text": f"{mark}\n" if mark else ""}


def _takes_clips(mark: Callable[[str, int], str | None]) -> bool:
    try:
        mark("video", 1)
    except ValueError:
        return False
    return True


def _none_taken(kind: str, number: int) -> str:
    raise ValueError(f"the model reads text alone, and the prompt holds {kind} {number}")


def _picture(pixels: np.ndarray) -> Any:
    from PIL import Image

    return Image.fromarray(pixels)


def _settings(spec: ModelSpec, revision: str | None) -> dict[str, Any]:
    optional = {
        "revision": revision,
        "tokenizer_revision": revision,
        "max_model_len": spec.limits.max_model_len,
        "max_num_seqs": spec.batch_size,
    }
    return {
        "model": spec.model,
        "dtype": spec.dtype,
        "tensor_parallel_size": spec.tensor_parallel,
        "trust_remote_code": spec.trust_remote_code,
        "load_format": "safetensors",
        "generation_config": "vllm",  # sampling and penalties are the benchmark's to choose, not the checkpoint's
        "enable_prefix_caching": spec.share_prefix,
        "limit_mm_per_prompt": {"image": max(_MOST_PICTURES, spec.limits.max_frames or 0), "video": 1},
        "seed": spec.seed,
        # The replica's GPUs are all in this process's sight: Ray need not place vllm's workers once more.
        **({"distributed_executor_backend": "mp"} if spec.tensor_parallel > 1 else {}),
        **({"enable_lora": True, "max_lora_rank": 256} if spec.adapter else {}),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _lora(spec: ModelSpec) -> Any:
    if spec.adapter is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest("adapter", 1, spec.adapter)


def _sampling(call: Call) -> Any:
    asked = call.generation
    return vllm.SamplingParams(temperature=asked.temperature, max_tokens=asked.max_new_tokens, seed=asked.seed % _SEEDS)


def _answer(output: Any) -> Answer:
    first = output.outputs[0]
    return Answer(
        text=first.text,
        finish_reason=first.finish_reason or "stop",
        input_tokens=len(output.prompt_token_ids or ()),
        output_tokens=len(first.token_ids),
        cached_tokens=output.num_cached_tokens or 0,
    )


def _failed(call: Call, error: Exception) -> CallReply:
    kind = "context_length" if _CONTEXT.search(str(error)) else type(error).__name__
    return CallReply(call_id=call.call_id, outcome=Failure(type=kind, message=str(error)))


def _dead(error: BaseException | None) -> bool:
    """By name, along the chain of causes: where the class lives moves between versions."""
    while error is not None:
        if type(error).__name__ == "EngineDeadError":
            return True
        error = error.__cause__
    return False
