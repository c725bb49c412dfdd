"""Load a checkpoint for the `transformers` engine: weights, processor, adapter, and the tokens that end an answer."""

import ctypes
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
)

from models.checkpoints.problems import NO_TOKENIZER, quantization_problem
from models.engines.hub import ADAPTER_WEIGHTS
from models.engines.launch import LaunchedModel
from models.engines.load_progress import weights_progress
from models.engines.offload import offload_arguments, remove_with
from models.engines.tensor_names import check_adapter, check_weights
from models.engines.transformers.fetch import ensure_local
from models.engines.transformers.model_config import (
    LOAD_ERRORS,
    empty_model,
    is_image_text_model,
    load_config,
    pretrained_arguments,
    takes_pictures,
    unreachable_error,
)
from models.engines.transformers.sharding import distributed_config, fit_heads
from models.engines.transformers.window_attention import batch_windows
from models.engines.weights import check_checkpoint, check_memory, free_host_bytes, known_bytes
from models.environment import user_threads
from models.errors import EngineUnreachableError
from models.spec import ModelSpec

_MACHINE_GPUS = Path("/proc/driver/nvidia/gpus")  # one entry each, also of those that other replicas have
_MAX_PIXEL_THREADS = 8  # beyond which preprocessing gains little
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A loaded model, and the facts that engines need."""

    model: Any
    processor: Any | None  # None for a text-only model
    tokenizer: Any
    device: torch.device
    end_ids: frozenset[int]  # tokens that end an answer
    pad_id: int
    max_len: int | None  # tokens that the model was built for, prompt and answer together

    @property
    def text_config(self) -> Any:
        """Return the configuration of the language model."""
        return self.model.config.get_text_config()


def load_checkpoint(spec: ModelSpec, launched: LaunchedModel | None = None) -> Checkpoint:
    """Load a model, safetensors only; `launched` is the same model with its files fetched already.

    The checkpoint's generation settings are dropped except for its end tokens: the benchmark chooses sampling. Raises
    `EngineUnreachableError`, which names the model and the remedy.
    """
    device = _device(spec)
    if launched is None:
        if not spec.offload:
            check_memory(LaunchedModel.as_named(spec), *_free_memory(device))  # before anything is fetched
        launched = ensure_local(spec)
    check_checkpoint(launched)
    if not spec.offload:
        check_memory(launched, *_free_memory(device))
    try:
        _refuse_quantized(launched)
        processor, tokenizer = _load_processor(launched)
        _refuse_empty(tokenizer, launched)
        with weights_progress(known_bytes(launched) / _world_size()):
            model = _with_adapter(_load_weights(launched, device), launched.adapter)
    except LOAD_ERRORS as error:
        raise unreachable_error(launched, error) from error
    batch_windows(model.eval())
    end_ids, pad_id = _reset_generation(model, tokenizer)
    return Checkpoint(
        model=model,
        processor=processor,
        tokenizer=tokenizer,
        device=device,
        end_ids=end_ids,
        pad_id=pad_id,
        max_len=getattr(model.config.get_text_config(), "max_position_embeddings", None),
    )


def warn_of_emulation(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return a warning where this processor has no instructions for the weights' dtype."""
    dtype = checkpoint.model.dtype
    kind = {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)
    is_supported = getattr(torch.ops.mkldnn, f"_is_mkldnn_{kind}_supported", None)  # none where torch has no oneDNN
    if checkpoint.device.type != "cpu" or is_supported is None or is_supported():
        return ()
    return (f"this processor emulates {dtype}: some 8 times slower than `dtype: float32`, in half of its memory",)


def check_files(model: LaunchedModel) -> None:
    """Raise `EngineUnreachableError` unless a folder and an adapter hold the tensors of the model; none is read.

    Quantized checkpoints, and models that transformers does not know, are left to the engine that runs them.
    """
    plain = replace(model, spec=model.spec.model_copy(update={"tensor_parallel": 1, "offload": False}))
    try:
        config = load_config(plain)
    except LOAD_ERRORS:
        return
    if getattr(config, "quantization_config", None):
        return
    try:
        empty = _load_weights(plain, torch.device("meta"))
        with warnings.catch_warnings(action="ignore"):  # nothing is copied: that is the point
            _with_adapter(empty, model.adapter)
    except LOAD_ERRORS as error:
        raise unreachable_error(model, error) from error


