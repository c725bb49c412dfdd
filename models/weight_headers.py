"""Read the headers of weight files, GGUF and safetensors, without the weights.

Format of GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from models.entry_fields import Shape
from models.errors import EngineUnreachableError
from models.guards.regular_files import open_regular

LFS_REMEDY = "is a pointer of git-lfs, not the file itself: run `git lfs pull` in its folder, or fetch it again"
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_HEADER = 16 << 20  # bytes of a safetensors header; those of the largest models have two million
_MAX_DIMENSIONS, _MAX_NAME = 4, 100
_MAX_TEXT, _MAX_COUNT = 16 << 20, 1 << 20
"""Bytes of a text and length of a list, several times those of the largest models: a damaged file counts anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """The metadata of a GGUF file about its model."""

    architecture: str
    parameters: int  # weights of all tensors
    shape: Shape | None  # None where the file lacks one of its numbers
    has_chat_template: bool
    parts: int  # files that the model is split into


def gguf_file(source: str) -> Path | None:
    """Return the GGUF file that a model's `model` names: itself, or the only one of a folder without safetensors."""
    path = Path(source).expanduser()
    if path.suffix.lower() == ".gguf":
        return path
    if not path.is_dir() or any(path.glob("*.safetensors")):
        return None
    files = list(path.glob("*.gguf"))
    return files[0] if len(files) == 1 else None


def read_gguf_header(path: Path) -> GgufHeader:
    """Return a file's header; `ValueError` says what is damaged, `OSError` why it cannot be read."""
    stat = path.stat()
    return _read(path, stat.st_size, stat.st_mtime_ns)


def check_gguf(path: Path) -> GgufHeader:
    """Return the header of a GGUF file that is whole in itself, or raise `EngineUnreachableError`."""
    try:
        header = read_gguf_header(path)
    except FileNotFoundError:
        raise EngineUnreachableError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise EngineUnreachableError(f"{path} cannot be read: {error} (fetch the file again)") from error
    if header.parts > 1:
        raise EngineUnreachableError(
            f"{path} is one of {header.parts} parts of a model; join them with `llama-gguf-split --merge`"
        )
    return header


@lru_cache(maxsize=16)
def _read(path: Path, size: int, _changed_ns: int) -> GgufHeader:
    with open_regular(path) as file:
        magic = file.read(len(_LFS_MAGIC))
        if is_lfs_pointer(magic):
            raise ValueError(f"it {LFS_REMEDY}")
        if magic[:4] != _MAGIC:
            raise ValueError("it is no GGUF file")
        file.seek(4)
        (version,) = _unpack(file, "I")
        if version not in _VERSIONS:
            raise ValueError(f"its format has version {version}, and only {' and '.join(map(str, _VERSIONS))} are read")
        tensors, fields = _unpack(file, "QQ")
        if max(tensors, fields) > min(size, _MAX_COUNT):
            raise ValueError("it is damaged: it counts more tensors or fields than it can have")
        values = dict(_read_field(file, size) for _ in range(fields))
        parameters = sum(_read_tensor(file, size) for _ in range(tensors))
    architecture, parts = values.get("general.architecture"), values.get("split.count") or 1
    if not architecture or not isinstance(architecture, str) or len(architecture) > _MAX_NAME:
        raise ValueError("it names no architecture")
    if not isinstance(parts, int):
        raise ValueError("it is damaged: its number of parts is not whole")  # noqa: TRY004  as for all damage
    return GgufHeader(
        architecture=architecture,
        parameters=parameters,
        shape=_shape(architecture, values),
        has_chat_template=bool(values.get("tokenizer.chat_template")),
        parts=parts,
    )


def _read_field(file: IO[bytes], size: int) -> tuple[str, Any]:
    """Return a field's name and value; of an array its length."""
    name = _read_text(file, size)
    (kind,) = _unpack(file, "I")
    return name, _read_value(file, kind, size)


