"""Settings of vLLM's engine for one model."""

from typing import Any

from vllm.platforms import current_platform

from models.engines.hub import adapter_folder, adapter_id
from models.engines.weights import free_host_bytes
from models.spec import ModelSpec

_MAX_PICTURES = 16  # pictures of one prompt; few-shot prompts hold several
_CACHE_SHARE = 8  # of the free memory, one part caches keys and values on CPUs: other replicas need theirs


def engine_settings(spec: ModelSpec, revision: str | None, processor: Any) -> dict[str, Any]:
    """Return the arguments of `vllm.LLM`."""
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
        "limit_mm_per_prompt": {"image": max(_MAX_PICTURES, spec.limits.max_frames or 0), "video": 1},
        "seed": spec.seed,
        # All GPUs of the replica are visible to this process: Ray need not place vLLM's workers again.
        **({"distributed_executor_backend": "mp"} if spec.tensor_parallel > 1 else {}),
        **({"gpu_memory_utilization": spec.gpu_fraction} if spec.replicas_per_gpu > 1 else {}),
        **({"enable_lora": True, "max_lora_rank": 256} if spec.adapter else {}),
        **({} if _normalizes_alike(processor) else {"mm_device_do_normalize": False}),
        **_cpu_settings(),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _normalizes_alike(processor: Any) -> bool:
    """Return whether pictures and clips are normalized alike: on the device vLLM 0.32 normalizes both as pictures."""
    parts = [getattr(processor, name, None) for name in ("image_processor", "video_processor")]
    names = ("do_normalize", "image_mean", "image_std", "do_rescale", "rescale_factor")
    values = [[getattr(part, name, None) for name in names] for part in parts if part is not None]
    return all(value == values[0] for value in values)


def _cpu_settings() -> dict[str, Any]:
    """Return the settings that vLLM's CPU build needs; {} on GPUs.

    By default it demands 92% of the machine's memory, and compiles kernels, which takes minutes and a C++ compiler.
    """
    if not current_platform.is_cpu():
        return {}
    return {
        "kv_cache_memory_bytes": free_host_bytes() // _CACHE_SHARE,
        "enforce_eager": True,
        "skip_mm_profiling": True,
    }


def lora_request(spec: ModelSpec) -> Any:
    """Return the adapter of an entry as vLLM takes it, or None."""
    if spec.adapter is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest("adapter", 1, adapter_folder(spec) if adapter_id(spec) else spec.adapter)
