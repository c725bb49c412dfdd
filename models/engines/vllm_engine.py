"""Models on vllm: one offline engine a replica, with tensor parallelism of its own. Written against vllm 0.33.

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

from models.engines.base import EngineUnreachableError
from models.engines.openai_prompt import kept_frames
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Text, Turn
from models.spec import ModelSpec

__all__ = ["VLLMEngine"]

_CONTEXT = re.compile(r"longer than the maximum model length|maximum context length|max_model_len", re.IGNORECASE)
_MOST_PICTURES = 16
"""Of one prompt; few-shot prompts hold several."""
_SEEDS = 2**63


class VLLMEngine:
    """Answers calls by vllm's batches.

    All calls of a media group are handed over at once and name their media by content hash, so that vllm's caches of
    prefixes, of encoder outputs and of preprocessed media hit. A batch that vllm refuses for one prompt is halved until
    that prompt is alone. There is no beam search here: `num_beams` above 1 is a `Failure`.
    """

    def __init__(self, spec: ModelSpec, *, make: Callable[..., Any] | None = None) -> None:
        """Load the weights.

        Args:
            spec: the model.
            make: makes the engine; vllm's own `LLM` when left out.

        Raises:
            EngineUnreachableError: they cannot be had.
        """
        from transformers import AutoProcessor

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

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call.

        Raises:
            EngineUnreachableError: vllm's engine died.
        """
        ready: list[tuple[Call, dict[str, Any]]] = []
        for call in calls:
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
        text = self._processor.apply_chat_template(
            [{"role": turn.role, "content": [_content(part) for part in turn.parts]} for turn in turns],
            tokenize=False,
            add_generation_prompt=not speaks,
            continue_final_message=speaks,
        )
        data: dict[str, list[Any]] = {}
        names: dict[str, list[str]] = {}
        for part in call.media:
            data.setdefault(part.kind, []).append(self._pixels(part, media[part]))
            names.setdefault(part.kind, []).append(f"{part.source}:{part.frames}")
        return {"prompt": text, **({"multi_modal_data": data, "multi_modal_uuids": names} if data else {})}

    def _pixels(self, part: Media, frames: Frames) -> Any:
        """A picture for Pillow, or a clip [frames, height, width, 3] thinned to what the model takes."""
        from PIL import Image

        if part.kind == "image":
            return Image.fromarray(frames.pixels[0])
        return np.ascontiguousarray(frames.pixels[kept_frames(len(frames.pixels), self._spec.limits.max_frames)])


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
        "limit_mm_per_prompt": {"image": _MOST_PICTURES, "video": 1},
        "seed": spec.seed,
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


def _content(part: object) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Media):
        return {"type": part.kind}
    raise TypeError("an earlier step's output was not put in its place")


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