def _read_value(file: IO[bytes], kind: int, size: int) -> Any:
    if kind in _SCALARS:
        return _unpack(file, _SCALARS[kind])[0]
    if kind == _STRING:
        return _read_text(file, size)
    if kind != _ARRAY:
        raise ValueError(f"it is damaged: there is no type {kind} of fields")
    item, length = _unpack(file, "IQ")
    if item == _ARRAY or length > min(size, _MAX_COUNT):
        raise ValueError("it is damaged: an array is longer than it can be, or holds arrays")
    if item in _SCALARS:
        file.seek(length * struct.calcsize(_SCALARS[item]), 1)
    else:
        for _ in range(length):
            _read_value(file, item, size)
    return length


def _read_tensor(file: IO[bytes], size: int) -> int:
    """Return the number of weights of the next tensor."""
    _read_text(file, size)
    (dimensions,) = _unpack(file, "I")
    if dimensions > _MAX_DIMENSIONS:
        raise ValueError(f"it is damaged: a tensor has {dimensions} dimensions")
    weights: int = math.prod(_unpack(file, "Q" * dimensions))
    _type, offset = _unpack(file, "IQ")
    if offset > size or weights > 64 * size:
        raise ValueError("it is truncated or damaged: a tensor lies outside the file")
    return weights


def _read_text(file: IO[bytes], size: int) -> str:
    (length,) = _unpack(file, "Q")
    if length > min(size, _MAX_TEXT):
        raise ValueError("it is damaged: a text is longer than the file, or than any")
    return _read_bytes(file, length).decode("utf-8", errors="replace")


def _unpack(file: IO[bytes], layout: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{layout}", _read_bytes(file, struct.calcsize(f"<{layout}")))


def _read_bytes(file: IO[bytes], length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise ValueError("it is truncated: it ends within its header")
    return data


def _shape(architecture: str, values: Mapping[str, Any]) -> Shape | None:
    def number(name: str) -> Any:
        return values.get(f"{architecture}.{name}")

    try:
        heads, hidden = int(number("attention.head_count")), int(number("embedding_length"))
        return Shape(
            layers=number("block_count"),
            hidden=hidden,
            heads=heads,
            kv_heads=number("attention.head_count_kv") or heads,
            head_dim=number("attention.key_length") or hidden // heads,
            intermediate=number("feed_forward_length"),
            vocab=number("vocab_size") or values["tokenizer.ggml.tokens"],
        )
    except (TypeError, ValueError, KeyError, ArithmeticError):
        return None


def is_lfs_pointer(content: bytes) -> bool:
    """Return whether the first bytes of a file are those of a pointer that git-lfs leaves in place of a large file."""
    return content.startswith(_LFS_MAGIC)


def check_safetensors(path: Path) -> None:
    """Raise `ValueError` with the remedy unless a safetensors file is as long as its header says."""
    with open_regular(path) as file:
        start = file.read(len(_LFS_MAGIC))
        size = file.seek(0, 2)
    if is_lfs_pointer(start):
        raise ValueError(f"{path} {LFS_REMEDY}")
    header = 8 + int.from_bytes(start[:8], "little")
    tensors = read_tensors(path) if len(start) >= 8 and header <= size else None
    end = header + max((tensor["data_offsets"][1] for tensor in (tensors or {}).values()), default=0)
    if tensors is None or end > size:
        raise ValueError(f"{path} is truncated: it has {size:,} bytes of {max(end, 8):,}; fetch it again")
    if end < size:
        raise ValueError(f"{path} is damaged: {size - end:,} bytes follow its last tensor; fetch it again")


def read_tensors(path: Path) -> dict[str, dict[str, Any]]:
    """Return tensor name -> {dtype, shape, data_offsets}, {} for a truncated file; `ValueError` for a damaged one."""
    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            return {}
        if length > _MAX_HEADER:
            raise ValueError(f"{path}: its header has {length:,} bytes, so it is damaged; fetch the file again")
        content = file.read(length)
    try:
        header: dict[str, dict[str, Any]] = json.loads(content)
        header.pop("__metadata__", None)
        is_valid = all(map(_is_tensor, header.values()))
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: its header is damaged ({error}); fetch the file again") from error
    if not is_valid:
        raise ValueError(f"{path}: its header is damaged (a tensor without type, shape or place); fetch the file again")
    return header


def _is_tensor(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape, place = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(place, list) or len(place) != 2:
        return False
    return all(type(number) is int and 0 <= number < 1 << 63 for number in (*shape, *place)) and place[0] <= place[1]
