"""A `vllm` that refuses what vllm 0.33.0 refuses: names of settings, forms of prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from models.entry_fields import Limits
from models.spec import ModelSpec

SETTINGS = frozenset(
    [
        "model",
        "dtype",
        "tensor_parallel_size",
        "trust_remote_code",
        "load_format",
        "generation_config",
        "enable_prefix_caching",
        "limit_mm_per_prompt",
        "seed",
        "enable_lora",
        "max_lora_rank",
        "distributed_executor_backend",
        "revision",
        "tokenizer_revision",
        "max_model_len",
        "max_num_seqs",
        *(
            "kv_cache_memory_bytes",
            "enforce_eager",
            "skip_mm_profiling",
            "mm_device_do_normalize",
            "gpu_memory_utilization",
        ),
    ]
)
"""Of `vllm.LLM` and `vllm.EngineArgs`, those that the engine may use."""
MAX_LEN, PROMPT = 200, 9
FACTS = {"total_num_frames", "fps", "width", "height", "duration", "frames_indices", "do_sample_frames"}
"""What `qwen2_5_vl.py` and `qwen3_vl.py` read of a clip: `VideoMetadata` of transformers, and whether to sample."""


class EngineDeadError(RuntimeError):
    """The engine recognizes its death by this class name."""


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """The requested settings."""

    temperature: float = 1.0
    max_tokens: int | None = 16
    seed: int | None = None
    prompt_logprobs: int | None = None


class VideoModel:
    """The class of a model that takes pictures and clips, such as InternVLChatModel."""

    @classmethod
    def get_placeholder_str(cls, modality: str, i: int) -> str | None:
        del i
        return {"image": "<image>", "video": "<video>"}[modality]


class PictureModel:
    """The class of a model that takes pictures alone, such as Phi3VForCausalLM."""

    @classmethod
    def get_placeholder_str(cls, modality: str, i: int) -> str | None:
        if modality != "image":
            raise ValueError("Only image modality is supported")
        return f"<|image_{i}|>"


@dataclass
class FakeLLM:
    """A fake `vllm.LLM`."""

    settings: Mapping[str, Any]
    tokenizer: Any = None
    dead: bool = False
    prompts: list[Mapping[str, Any]] = field(default_factory=list)
    waiting: list[tuple[str, Mapping[str, Any], SamplingParams]] = field(default_factory=list)
    added: int = 0
    batches: list[int] = field(default_factory=list)
    """Prompts that were answered together."""
    given_up: list[str] = field(default_factory=list)
    """Finish reasons of the next outputs, in place of an answer."""
    broken: bool = False
    model_config: Any = None
    ended: bool = False

    def __post_init__(self) -> None:
        assert set(self.settings) <= SETTINGS
        assert self.settings["load_format"] == "safetensors"
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=self._end), step=self._step)

    def _end(self, timeout: float | None = None) -> None:
        del timeout
        self.ended = True

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    def enqueue(
        self,
        prompts: Sequence[Mapping[str, Any]],
        sampling_params: Sequence[SamplingParams],
        *,
        use_tqdm: bool = True,
        lora_request: Any = None,
        tokenization_kwargs: Mapping[str, Any] | None = None,
    ) -> list[str]:
        del lora_request
        assert not use_tqdm
        assert tokenization_kwargs == {"add_special_tokens": False}
        if self.dead:
            raise RuntimeError("request failed") from EngineDeadError("EngineCore encountered an issue")
        for prompt in prompts:
            if "REFUSED" in prompt.get("prompt", ""):
                raise ValueError("The decoder prompt (length 900) is longer than the maximum model length of 200.")
        names = [str(self.added + index) for index in range(len(prompts))]
        self.added += len(prompts)
        self.waiting += zip(names, prompts, sampling_params, strict=True)
        return [f"{name}-0a1b2c3d" for name in names]

    def _step(self) -> list[Any]:
        if self.broken:
            raise AssertionError("of the scheduler")
        waiting, self.waiting = self.waiting, []
        self.batches.append(len(waiting))
        outputs = []
        for name, prompt, params in waiting:
            output = self._score(prompt) if params.prompt_logprobs is not None else self._complete(prompt)
            output.request_id, output.finished = name, True
            outputs.append(output)
        return outputs

    def _score(self, prompt: Mapping[str, Any]) -> Any:
        """Give token `t` the log-probability -t."""
        ids = prompt["prompt_token_ids"]
        logprobs = [None, *({token: SimpleNamespace(logprob=-float(token))} for token in ids[1:])]
        outputs = [SimpleNamespace(finish_reason="length")]
        return SimpleNamespace(outputs=outputs, prompt_token_ids=ids, prompt_logprobs=logprobs, num_cached_tokens=0)

    def _complete(self, prompt: Mapping[str, Any]) -> Any:
        assert set(prompt) <= {"prompt", "multi_modal_data", "multi_modal_uuids", "mm_processor_kwargs"}
        for kind, items in prompt.get("multi_modal_data", {}).items():
            assert len(items) == len(prompt["multi_modal_uuids"][kind]) <= self.settings["limit_mm_per_prompt"][kind]
            for item in items if kind == "video" else ():
                frames, facts = item  # else "Video metadata is required but not found in mm input"
                assert frames.dtype == np.uint8
                assert set(facts) == FACTS
                assert len(facts["frames_indices"]) == len(frames)
        self.prompts.append(prompt)
        reason = self.given_up.pop() if self.given_up else "stop"
        completion = SimpleNamespace(text="A", finish_reason=reason, token_ids=(1, 2))
        return SimpleNamespace(outputs=[completion], prompt_token_ids=[1] * PROMPT, num_cached_tokens=4)


def opened(module: Any, folder: Any, *, takes: Any = None, **settings: Any) -> tuple[Any, FakeLLM]:
    """Return the engine and its fake LLM; `takes` is the class of the model, the rest settings of the entry."""
    instances: list[FakeLLM] = []
    model = SimpleNamespace(takes=takes, max_model_len=MAX_LEN)

    def make(**arguments: Any) -> FakeLLM:
        from transformers import AutoTokenizer

        stand = FakeLLM(arguments, AutoTokenizer.from_pretrained(folder), model_config=model)
        instances.append(stand)
        return stand

    spec = ModelSpec(engine="vllm", model=str(folder), **{"limits": Limits(), "tensor_parallel": 2, **settings})
    return module.VLLMEngine(spec, make=make), instances[0]
