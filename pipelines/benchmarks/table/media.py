"""Pictures and clips of a row: paths, data URIs, bare base64, structs of Parquet, or lists of these."""

import base64
import binascii
import math
import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final, Literal

from models.image_formats import detect_format
from pipelines.benchmarks.records import MediaFile
from pipelines.benchmarks.table.lists import listed
from pipelines.media.video_containers import container_name

ROLE: Final = "media"
VIDEO_ENDINGS: Final = (
    *(".mp4", ".m4v", ".mov", ".3gp", ".mkv", ".webm", ".avi", ".flv"),
    *(".mpg", ".mpeg", ".ts", ".ogv", ".ogg", ".wmv"),
)
PICTURE_ENDINGS: Final = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".jfif", ".avif", ".heic")
_DATA_URI = re.compile(r"data:(?P<kind>image|video)/(?P<form>[\w.+-]+)[^,]{0,100};base64,(?P<content>.+)", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_MIN_BASE64: Final = 64  # characters; the smallest picture has more
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def media_files(cell: Any, where: str) -> Iterator[MediaFile]:
    """Yield the media of a cell in order; ValueError for a value that is none."""
    for value in media_values(cell):
        if isinstance(value, dict):
            yield _from_struct(value, where)
        elif isinstance(value, bytes | bytearray):
            yield _from_bytes(bytes(value), where)
        elif isinstance(value, str):
            yield _from_text(value.strip(), where)
        else:
            problem = f"a picture or clip is a path, a data URI, base64 or a struct, not {type(value).__name__}"
            raise ValueError(problem)  # noqa: TRY004 - callers catch one class


def media_values(cell: Any) -> list[Any]:
    """Return what a cell holds, one value for each picture or clip; ValueError for a broken list."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        if (files := listed(cell)) is None:
            raise ValueError(f"the list of media {cell.strip()[:40]!r} is none; write it as JSON text")
        cell = files
    values = cell if isinstance(cell, list) else [cell]
    return [value for value in values if not is_empty(value)]


def is_empty(value: Any) -> bool:
    """Return whether a cell holds nothing: None, NaN, infinity, a blank text, an empty list."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def is_base64(text: str) -> bool:
    """Return whether a text begins as a picture or clip in bare base64 does."""
    head = text[:_MIN_BASE64]
    if len(head) < _MIN_BASE64 or not _BASE64.fullmatch(head):
        return False
    signs = "".join(head.rstrip("= \n").split())
    content = base64.b64decode(signs[: len(signs) // 4 * 4])
    return bool(detect_format(content) or container_name(content))


def _from_struct(value: dict[str, Any], where: str) -> MediaFile:
    path, content = value.get("path"), value.get("bytes")
    if isinstance(content, str):
        content = _decoded(content)
    if isinstance(content, bytes | bytearray) and content:
        return _from_bytes(bytes(content), path if isinstance(path, str) and path else where)
    if isinstance(path, str) and path:
        return _from_text(path, where)
    raise ValueError("a struct of a picture has `bytes` or `path`, and this one has neither")


def _from_text(text: str, where: str) -> MediaFile:
    if match := _DATA_URI.fullmatch(text):
        kind: Literal["image", "video"] = "video" if match["kind"] == "video" else "image"
        name = f"{where}.{match['form'].removeprefix('x-')}"
        return MediaFile(role=ROLE, kind=kind, path=name, content=_decoded(match["content"]))
    if text.startswith("data:"):
        raise ValueError("a data URI that is no picture or clip in base64")
    if _ADDRESS.match(text):
        raise ValueError(f"{text[:80]}: addresses are not fetched; download the file and give its path")
    if len(text) >= _MIN_BASE64 and _BASE64.fullmatch(text) and not posixpath.splitext(text)[1]:
        return _from_bytes(_decoded(text), where)
    return MediaFile(role=ROLE, kind=_kind(text), path=_relative(text))


def _relative(path: str) -> str:
    return posixpath.normpath(path.replace("\\", "/")) if path else path


def _decoded(text: str) -> bytes:
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the base64 of a picture or clip is damaged ({error})") from error
    if not content:
        raise ValueError("the base64 of a picture or clip is empty")
    return content


def _from_bytes(content: bytes, path: str) -> MediaFile:
    """Return a picture or clip by its bytes: a name that comes with them may say nothing."""
    kind = "image" if detect_format(content) else "video" if container_name(content) else _kind(path)
    return MediaFile(role=ROLE, kind=kind, path=path, content=content)


def _kind(path: str) -> Literal["image", "video"]:
    return "video" if path.lower().endswith(VIDEO_ENDINGS) else "image"
