"""Headers of weights, configurations and models files for the fuzzer."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path


def _gguf_seed(folder: Path) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    numbers = {"embedding_length": 64, "block_count": 2, "attention.head_count": 4, "feed_forward_length": 128}
    fields = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    fields += [text(f"llama.{name}") + struct.pack("<II", 4, value) for name, value in numbers.items()]
    fields += [text("split.count") + struct.pack("<II", 4, 1)]
    fields += [text("tokenizer.chat_template") + struct.pack("<I", 8) + text("{{ x }}")]
    tokens = b"".join(text(f"token{n}") for n in range(200))
    fields += [text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 200) + tokens]
    tensors = [text(f"blk.{n}") + struct.pack("<IQQIQ", 2, 64, 64, 0, 64 * n) for n in range(20)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    return head + b"".join(fields) + b"".join(tensors) + bytes(4096)


def _gguf(content: bytes, folder: Path) -> None:
    from models.gpu_memory import _gguf_size
    from models.weight_headers import _read, check_gguf

    _read.cache_clear()
    path = folder / "model.gguf"
    path.write_bytes(content)
    _gguf_size(path)
    check_gguf(path)


def _safetensors_seed(folder: Path) -> bytes:
    names = {
        f"layer.{n}": {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * n, 256 * n + 256]} for n in range(9)
    }
    header = json.dumps({"__metadata__": {"format": "pt"}, **names}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(9 * 256)


def _safetensors(content: bytes, folder: Path) -> None:
    from models.engines.launch import LaunchedModel
    from models.engines.weights import known_bytes
    from models.gpu_memory import _stored_size, _tensors
    from models.spec import ModelSpec

    weights = folder / "weights"
    weights.mkdir(exist_ok=True)
    (weights / "model.safetensors").write_bytes(content)
    _stored_size(_tensors(weights / "model.safetensors"), None)
    known_bytes(LaunchedModel.as_named(ModelSpec(engine="transformers", model=str(weights), dtype="bfloat16")))


def _config(content: bytes, folder: Path) -> None:
    from models.gpu_memory import _read_shape

    (folder / "config.json").write_bytes(content)
    _read_shape(folder / "config.json")


def _config_seed(folder: Path) -> bytes:
    return json.dumps({"text_config": {"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 2,
                                       "intermediate_size": 9, "vocab_size": 11, "head_dim": 16}}).encode()  # fmt: skip


def _models_file(content: bytes, folder: Path) -> None:
    from models.catalog_loader import load_models

    (folder / "models.yaml").write_bytes(content)
    load_models([folder / "models.yaml"])


MODEL_PARSERS: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes, Path], None]]] = {
    "GGUF header": (_gguf_seed, _gguf),
    "safetensors header": (_safetensors_seed, _safetensors),
    "config.json of a model": (_config_seed, _config),
    "models file": (
        lambda _: b"m: {engine: random, seed: 3, price: {input_per_million: 1.0, output_per_million: 2}}\n",
        _models_file,
    ),
}
