"""Name a model's weights and answers by content: what a spec and the files that it names come to."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from models.entry_fields import ReasoningMarkers, identity_fields
from models.errors import ModelsFileError
from models.guards.redaction import shown_address
from models.guards.regular_files import NotRegularError, open_regular
from models.spec import ModelSpec

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_WHOLE_FILE = 4 << 20  # bytes up to which a file is hashed whole
_END = 1 << 20  # bytes hashed at each end of a larger file


def content_fingerprint(weights: Path) -> str:
    """Hash a checkpoint's folder or file, 145 GB in a second: small files whole, large ones by name, size and ends.

    Raises `ModelsFileError` for a folder with a pipe, socket or device, for which its readers would wait.
    """
    total = hashlib.sha256()
    folder = weights if weights.is_dir() else weights.parent
    entries = (path for path in weights.rglob("*") if path.exists() and not path.is_dir())
    for path in sorted(entries) if weights.is_dir() else [weights]:
        try:
            file = open_regular(path)
        except NotRegularError as error:
            raise ModelsFileError(f"{path}: {error}") from error
        with file:
            size = os.fstat(file.fileno()).st_size
            total.update(json.dumps([path.relative_to(folder).as_posix(), size]).encode())
            if size <= _WHOLE_FILE:
                total.update(file.read())
            else:
                total.update(file.read(_END))
                file.seek(-_END, 2)
                total.update(file.read())
    return "local-" + total.hexdigest()[:16]


def resolved_revision(spec: ModelSpec) -> str:
    """Return the revision that names these weights: as given, a local folder's content hash, or `main`.

    An `s3://` folder is named by its checksums if the spec has them; else only `revision` distinguishes its contents.
    """
    if spec.revision:
        return spec.revision
    if not spec.runs_locally:
        return ""
    weights = local_weights(spec)
    if spec.checksums and weights is None:
        return "checked-" + hashlib.sha256(json.dumps(sorted(spec.checksums.items())).encode()).hexdigest()[:16]
    return content_fingerprint(weights) if weights else "main"


def local_weights(spec: ModelSpec) -> Path | None:
    """Return the folder or GGUF file that `model` names on this machine; None for a hub id or an address."""
    path = Path(spec.model).expanduser()
    return path if path.is_dir() or (path.suffix.lower() == ".gguf" and path.is_file()) else None


def is_plain_path(name: str) -> bool:
    """Return whether a name can only be a path of this machine: no id of the hub has its form."""
    is_id = (
        _HUB_ID.fullmatch(name) and not name.startswith(".") and not name.lower().endswith((".gguf", ".safetensors"))
    )
    return not is_id and not name.startswith("s3://")


def is_unpinned(spec: ModelSpec) -> bool:
    """Return whether these weights may change: a hub id without a commit."""
    return comes_from_hub(spec) and (spec.revision in (None, "main") or spec.revision.startswith("refs/"))


def comes_from_hub(spec: ModelSpec) -> bool:
    """Return whether `model` can only be an id of the hub: no folder, file or `s3://` address."""
    is_local_name = spec.model.startswith("s3://") or is_plain_path(spec.model)
    return spec.runs_locally and not is_local_name and local_weights(spec) is None


def answer_fingerprint(spec: ModelSpec) -> dict[str, Any]:
    """Return all of a model that changes an answer; request ids hash this, so keys and values stay as they are."""
    marks = {name: mark for name, mark in identity_fields(ModelSpec) if not mark.is_computed}
    values = spec.model_dump(mode="json", include=set(marks))
    given = {name: mark for name, mark in marks.items() if values[name] or mark.always}
    fingerprint: dict[str, Any] = {mark.key or name: values[name] for name, mark in given.items()}
    fingerprint["revision"] = resolved_revision(spec)
    if spec.limits.max_image_bytes is None:
        del fingerprint["limits"]["max_image_bytes"]  # ids made before this limit existed stay as they are
    if spec.is_endpoint:
        # Servers call quite different weights `model`, or by one public name. `run.json` holds this: no keys in paths.
        fingerprint["base_url"] = shown_address(str(spec.base_url))
    if spec.omit_parameters:
        fingerprint["omit_parameters"] = sorted(spec.omit_parameters)
    if spec.thinking_tokens is not None:
        fingerprint["reasoning"] = [spec.thinking_tokens, (spec.reasoning or ReasoningMarkers()).model_dump()]
    if spec.is_random:
        fingerprint["seed"] = spec.seed
        fingerprint["faults"] = {"answer": spec.answer}
    if fingerprint["revision"] and local_weights(spec):
        fingerprint["model"] = Path(spec.model).name
    if spec.adapter and Path(spec.adapter).expanduser().is_dir():
        # Retrained in place it is another model; moved elsewhere it is the same.
        fingerprint["adapter"] = content_fingerprint(Path(spec.adapter).expanduser())
    elif spec.adapter_revision:
        fingerprint["adapter_revision"] = spec.adapter_revision
    return fingerprint
