"""Convert a GGUF file into a folder of safetensors, once on a machine: the engines and their checks read only those."""

import hashlib
import importlib.util
import json
import logging
import shutil
import struct
from pathlib import Path
from typing import Any

from models.availability import GGUF_NOT_INSTALLED
from models.engines.load_progress import weights_progress
from models.errors import EngineUnreachableError
from models.fingerprint import content_fingerprint
from models.gpu_memory import format_bytes
from models.weight_headers import GgufHeader, check_gguf

_log = logging.getLogger(__name__)

_BYTES = {"float32": 4}  # of a weight as stored; else 2


def converted_folder(path: Path, dtype: str, cache: Path) -> Path:
    """Return the folder in `cache` with the weights of a GGUF file, which are converted where there is none.

    Quantized weights become `dtype`; `auto` stores bfloat16, whose error is far below that of the quantization. Raises
    `EngineUnreachableError` for a file that is missing, damaged or of an architecture that transformers does not read.
    """
    from filelock import FileLock

    stored = "bfloat16" if dtype == "auto" else dtype
    header = check_gguf(path)
    if importlib.util.find_spec("gguf") is None:
        raise EngineUnreachableError(f"the model {path} cannot be loaded: {GGUF_NOT_INSTALLED}")
    name = hashlib.sha256(json.dumps([content_fingerprint(path), stored]).encode()).hexdigest()[:16]
    folder = cache / f"gguf-{name}"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            _convert(path, header, stored, folder)
    return folder


def _convert(path: Path, header: GgufHeader, dtype: str, folder: Path) -> None:
    """Write the folder whole or not at all."""
    size = header.parameters * _BYTES.get(dtype, 2)
    free = shutil.disk_usage(folder.parent).free
    if size > free:
        raise EngineUnreachableError(
            f"{path} cannot be converted: it takes {format_bytes(size)} as {dtype}, and {format_bytes(free)} of disk "
            f"are free at {folder.parent}"
        )
    _log.warning("converting %s to %s of %s in %s, once on this machine", path, format_bytes(size), dtype, folder)
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        _save(path, dtype, part, size)
    except _conversion_errors() as error:
        cause = (str(error).strip() or type(error).__name__).splitlines()[0]
        shutil.rmtree(part, ignore_errors=True)
        raise EngineUnreachableError(
            f"the model {path} ({header.architecture}) cannot be converted: {cause} (fetch the file again if it is "
            "damaged, or give the folder of its safetensors)"
        ) from error
    part.replace(folder)


def _save(path: Path, dtype: str, folder: Path, size: float) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from models.engines.tensor_names import check_weights

    arguments: dict[str, Any] = {
        "pretrained_model_name_or_path": str(path.parent),
        "gguf_file": path.name,
        "local_files_only": True,
        "trust_remote_code": False,
    }
    tokenizer = AutoTokenizer.from_pretrained(**arguments)
    with weights_progress(size):
        model, facts = AutoModelForCausalLM.from_pretrained(
            **arguments, **_dequantized(), dtype=getattr(torch, dtype), output_loading_info=True
        )
    check_weights(model, facts)
    # transformers refuses to save a model that came from GGUF; these weights are plain tensors by now.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _dequantized() -> dict[str, Any]:
    """Return the arguments for plain weights; transformers before 5.20 has none, as it never keeps them packed."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def _conversion_errors() -> tuple[type[Exception], ...]:
    from models.engines.transformers.model_config import LOAD_ERRORS

    return (*LOAD_ERRORS, IndexError, struct.error, ArithmeticError)
