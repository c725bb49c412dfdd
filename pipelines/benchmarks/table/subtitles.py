"""The words of a clip's subtitles: SubRip, WebVTT, or JSON with a line for each span."""

import json
import re
from typing import Any, Final

_TIME = re.compile(r"\d{1,2}:\d{2}.*-->")
_TAG = re.compile(r"<[^<>]{1,40}>|\{\\[^{}]{1,40}\}")
_KEYS: Final = ("line", "text", "subtitle")
MAX_CHARS: Final = 200_000


def subtitle_text(content: bytes, path: str) -> str:
    """Return the lines of subtitles without times and marks; ValueError for a damaged file."""
    text = content.decode("utf-8-sig", "replace")
    lines = _json_lines(text, path) if path.lower().endswith(".json") else text.splitlines()
    plain = (_TAG.sub("", line).strip() for line in lines)
    kept = [line for line in plain if line and not line.isdecimal() and not _TIME.match(line) and line != "WEBVTT"]
    return "\n".join(kept)[:MAX_CHARS]


def _json_lines(text: str, path: str) -> list[str]:
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    spans = content if isinstance(content, list) else []
    return [str(span[key]) for span in spans if isinstance(span, dict) for key in _KEYS if span.get(key)]
