"""Loads a checkpoint for the `transformers` engine: weights, processor, adapter, and what ends an answer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from models.engines.tensor_parallel.sharding import distributed_config, fit_heads
from models.engines.transformers.load_progress import weights_progress
from models.engines.transformers.model_config import (
    _LOAD_ERRORS,
    _advice,
    _config,
    _listed,
    _sees,
    _source,
    empty_model,
)
from models.engines.transformers.weights import check_memory, ensure_local, free_host_bytes, known_bytes
from models.errors import EngineUnreachableError
from models.spec import ModelSpec

_DTYPES = frozenset({"auto", "bfloat16", "float16", "float32"})
_ADAPTER = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model ready to answer, and what must be known of it."""

    model: Any
    processor: Any | None
    """None for a model that reads text alone."""
    tokenizer: Any
    device: torch.device
    end_ids: frozenset[int]
    """Tokens that end an answer."""
    pad_id: int
    max_len: int | None
    """Tokens that the model was built for, prompt and answer together."""

    @property
    def text_config(self) -> Any:
        """Configuration of the language half."""
        return self.model.config.get_text_config()


def load_checkpoint(spec: ModelSpec) -> Checkpoint:
    """Load what a spec names: safetensors only, remote code only where the spec allows it.

    The checkpoint's own generation settings are dropped, but for its end tokens: sampling and penalties are the
    benchmark's to choose.

    Raises:
        EngineUnreachableError: naming the model and what to do.
    """
    if spec.dtype not in _DTYPES:
        raise EngineUnreachableError(f"{spec.model}: dtype {spec.dtype!r} is not one of {', '.join(sorted(_DTYPES))}")
    device = _device(spec)
    check_memory(spec, *_room(device))  # by the entry's numbers, before anything is fetched
    spec = ensure_local(spec)
    check_memory(spec, *_room(device))
    try:
        processor, tokenizer = _processor(spec)
        with weights_progress(_own_bytes(spec)):
            model = _adapted(_weights(spec, device, text_only=processor is None), spec)
    except _LOAD_ERRORS as error:
        raise EngineUnreachableError(_advice(spec, error)) from error
    model.eval()
    end_ids, pad_id = _settle_generation(model, tokenizer)
    text = model.config.get_text_config()
    return Checkpoint(
        model=model,
        processor=processor,
        tokenizer=tokenizer,
        device=device,
        end_ids=end_ids,
        pad_id=pad_id,
        max_len=getattr(text, "max_position_embeddings", None),
    )


def _device(spec: ModelSpec) -> torch.device:
    if spec.device == "cuda" and not torch.cuda.is_available():
        raise EngineUnreachableError(f"{spec.model}: device cuda is asked for, but torch sees no GPU here")
    if spec.device != "cpu" and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    # Ray gives a worker OMP_NUM_THREADS=1; a model on the CPU is alone there and wants every core.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    torch.set_num_threads(max(1, cores // ranks))
    return torch.device("cpu")


def _room(device: torch.device) -> tuple[int, str]:
    """Bytes for weights in this process, and whose they are; ranks on a CPU share one machine's."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]), "GPU memory"
    ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    return free_host_bytes() // ranks, "memory"


def _own_bytes(spec: ModelSpec) -> float:
    """Weights that this process will hold, as far as they lie here or the spec tells; 0 when nobody knows."""
    ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    return known_bytes(spec) / ranks


def _processor(spec: ModelSpec) -> tuple[Any | None, Any]:
    from transformers import AutoProcessor, AutoTokenizer

    if not _sees(_config(spec)):
        tokenizer = AutoTokenizer.from_pretrained(**_source(spec), padding_side="left")
        return None, tokenizer
    processor = AutoProcessor.from_pretrained(**_source(spec))
    processor.tokenizer.padding_side = "left"
    return processor, processor.tokenizer


def _weights(spec: ModelSpec, device: torch.device, *, text_only: bool) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    pictures = not text_only and _listed(_config(spec))
    maker = AutoModelForImageTextToText if pictures else AutoModelForCausalLM
    ranked = torch.distributed.is_initialized()
    dtype = spec.dtype if spec.dtype == "auto" else getattr(torch, spec.dtype)
    place: dict[str, Any] = {}
    if ranked:
        place["distributed_config"] = distributed_config(empty_model(spec), spec.tensor_parallel)
    elif device.type != "cpu":
        place["device_map"] = "balanced" if spec.tensor_parallel > 1 else {"": device}
    model = maker.from_pretrained(**_source(spec), dtype=dtype, use_safetensors=True, **place)
    if ranked:
        fit_heads(model, spec.tensor_parallel)
    return model


def _adapted(model: Any, spec: ModelSpec) -> Any:
    """The model with its adapter's layers put in; the base class stays, so all else works as without one."""
    if spec.adapter is None:
        return model
    from peft import PeftConfig, PeftModel

    if Path(spec.adapter).is_dir() and not (Path(spec.adapter) / _ADAPTER).is_file():
        raise FileNotFoundError(f"the adapter {spec.adapter} holds no {_ADAPTER}")
    if PeftConfig.from_pretrained(spec.adapter).is_prompt_learning:
        raise ValueError(f"the adapter {spec.adapter} learns a prompt; only adapters of layers (LoRA) are served")
    return PeftModel.from_pretrained(model, spec.adapter, use_safetensors=True).get_base_model()


def _settle_generation(model: Any, tokenizer: Any) -> tuple[frozenset[int], int]:
    """Replace the checkpoint's generation settings by greedy ones with the same end tokens."""
    from transformers import GenerationConfig

    stated = (
        getattr(model.generation_config, "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
    )
    found = next((ids for ids in stated if ids is not None), ())
    ends = {found} if isinstance(found, int) else set(found)
    if tokenizer.eos_token_id is not None:
        ends.add(tokenizer.eos_token_id)
    pad = tokenizer.pad_token_id
    pad_id = int(pad if pad is not None else min(ends, default=0))
    model.generation_config = GenerationConfig(do_sample=False, eos_token_id=sorted(ends) or None, pad_token_id=pad_id)
    return frozenset(ends), pad_id