def _world_size() -> int:
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def _device(spec: ModelSpec) -> torch.device:
    if spec.device == "cuda" and not torch.cuda.is_available():
        raise EngineUnreachableError(f"{spec.model}: device cuda is set, but torch sees no GPU here")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = user_threads()  # else all that is useful: Ray gives a worker OMP_NUM_THREADS=1
    if spec.device != "cpu" and torch.cuda.is_available():
        # For pixels, half of the cores that a GPU has here: loaders need the others.
        gpus = max(torch.cuda.device_count(), sum(1 for _ in _MACHINE_GPUS.glob("*")))
        torch.set_num_threads(threads or max(1, min(_MAX_PIXEL_THREADS, cores // (2 * gpus))))
        allocate_expandable(True)
        if spec.gpu_fraction < 1:
            torch.cuda.set_per_process_memory_fraction(spec.gpu_fraction)
        return torch.device("cuda", torch.cuda.current_device())
    # A model on the CPU is alone there and needs every core.
    torch.set_num_threads(threads or max(1, cores // _world_size()))
    _keep_freed_memory()
    return torch.device("cpu")


def allocate_expandable(is_on: bool) -> None:  # noqa: FBT001
    """Let caches that grow take pages at the end of a segment, in place of a new segment for each size."""
    torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{is_on}")  # noqa: SLF001  its public form is a variable


def _keep_freed_memory() -> None:
    """Let glibc keep freed memory: else the pages of large activations come anew from the kernel in every layer."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # Older versions refuse the first; the second alone would fix the threshold of mmap at its low default.
    if mallopt is not None and mallopt(_M_MMAP_THRESHOLD, 1 << 30):
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def free_gpu_bytes(device: torch.device) -> int:
    """Return the bytes of a GPU that this process may still reserve: other replicas may have their part of it."""
    free, total = torch.cuda.mem_get_info(device)
    limit = total * torch.cuda.get_per_process_memory_fraction(device) - torch.cuda.memory_reserved(device)
    return max(0, min(int(free), int(limit)))


def _free_memory(device: torch.device) -> tuple[int, str]:
    """Return the bytes for weights in this process, and the name of the memory; CPU ranks share a machine's."""
    if device.type == "cuda":
        return free_gpu_bytes(device), "GPU memory"
    return free_host_bytes() // _world_size(), "memory"


def _load_processor(model: LaunchedModel) -> tuple[Any | None, Any]:
    if not takes_pictures(load_config(model)):
        return None, AutoTokenizer.from_pretrained(**pretrained_arguments(model), padding_side="left")
    processor = AutoProcessor.from_pretrained(**pretrained_arguments(model))
    processor.tokenizer.padding_side = "left"
    return processor, processor.tokenizer


def _refuse_quantized(model: LaunchedModel) -> None:
    """Raise `EngineUnreachableError` for quantized weights that cannot be loaded here; those of a folder are known."""
    config = load_config(model)
    found = getattr(config, "quantization_config", None)
    if problem := quantization_problem(
        model.spec, found or getattr(config.get_text_config(), "quantization_config", None)
    ):
        raise EngineUnreachableError(f"the model {model.source} cannot be loaded: {problem}")


def _refuse_empty(tokenizer: Any, model: LaunchedModel) -> None:
    """Raise `EngineUnreachableError` for the tokenizer that transformers makes up for a model without one."""
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_tokens):
        raise EngineUnreachableError(f"the model {model.source} cannot be loaded: it has {NO_TOKENIZER}")


def _load_weights(model: LaunchedModel, device: torch.device) -> Any:
    spec = model.spec
    auto_class = AutoModelForImageTextToText if is_image_text_model(load_config(model)) else AutoModelForCausalLM
    is_rank = spec.tensor_parallel > 1 and torch.distributed.is_initialized()  # else a worker of a training
    placement: dict[str, Any] = {}
    if is_rank:
        placement["distributed_config"] = distributed_config(empty_model(model), spec.tensor_parallel)
    elif spec.offload:
        placement |= offload_arguments(device, _free_memory(device)[0], free_host_bytes())
    elif device.type != "cpu":
        placement["device_map"] = "balanced" if spec.tensor_parallel > 1 else {"": device}
    loaded, info = auto_class.from_pretrained(
        **pretrained_arguments(model), dtype=spec.dtype, use_safetensors=True, output_loading_info=True, **placement
    )
    check_weights(loaded, info)
    if is_rank:
        fit_heads(loaded, spec.tensor_parallel)
    if spec.offload:
        remove_with(loaded, placement["offload_folder"])
    return loaded


def _with_adapter(model: Any, adapter: str | None) -> Any:
    """Insert the adapter's layers; the base class stays, so that everything else works as without one."""
    if adapter is None:
        return model
    from peft import PeftConfig, PeftModel

    if Path(adapter).is_dir() and not (Path(adapter) / ADAPTER_WEIGHTS).is_file():
        raise FileNotFoundError(f"the adapter {adapter} holds no {ADAPTER_WEIGHTS}")
    if PeftConfig.from_pretrained(adapter).is_prompt_learning:
        raise ValueError(f"the adapter {adapter} learns a prompt; only adapters of layers (LoRA) are supported")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found missing adapter keys")  # they are refused
        tuned = PeftModel.from_pretrained(model, adapter, use_safetensors=True)
    check_adapter(tuned, adapter, getattr(model, "_checkpoint_conversion_mapping", {}))
    return tuned.get_base_model()


def _reset_generation(model: Any, tokenizer: Any) -> tuple[frozenset[int], int]:
    """Replace the checkpoint's generation settings by greedy ones; return its end tokens and padding token."""
    stated = getattr(model.generation_config, "eos_token_id", None)
    if stated is None:
        stated = getattr(model.config.get_text_config(), "eos_token_id", None)
    ends = {stated} if isinstance(stated, int) else set(stated or ())
    if tokenizer.eos_token_id is not None:
        ends.add(tokenizer.eos_token_id)
    pad = tokenizer.pad_token_id
    pad_id = int(pad if pad is not None else min(ends, default=0))
    model.generation_config = GenerationConfig(do_sample=False, eos_token_id=sorted(ends) or None, pad_token_id=pad_id)
    return frozenset(ends), pad_id
