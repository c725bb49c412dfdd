"""Download a model's files before they are loaded: each once, compared with its checksum."""

import contextvars
import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from models.engines.gguf_conversion import converted_folder
from models.engines.hub import adapter_folder, adapter_id
from models.engines.launch import LaunchedModel
from models.engines.load_progress import report_progress
from models.engines.weight_store import check_disk, complete, folder_of, hold, is_complete, make_room, weights_folder
from models.environment import s3_settings
from models.errors import EngineUnreachableError, MissingSecretError, ShellSettingError
from models.gpu_memory import format_bytes
from models.shell.connections import check_object_store
from models.shell.store_region import REDIRECTED, end_redirect, region_problem
from models.spec import ModelSpec
from models.weight_headers import gguf_file

_log = logging.getLogger(__name__)

_RANGE = 32 << 20  # bytes of one request; an interrupted download goes on after its last whole range
_CONCURRENT = 8  # requests
_PAUSES_S = (1.0, 4.0, 15.0)  # before a range is read again


def ensure_local(spec: ModelSpec) -> LaunchedModel:
    """Replace `s3://` folders, GGUF files and adapters of the hub by local folders, and verify checksums.

    Copies are made once per machine under a lock and shared by all replicas there, named by their content. Raises
    EngineUnreachableError where something is missing or differs.
    """
    check_disk(spec)
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
            source = str(converted_folder(gguf, spec.dtype, weights_folder()))
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
        content = json.dumps([uri, sorted(objects)])
        folder = folder_of(content)
        with FileLock(f"{folder}.lock"):
            if not is_complete(folder, content):
                _copy(client, bucket, prefix, objects, folder)
                complete(folder, content)
            hold(folder)
    except ClientError as error:
        raise EngineUnreachableError(
            f"{uri} cannot be read: {region_problem(error.response, client.meta) or error}"
        ) from error
    except (BotoCoreError, MissingSecretError, ShellSettingError) as error:
        raise EngineUnreachableError(f"{uri} cannot be read: {error}") from error
    except OSError as error:
        raise EngineUnreachableError(f"{uri} cannot be copied to {weights_folder()}: {error}") from error
    return str(folder)


def _client() -> Any:
    check_object_store()
    import boto3

    settings = s3_settings()
    client = boto3.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        aws_access_key_id=settings.key,
        aws_secret_access_key=settings.secret.get_secret_value() if settings.secret else None,
        aws_session_token=settings.token.get_secret_value() if settings.token else None,
        region_name=settings.region,
    )
    client.meta.events.register(REDIRECTED, end_redirect)
    return client


def _list_objects(client: Any, bucket: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """Yield (name in the folder, bytes, ETag) of each object."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", ()):
            name = item["Key"].removeprefix(prefix)
            if name and not name.endswith("/"):
                yield name, int(item["Size"]), str(item["ETag"])


def _copy(client: Any, bucket: str, prefix: str, objects: list[tuple[str, int, str]], folder: Path) -> None:
    """Copy missing files, and of an unfinished one the rest."""
    total = sum(size for _, size, _ in objects)
    paths = {name: (folder / name).resolve() for name, _, _ in objects}
    outside = [name for name, path in paths.items() if not path.is_relative_to(folder.resolve())]
    if outside:
        raise OSError(f"{outside[0]!r} would be written outside the folder")
    missing = [item for item in objects if _size(paths[item[0]]) != item[1]]
    remaining = sum(size - (_size(_part(paths[name])) or 0) for name, size, _ in missing)
    make_room(remaining, folder.parent)
    _log.warning(
        "fetching %s of weights from s3://%s/%s, once on this machine", format_bytes(remaining), bucket, prefix
    )
    count = _progress_counter(total - remaining, total)
    for name, size, etag in missing:
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        key = {"Bucket": bucket, "Key": prefix + name, "IfMatch": etag}
        _download(client, key, size, _part(paths[name]), count)
        _part(paths[name]).rename(paths[name])


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _download(client: Any, key: Mapping[str, str], size: int, path: Path, count: Callable[[int], None]) -> None:
    """Append to a file what it lacks of an object, ranges at once and in order."""
    with path.open("ab") as file, ThreadPoolExecutor(_CONCURRENT) as threads:
        while (begin := file.tell()) < size:
            starts = range(begin, min(begin + _CONCURRENT * _RANGE, size), _RANGE)
            ranges = [f"bytes={start}-{min(start + _RANGE, size) - 1}" for start in starts]
            for content in threads.map(partial(_get, client, key), ranges):
                file.write(content)
                count(len(content))


def _get(client: Any, key: Mapping[str, str], span: str) -> bytes:
    from botocore.exceptions import BotoCoreError

    for pause in _PAUSES_S:
        try:
            return bytes(client.get_object(**key, Range=span)["Body"].read())
        except BotoCoreError as error:  # a connection that broke; refusals are of another class, and final
            _log.info("%s of %s is read again: %s", span, key["Key"], error)
            sleep(pause)
    return bytes(client.get_object(**key, Range=span)["Body"].read())


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
