"""Memory of weights, known before they are loaded."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.checkpoints.problems import checkpoint_problem
from models.engines.launch import LaunchedModel
from models.errors import EngineUnreachableError
from models.gpu_memory import format_bytes
from models.weight_headers import check_gguf, gguf_file, read_tensors

_STORED_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}
_LOADED_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


def check_checkpoint(model: LaunchedModel) -> None:
    """Raise `EngineUnreachableError` if the files of a model in a folder cannot be loaded here; none is read."""
    if problem := checkpoint_problem(model.spec, model.source, model.adapter):
        raise EngineUnreachableError(f"the model {model.spec.model} cannot be loaded: {problem}")


def check_memory(model: LaunchedModel, free: int, memory_name: str) -> None:
    """Raise `EngineUnreachableError` with the numbers unless the weights fit into the free bytes of each rank."""
    ranks, total = model.spec.tensor_parallel, known_bytes(model)
    share = total // ranks
    if share > free:
        per_rank = f", {format_bytes(share)} for each of {ranks} ranks" if ranks > 1 else ""
        raise EngineUnreachableError(
            f"{model.source} does not fit: its weights take {format_bytes(total)} as {model.spec.dtype}{per_rank}, and "
            f"{format_bytes(free)} of {memory_name} are free; raise tensor_parallel, use a smaller dtype or a larger "
            "machine"
        )


def known_bytes(model: LaunchedModel) -> int:
    """Return the bytes of all weights: of a local folder as stored, of a hub id by its entry; 0 when unknown.

    A GGUF file counts as what it is converted to.
    """
    if gguf := gguf_file(model.source):
        return check_gguf(gguf).parameters * _LOADED_BYTES.get(model.spec.dtype, 2)
    if model.folder:
        try:
            return weights_bytes(model.folder, model.spec.dtype)
        except ValueError as error:
            raise EngineUnreachableError(str(error)) from error
    return int((model.spec.parameters_b or 0.0) * 1e9) * _LOADED_BYTES.get(model.spec.dtype, 2)


def free_host_bytes() -> int:
    """Return the memory available without ending a process: free, and reclaimable caches."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def weights_bytes(folder: Path, dtype: str = "auto") -> int:
    """Return the bytes of a checkpoint's `*.safetensors`, by headers; floats as `dtype`, or as stored for `auto`."""
    return sum(
        _tensor_bytes(tensor, dtype)
        for path in sorted(folder.glob("*.safetensors"))
        for tensor in read_tensors(path).values()
    )


def _tensor_bytes(tensor: Mapping[str, Any], dtype: str) -> int:
    start, end = tensor["data_offsets"]
    stored = int(end - start)
    stored_dtype = tensor["dtype"]
    if dtype in _LOADED_BYTES and stored_dtype in _FLOATS:
        return stored // _STORED_BYTES[stored_dtype] * _LOADED_BYTES[dtype]
    return stored
