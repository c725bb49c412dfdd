"""Weights before they are loaded: brought to this machine once, compared with their checksums, weighed."""

from __future__ import annotations

import contextvars
import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from models.engines.transformers.load_progress import report_progress
from models.environment import s3_settings
from models.errors import EngineUnreachableError, MissingSecretError
from models.spec import ModelSpec

_log = logging.getLogger(__name__)

_ITEM = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}
_AS = {"float32": 4, "float16": 2, "bfloat16": 2}
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_DONE = ".complete"
_GB = 1e9


def ensure_local(spec: ModelSpec) -> ModelSpec:
    """The spec with `s3://` folders replaced by local copies, and checksums seen to be right.

    A copy is made once a machine under a lock, and shared by all replicas there; it is named by what the folder holds.

    Raises:
        EngineUnreachableError: the folder cannot be read, or a file is not what its checksum says.
    """
    model = _fetched(spec.model) if spec.model.startswith("s3://") else spec.model
    adapter = _fetched(spec.adapter) if spec.adapter and spec.adapter.startswith("s3://") else spec.adapter
    if Path(model).is_dir():
        check_checksums(Path(model), spec.checksums)
    elif spec.checksums:
        raise EngineUnreachableError(f"{model}: checksums are compared in a folder or s3:// folder only, not on a hub")
    return spec.model_copy(update={"model": model, "adapter": adapter})


def check_checksums(folder: Path, checksums: Mapping[str, str]) -> None:
    """Compare files with their sha256.

    Args:
        folder: where they lie.
        checksums: path in the folder -> sha256 in hex.

    Raises:
        EngineUnreachableError: naming the first file that is missing or another.
    """
    for name, wanted in checksums.items():
        path = folder / name
        if not path.is_file():
            raise EngineUnreachableError(f"{folder}: {name} has a checksum in the models file, but is not there")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != wanted.lower():
            raise EngineUnreachableError(
                f"{path}: its sha256 is {found}, and the models file says {wanted}; fetch the file again, or correct "
                "`checksums` if it was meant to change"
            )


def check_memory(spec: ModelSpec, free: int, place: str) -> None:
    """See before loading that the weights fit into what is free.

    Args:
        spec: a model that is at hand; a hub id is weighed by `parameters_b`, or not at all.
        free: bytes that each rank has.
        place: whose they are, for the message.

    Raises:
        EngineUnreachableError: with the numbers.
    """
    whole = known_bytes(spec)
    share = whole // spec.tensor_parallel
    if share > free:
        each = f", {share / _GB:.1f} GB for each of {spec.tensor_parallel} ranks" if spec.tensor_parallel > 1 else ""
        raise EngineUnreachableError(
            f"{spec.model} does not fit: its weights take {whole / _GB:.1f} GB as {spec.dtype}{each}, and "
            f"{free / _GB:.1f} GB of {place} are free; raise tensor_parallel, take a smaller dtype or a larger machine"
        )


def known_bytes(spec: ModelSpec) -> int:
    """Bytes of all weights: of a local folder as they lie there, of a hub id as its entry says; 0 when nobody knows."""
    folder = Path(spec.model)
    if folder.is_dir():
        return weights_bytes(folder, spec.dtype)
    return int((spec.parameters_b or 0.0) * 1e9) * _AS.get(spec.dtype, 2)


def free_host_bytes() -> int:
    """Memory that can be had now without ending somebody: free, and caches that the system gives back."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def weights_bytes(folder: Path, dtype: str = "auto") -> int:
    """Bytes of all tensors in a folder's `*.safetensors`, read from their headers alone.

    Args:
        folder: a checkpoint.
        dtype: what floating numbers are loaded as; `auto` as they are stored.
    """
    return sum(
        _tensor_bytes(tensor, dtype)
        for path in sorted(folder.glob("*.safetensors"))
        for name, tensor in _header(path).items()
        if name != "__metadata__"
    )


def _header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            return {}  # the loader says what is wrong with it
        header: dict[str, Any] = json.loads(file.read(length))
        return header


def _tensor_bytes(tensor: Mapping[str, Any], dtype: str) -> int:
    start, end = tensor["data_offsets"]
    stored = int(end - start)
    kind = tensor["dtype"]
    return stored // _ITEM[kind] * _AS[dtype] if dtype in _AS and kind in _FLOATS else stored


def _fetched(uri: str) -> str:
    """The local copy of an `s3://` folder, made now if it is not there."""
    from botocore.exceptions import BotoCoreError, ClientError
    from filelock import FileLock

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    try:
        client = _client()
        found = list(_listed(client, bucket, prefix.rstrip("/") + "/"))
        if not found:
            raise EngineUnreachableError(f"there is no folder {uri}, or it is empty")
        name = hashlib.sha256(json.dumps([uri, sorted(found)]).encode()).hexdigest()[:16]
        folder = _cache() / name
        with FileLock(f"{folder}.lock"):
            if not (folder / _DONE).is_file():
                _copy(client, bucket, prefix.rstrip("/") + "/", found, folder)
    except (BotoCoreError, ClientError, MissingSecretError) as error:
        raise EngineUnreachableError(f"{uri} cannot be read: {error}") from error
    except OSError as error:
        raise EngineUnreachableError(f"{uri} cannot be copied to {_cache()}: {error}") from error
    return str(folder)


def _cache() -> Path:
    """A folder of this user's own: weights that somebody else may write are not to be trusted."""
    folder = Path(tempfile.gettempdir()) / f"vlmsweep-weights-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def _client() -> Any:
    import boto3

    settings = s3_settings()
    return boto3.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        aws_access_key_id=settings.key,
        aws_secret_access_key=settings.secret.get_secret_value() if settings.secret else None,
        aws_session_token=settings.token.get_secret_value() if settings.token else None,
        region_name=settings.region,
    )


def _listed(client: Any, bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """(name in the folder, bytes, ETag) of each object."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            name = item["Key"].removeprefix(prefix)
            if name and not name.endswith("/"):
                yield name, int(item["Size"]), str(item["ETag"])


def _counter(before: int, total: int) -> Callable[[int], None]:
    """Tells once a second what has come; called by threads of boto3's own, so the listener is looked up now."""
    lock, came, said = threading.Lock(), before, monotonic()
    context = contextvars.copy_context()

    def count(piece: int) -> None:
        nonlocal came, said
        with lock:
            came += piece
            if monotonic() - said > 1.0 or came == total:
                said = monotonic()
                context.run(report_progress, "fetching", came, total)

    return count


def _copy(client: Any, bucket: str, prefix: str, found: list[tuple[str, int, str]], folder: Path) -> None:
    """All files, or none: the mark that a copy is whole is written last."""
    total = sum(size for _, size, _ in found)
    free = shutil.disk_usage(folder.parent).free
    if total > free:
        raise OSError(f"it holds {total / _GB:.1f} GB, and {free / _GB:.1f} GB of disk are free")
    _log.warning("fetching %.1f GB of weights from s3://%s/%s, once on this machine", total / _GB, bucket, prefix)
    here = 0
    for name, size, _ in found:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise OSError(f"{name!r} would lie outside the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, prefix + name, str(path), Callback=_counter(here, total))
        here += size
        if path.stat().st_size != size:
            raise OSError(f"{name} came with {path.stat().st_size} bytes of {size}")
    (folder / _DONE).touch()
