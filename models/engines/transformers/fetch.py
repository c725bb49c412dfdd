"""Download a model's files before they are loaded: each once, compared with its checksum."""

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

from models.engines.gguf_conversion import converted_folder
from models.engines.hub import adapter_folder, adapter_id
from models.engines.launch import LaunchedModel
from models.engines.load_progress import report_progress
from models.environment import s3_settings
from models.errors import EngineUnreachableError, MissingSecretError, ShellSettingError
from models.scratch import private_folder
from models.shell.connections import check_object_store
from models.spec import ModelSpec
from models.weight_headers import gguf_file

_log = logging.getLogger(__name__)

_COMPLETE = ".complete"  # marker file of a folder that was copied completely
_GB = 1e9


def ensure_local(spec: ModelSpec) -> LaunchedModel:
    """Replace `s3://` folders, GGUF files and adapters of the hub by local folders, and verify checksums.

    Copies are made once per machine under a lock and shared by all replicas there, named by their content. Raises
    EngineUnreachableError where something is missing or differs.
    """
    source = _fetch(spec.model) if spec.model.startswith("s3://") else spec.model
    adapter = adapter_folder(spec) if adapter_id(spec) else spec.adapter
    if adapter and adapter.startswith("s3://"):
        adapter = _fetch(adapter)
    gguf = gguf_file(source)
    folder = gguf.parent if gguf else Path(source)
    if folder.is_dir():
        check_checksums(folder, spec.checksums)
    elif spec.checksums:
        raise EngineUnreachableError(f"{source}: checksums are compared in a folder or s3:// folder only, not on a hub")
    if gguf:
        try:
            source = str(converted_folder(gguf, spec.dtype, _cache_folder()))
        except OSError as error:
            raise EngineUnreachableError(f"{gguf} cannot be converted: {error}") from error
    return LaunchedModel(spec=spec, source=source, adapter=adapter)


def check_checksums(folder: Path, checksums: Mapping[str, str]) -> None:
    """Compare files with their sha256 in hex; `EngineUnreachableError` names the first that is missing or differs."""
    for name, expected in checksums.items():
        path = folder / name
        if not path.is_file():
            raise EngineUnreachableError(f"{folder}: {name} has a checksum in the models file, but is missing")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected.lower():
            raise EngineUnreachableError(
                f"{path}: its sha256 is {digest}, and the models file says {expected}; fetch the file again, or "
                "correct `checksums` if it was meant to change"
            )


def _fetch(uri: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError
    from filelock import FileLock

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    prefix = prefix.rstrip("/") + "/"
    try:
        client = _client()
        objects = list(_list_objects(client, bucket, prefix))
        if not objects:
            raise EngineUnreachableError(f"there is no folder {uri}, or it is empty")
        name = hashlib.sha256(json.dumps([uri, sorted(objects)]).encode()).hexdigest()[:16]
        folder = _cache_folder() / name
        with FileLock(f"{folder}.lock"):
            if not (folder / _COMPLETE).is_file():
                _copy(client, bucket, prefix, objects, folder)
    except (BotoCoreError, ClientError, MissingSecretError, ShellSettingError) as error:
        raise EngineUnreachableError(f"{uri} cannot be read: {error}") from error
    except OSError as error:
        raise EngineUnreachableError(f"{uri} cannot be copied to {_cache_folder()}: {error}") from error
    return str(folder)


def _cache_folder() -> Path:
    """Return a folder of this user alone: weights that another user can write are not trusted."""
    return private_folder(Path(tempfile.gettempdir(), f"vlmsweep-weights-{os.getuid()}"))


def _client() -> Any:
    check_object_store()
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


def _list_objects(client: Any, bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """Yield (name in the folder, bytes, ETag) of each object."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            name = item["Key"].removeprefix(prefix)
            if name and not name.endswith("/"):
                yield name, int(item["Size"]), str(item["ETag"])


def _copy(client: Any, bucket: str, prefix: str, objects: list[tuple[str, int, str]], folder: Path) -> None:
    """Copy all files or none: the marker of a complete copy is written last."""
    total = sum(size for _, size, _ in objects)
    free = shutil.disk_usage(folder.parent).free
    if total > free:
        raise OSError(f"it holds {total / _GB:.1f} GB, and {free / _GB:.1f} GB of disk are free")
    _log.warning("fetching %.1f GB of weights from s3://%s/%s, once on this machine", total / _GB, bucket, prefix)
    copied = 0
    for name, size, _ in objects:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise OSError(f"{name!r} would be written outside the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, prefix + name, str(path), Callback=_progress_counter(copied, total))
        copied += size
        if path.stat().st_size != size:
            raise OSError(f"{name} came with {path.stat().st_size} bytes of {size}")
    (folder / _COMPLETE).touch()


def _progress_counter(before: int, total: int) -> Callable[[int], None]:
    """Return a callback that reports received bytes once a second; boto3 calls it in its own threads."""
    lock, received, reported_at = threading.Lock(), before, monotonic()
    context = contextvars.copy_context()  # the listener is looked up in the context of this thread

    def count(size: int) -> None:
        nonlocal received, reported_at
        with lock:
            received += size
            if monotonic() - reported_at > 1.0 or received == total:
                reported_at = monotonic()
                context.run(report_progress, "fetching", received, total)

    return count
