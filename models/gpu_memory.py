"""The memory that a model needs of each GPU, and how many GPUs, replicas and rows follow; GB are 10**9 bytes."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from models.entry_fields import Shape
from models.guards.regular_files import read_regular
from models.spec import ModelSpec
from models.weight_headers import gguf_file, read_gguf_header, read_tensors

ASSUMED_GPU_BYTES = 80 * 10**9  # memory of the GPU that plans are made for where none is visible
CHUNK_TOKENS = 16_384  # tokens that the engine prefills in one pass on a GPU
MAX_ROWS = 256  # rows beyond which a batch gains nothing
USEFUL_ROWS = 16  # a GPU idles below these rows: a larger tensor-parallel degree is proposed where there are GPUs
CONTEXT_BYTES = 1_500_000_000  # GPU memory of a process before the first weight: CUDA context, libraries, fragmentation
RANK_BYTES = 500_000_000  # buffers for communication with other ranks
DEGREES = (1, 2, 4, 8, 16)
_VISION = re.compile(r"vis(ual|ion)|image|patch|project(or|ion)\.|connector|merger|[qp]former|resampler")
"""Names of tensors between pixels and the language model, which every rank holds whole."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The size of a model."""

    parameters: float  # all weights, inactive experts included
    shape: Shape | None  # of the language model; None: guessed from the size, on the large side
    unsharded: float | None = None  # weights that each rank holds whole; None: estimated from the shape
    stored_width: int | None = None  # bytes of a weight with dtype `auto`; None: half precision


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """One batch: a prefix that all rows share, and the tokens of each row."""

    prefix_tokens: int = 4096
    own_tokens: int = 512  # of the longest row, its answer included


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Bytes that one GPU of a replica must hold."""

    weights: int
    activations: int  # while one chunk is prefilled, plus the logits of a full batch
    fixed: int
    cache_per_token: int  # keys and values of one token over all layers

    @property
    def without_cache(self) -> int:
        """Return the bytes needed before any key or value is cached."""
        return self.weights + self.activations + self.fixed

    def total(self, batch: BatchShape, rows: int) -> int:
        """Return the bytes with a batch of `rows` rows; growing a row's cache holds the old and the new at once."""
        return self.without_cache + self.cache_per_token * (batch.prefix_tokens + 2 * rows * batch.own_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The placement of a model on GPUs."""

    tensor_parallel: int
    replicas: int
    batch_size: int
    need: MemoryNeed
    gpu_bytes: int  # memory of one GPU, or of the share of one
    fits: bool
    bytes_per_gpu: int  # memory needed at the batch size above
    per_gpu: int = 1  # replicas that share a GPU, and its memory
    reason: str = ""  # what is missing; '' when it fits

    @property
    def gpus(self) -> int:
        """Return the number of GPUs over all replicas."""
        return self.tensor_parallel * -(-self.replicas // self.per_gpu)


def bytes_per_weight(spec: ModelSpec, size: ModelSize | None = None) -> int:
    """Return 4 for float32, else 2: with dtype `auto`, checkpoints are stored in half precision unless known."""
    if spec.dtype == "auto" and size is not None and size.stored_width:
        return size.stored_width
    return 4 if spec.dtype == "float32" else 2


def memory_need(spec: ModelSpec, size: ModelSize, tensor_parallel: int) -> MemoryNeed:
    """Return what each of `tensor_parallel` GPUs holds.

    The layers and vocabulary of the language model are sharded, and every rank holds the vision tower. Keys and values
    are sharded by heads where their number allows; each rank has one head at least.
    """
    width = bytes_per_weight(spec, size)
    shape = size.shape or _guess_shape(size.parameters)
    whole = _unsharded_parameters(size) * width
    weights = whole + (size.parameters * width - whole) / tensor_parallel
    is_even = shape.kv_heads % tensor_parallel == 0 or tensor_parallel % shape.kv_heads == 0
    shards = min(tensor_parallel, shape.kv_heads) if is_even else 1
    cache = 2 * shape.layers * shape.kv_heads * shape.head_dim * width / shards
    prefill = CHUNK_TOKENS * (8 * shape.hidden + 3 * shape.intermediate / tensor_parallel) * width
    return MemoryNeed(
        weights=round(weights),
        activations=round(prefill + MAX_ROWS * shape.vocab * 4),
        fixed=CONTEXT_BYTES + (RANK_BYTES if tensor_parallel > 1 else 0),
        cache_per_token=round(cache),
    )


def _unsharded_parameters(size: ModelSize) -> float:
    """Return the weights that each rank holds whole: all but the layers, the vocabulary and the output layer.

    That is wrong for experts, which the shape does not count. Where it leaves more than half of the model, and where
    the output layer is the vocabulary, one vocabulary counts as whole: rather too much than too little.
    """
    if size.unsharded is not None:
        return size.unsharded
    shape = size.shape
    if shape is None:
        return 0.0
    attention = 2 * shape.hidden * (shape.heads + shape.kv_heads) * shape.head_dim
    layers = shape.layers * (attention + 3 * shape.hidden * shape.intermediate)
    vocabulary = shape.vocab * shape.hidden
    rest = size.parameters - layers - 2 * vocabulary
    return min(size.parameters, max(rest, vocabulary) if rest <= size.parameters / 2 else vocabulary)


def _guess_shape(parameters: float) -> Shape:
    """Return a plain decoder of this many weights: 12 x layers x hidden^2, hidden = 128 x layers, no grouped heads."""
    layers = max(1, round((parameters / (12 * 128**2)) ** (1 / 3)))
    hidden = 128 * layers
    return Shape(
        layers=layers,
        hidden=hidden,
        heads=layers,
        kv_heads=layers,
        head_dim=128,
        intermediate=4 * hidden,
        vocab=152_064,
    )


def plan_placement(
    spec: ModelSpec,
    size: ModelSize,
    gpus: Sequence[int],
    *,
    batch: BatchShape | None = None,
    tensor_parallel: int | None = None,
) -> Placement:
    """Place a model on GPUs: the smallest degree at which a useful batch fits, then as many replicas as there is room.

    Explicit settings override estimates: `tensor_parallel` here, `batch_size` and `replicas.max` of the spec. `gpus`
    holds the bytes of each; the smallest counts, for ranks are equal. No GPUs are a `ValueError`.
    """
    if not gpus:
        raise ValueError("no GPUs to place a model on; give the bytes of at least one GPU")
    batch = batch or BatchShape()
    is_shared = spec.replicas_per_gpu > 1
    degrees = [tensor_parallel] if tensor_parallel else [1] if is_shared else _degrees(size.shape, len(gpus))
    candidates = [_place(spec, size, gpus, batch, degree) for degree in degrees]
    useful_rows = min(USEFUL_ROWS, spec.batch_size or USEFUL_ROWS)
    fitting = [candidate for candidate in candidates if candidate.fits]
    best = next((candidate for candidate in fitting if candidate.batch_size >= useful_rows), None)
    best = best or max(fitting, key=lambda candidate: candidate.batch_size, default=candidates[-1])
    return best if best.fits else _without_room(best, spec, len(gpus))


def _degrees(shape: Shape | None, gpus: int) -> list[int]:
    even = [d for d in DEGREES if shape is None or (shape.heads % d == 0 and shape.kv_heads % d == 0)]
    return [d for d in even if d <= gpus] or [1]


def _place(spec: ModelSpec, size: ModelSize, gpus: Sequence[int], batch: BatchShape, degree: int) -> Placement:
    need = memory_need(spec, size, degree)
    gpu_bytes = min(gpus) // spec.replicas_per_gpu
    available = gpu_bytes - need.total(batch, 0)
    # The engine gives a batch half of what is free: the other half is for prefixes that later calls share.
    estimate = min(MAX_ROWS, available // 2 // (2 * batch.own_tokens * need.cache_per_token)) if available > 0 else 0
    rows = spec.batch_size or max(1, estimate)
    total = need.total(batch, rows)
    return Placement(
        tensor_parallel=degree,
        replicas=max(1, min(spec.replicas.max, len(gpus) // degree * spec.replicas_per_gpu)),
        batch_size=rows,
        need=need,
        gpu_bytes=gpu_bytes,
        fits=total <= gpu_bytes and degree <= len(gpus),
        bytes_per_gpu=total,
        per_gpu=spec.replicas_per_gpu,
    )


def format_bytes(count: float) -> str:
    """Return bytes in the largest of GB, MB and kB of which there is at least one: small files have no 0.0 GB."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    unit, size = ("MB", 1e6) if count >= 1e6 else ("kB", 1e3) if count >= 1e3 else ("bytes", 1)
    return f"{count / size:.0f} {unit}"


def _without_room(placement: Placement, spec: ModelSpec, gpus: int) -> Placement:
    if placement.tensor_parallel > gpus:
        reason = f"tensor_parallel {placement.tensor_parallel} needs as many GPUs per replica, and there are {gpus}"
    else:
        need = placement.need
        share = f", which {placement.per_gpu} replicas share" if placement.per_gpu > 1 else ""
        reason = (
            f"needs {format_bytes(placement.bytes_per_gpu)} on each of {placement.tensor_parallel} GPUs{share} "
            f"(weights {format_bytes(need.weights)}, activations {format_bytes(need.activations)}), and the smallest "
            f"has {format_bytes(placement.gpu_bytes)}: use more or larger GPUs"
        )
        if spec.batch_size and spec.batch_size > 1:
            reason += ", or a smaller batch_size"
    return replace(placement, replicas=0, fits=False, reason=reason)


def model_size(spec: ModelSpec) -> ModelSize | None:
    """Return the size of a local model; None when neither its folder nor its entry states it."""
    if not spec.runs_locally:
        return None
    folder = Path(spec.model).expanduser()
    if gguf := gguf_file(spec.model):
        return _gguf_size(gguf)
    if folder.is_dir():
        tensors = [tensor for path in sorted(folder.glob("*.safetensors")) for tensor in _tensors(path)]
        if tensors:
            return _stored_size(tensors, _read_shape(folder / "config.json") or spec.shape)
    return ModelSize(spec.parameters_b * 1e9, spec.shape) if spec.parameters_b else None


def _gguf_size(path: Path) -> ModelSize | None:
    """Return the size of the model in a GGUF file once its weights are converted; None when its header is damaged."""
    try:
        header = read_gguf_header(path)
    except (OSError, ValueError):
        return None
    return ModelSize(float(header.parameters), header.shape)


def _tensors(path: Path) -> list[tuple[str, Sequence[int], str]]:
    """Return name, shape and type of each tensor in a safetensors file; none when its header cannot be read."""
    try:
        return [(name, tensor["shape"], tensor["dtype"]) for name, tensor in read_tensors(path).items()]
    except (OSError, ValueError):
        return []


def _stored_size(tensors: Sequence[tuple[str, Sequence[int], str]], shape: Shape | None) -> ModelSize:
    """Return the size of stored tensors; those of quantized checkpoints say nothing of types and shards."""
    parameters = sum(math.prod(dimensions) for _, dimensions, _ in tensors)
    if not {kind for _, _, kind in tensors} <= {"F32", "F16", "BF16"}:
        return ModelSize(float(parameters), shape)
    wide = sum(math.prod(dimensions) for _, dimensions, kind in tensors if kind == "F32")
    whole = sum(math.prod(dimensions) for name, dimensions, _ in tensors if len(dimensions) < 2 or _VISION.search(name))
    return ModelSize(float(parameters), shape, float(whole), 4 if wide > parameters / 2 else 2)


def _read_shape(path: Path) -> Shape | None:
    try:
        config = json.loads(read_regular(path))
        return _shape_of(next((config[key] for key in ("text_config", "llm_config") if config.get(key)), config))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None  # other key names: the entry's numbers, or a guess, must do


def _shape_of(text: Mapping[str, Any]) -> Shape:
    heads, hidden = int(text["num_attention_heads"]), int(text["hidden_size"])
    return Shape(
        layers=text["num_hidden_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or hidden // heads,
        intermediate=text["intermediate_size"],
        vocab=text["vocab_size"],
    )
