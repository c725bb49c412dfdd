"""Placement by arithmetic: what a model needs of each GPU, and how many GPUs, replicas and rows that makes.

Pure functions of numbers. Bytes are bytes, GB are 10**9 bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.spec import ModelSpec, Shape

ASSUMED_CARD = 80 * 10**9
"""Bytes of the GPU that plans are made for where none is seen."""
CHUNK_TOKENS = 16_384
"""Tokens that the engine reads in one pass on a GPU."""
MOST_ROWS = 256
"""Rows beyond which a batch gains nothing."""
USEFUL_ROWS = 16
"""Rows below which a GPU idles: a larger tensor-parallel degree is proposed instead, where there are GPUs for it."""
CONTEXT_BYTES = 1_500_000_000
"""What a process takes of a GPU before the first weight: CUDA context, libraries, the allocator's waste."""
RANK_BYTES = 500_000_000
"""Buffers for talking to the other ranks."""
DEGREES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large a model is."""

    parameters: float
    """Weights in all, experts that sleep included."""
    shape: Shape | None
    """Of the language half; without it a guess by size is made, on the large side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """One batch: a beginning that all rows share, and what each row has of its own."""

    prefix_tokens: int = 4096
    own_tokens: int = 512
    """Of the longest row, its answer included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Bytes that one GPU of a replica must hold."""

    weights: int
    activations: int
    """While one chunk is read, and the scores over the vocabulary of a full batch."""
    fixed: int
    cache_a_token: int
    """Keys and values of one token over all layers."""

    @property
    def standing(self) -> int:
        """Without any cache."""
        return self.weights + self.activations + self.fixed

    def total(self, load: BatchShape, rows: int) -> int:
        """With a batch of so many rows; growing a row's room holds the old and the new at once."""
        return self.standing + self.cache_a_token * (load.prefix_tokens + 2 * rows * load.own_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How a model would lie on GPUs."""

    tensor_parallel: int
    replicas: int
    batch_size: int
    need: MemoryNeed
    card: int
    """Bytes of one GPU that were reckoned with."""
    fits: bool
    bytes_a_card: int
    """At the batch size above."""
    why: str = ""
    """What is lacking; '' when it fits."""

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.tensor_parallel * self.replicas


def bytes_a_weight(spec: ModelSpec) -> int:
    """4 for float32, else 2: checkpoints that leave the choice to themselves are stored in half precision."""
    return 4 if spec.dtype == "float32" else 2


def need(spec: ModelSpec, size: ModelSize, tensor_parallel: int) -> MemoryNeed:
    """What each of `tensor_parallel` GPUs holds.

    Embeddings of the vocabulary lie whole on every rank; all else is reckoned as cut evenly. Keys and values are cut
    by heads where their number allows.

    Args:
        spec: for the type of the numbers.
        size: of the model.
        tensor_parallel: ranks.
    """
    width = bytes_a_weight(spec)
    known = size.shape or _guessed(size.parameters)
    embedding = known.vocab * known.hidden * width if size.shape else 0
    weights = embedding + max(0.0, size.parameters * width - embedding) / tensor_parallel
    cut = tensor_parallel if known.kv_heads % tensor_parallel == 0 else 1
    cache = 2 * known.layers * known.kv_heads * known.head_dim * width / cut
    reading = CHUNK_TOKENS * (8 * known.hidden + 3 * known.intermediate / tensor_parallel) * width
    return MemoryNeed(
        weights=round(weights),
        activations=round(reading + MOST_ROWS * known.vocab * 4),
        fixed=CONTEXT_BYTES + (RANK_BYTES if tensor_parallel > 1 else 0),
        cache_a_token=round(cache),
    )


def _guessed(parameters: float) -> Shape:
    """A plain decoder of this many weights without grouped heads: 12 x layers x hidden^2, hidden = 128 x layers."""
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
    cards: Sequence[int],
    *,
    load: BatchShape | None = None,
    tensor_parallel: int | None = None,
) -> Placement:
    """Lay a model on GPUs: the smallest degree at which a useful batch fits, then as many replicas as there is room.

    What the user says goes before what is reckoned: `tensor_parallel` given here, `batch_size` and `replicas.max` of
    the spec.

    Args:
        spec: the model.
        size: of the model.
        cards: bytes of each GPU; the smallest one rules, for ranks are equal.
        load: the batch that is to fit.
        tensor_parallel: use this degree; None proposes one.

    Raises:
        ValueError: no cards.
    """
    if not cards:
        raise ValueError("no GPUs to place a model on; give at least one card's bytes")
    load = load or BatchShape()
    card = min(cards)
    degrees = [tensor_parallel] if tensor_parallel else _degrees(size.shape, len(cards))
    tried = [_placed(spec, size, cards, load, degree) for degree in degrees]
    useful = min(USEFUL_ROWS, spec.batch_size or USEFUL_ROWS)
    good = [one for one in tried if one.fits and one.batch_size >= useful]
    fitting = [one for one in tried if one.fits]
    best = next(iter(good), None) or max(fitting, key=lambda one: one.batch_size, default=tried[-1])
    if best.fits:
        return best
    return _lacking(best, spec, len(cards), card)


def _degrees(shape: Shape | None, cards: int) -> list[int]:
    """Degrees by which the heads can be cut and for which there are GPUs."""
    fair = [d for d in DEGREES if shape is None or (shape.heads % d == 0 and shape.kv_heads % d == 0)]
    return [d for d in fair if d <= cards] or [1]


def _placed(spec: ModelSpec, size: ModelSize, cards: Sequence[int], load: BatchShape, degree: int) -> Placement:
    wants = need(spec, size, degree)
    card = min(cards)
    room = card - wants.total(load, 0)
    # The engine gives a batch half of what is free: the other half is for beginnings that are asked about again.
    reckoned = min(MOST_ROWS, room // 2 // (2 * load.own_tokens * wants.cache_a_token)) if room > 0 else 0
    rows = spec.batch_size or max(1, reckoned)
    total = wants.total(load, rows)
    return Placement(
        tensor_parallel=degree,
        replicas=max(1, min(spec.replicas.max, len(cards) // degree)),
        batch_size=rows,
        need=wants,
        card=card,
        fits=total <= card and degree <= len(cards),
        bytes_a_card=total,
    )


def _lacking(found: Placement, spec: ModelSpec, cards: int, card: int) -> Placement:
    wanted, there = found.bytes_a_card / 1e9, card / 1e9
    if found.tensor_parallel > cards:
        why = f"tensor_parallel {found.tensor_parallel} needs as many GPUs a replica, and there are {cards}"
    else:
        why = (
            f"needs {wanted:.1f} GB on each of {found.tensor_parallel} GPUs (weights "
            f"{found.need.weights / 1e9:.1f} GB, activations {found.need.activations / 1e9:.1f} GB), and the smallest "
            f"has {there:.1f} GB: take more or larger GPUs"
        )
        if spec.batch_size and spec.batch_size > 1:
            why += ", or a smaller batch_size"
    return Placement(
        tensor_parallel=found.tensor_parallel,
        replicas=0,
        batch_size=found.batch_size,
        need=found.need,
        card=found.card,
        fits=False,
        bytes_a_card=found.bytes_a_card,
        why=why,
    )


def model_size(spec: ModelSpec) -> ModelSize | None:
    """The size of a model that runs here; None when neither its folder nor its entry tells."""
    if not spec.runs_locally:
        return None
    folder = Path(spec.model).expanduser()
    if folder.is_dir():
        parameters = sum(_parameters(path) for path in sorted(folder.glob("*.safetensors")))
        if parameters:
            return ModelSize(float(parameters), _shape(folder / "config.json") or spec.shape)
    return ModelSize(spec.parameters_b * 1e9, spec.shape) if spec.parameters_b else None


def _parameters(path: Path) -> int:
    """Numbers in one safetensors file, from the head that names its tensors; 0 when that cannot be read."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            head = json.loads(file.read(min(length, 100 << 20)))
        return sum(math.prod(one["shape"]) for name, one in head.items() if name != "__metadata__")
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError):
        return 0


def _shape(path: Path) -> Shape | None:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        text = next((config[key] for key in ("text_config", "llm_config") if config.get(key)), config)
        return _shape_of(text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # a configuration in other words: the entry's own numbers, or a guess, must do


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
