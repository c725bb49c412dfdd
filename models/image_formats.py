"""The forms of picture files that are read, told by their first bytes: the one list for all that opens pictures.

Pillow knows more than forty forms and tries them all, whatever a file is called. Some start other programs (EPS runs
Ghostscript) or are read by code that nobody uses, so every picture is opened with these forms alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXTENSIONS: Final[Mapping[str, str]] = {
    "PNG": ".png",
    "JPEG": ".jpg",
    "WEBP": ".webp",
    "GIF": ".gif",
    "BMP": ".bmp",
    "TIFF": ".tif",
    "AVIF": ".avif",
}
"""Pillow's name of a form -> the usual end of its files. JPEG covers the two-picture files of cameras (MPO)."""
PICTURE_FORMS: Final = tuple(EXTENSIONS)
"""What `formats=` of Pillow's `open` is given."""
WANTED: Final = f"{', '.join(PICTURE_FORMS[:-1])} or {PICTURE_FORMS[-1]}"
"""For messages."""

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"II+\x00", "TIFF"),
    (b"MM\x00+", "TIFF"),
)


def detect_format(content: bytes) -> str:
    """Pillow's name of the form that a file's first bytes say; '' for none that is read."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WEBP"
    if content[4:8] == b"ftyp" and content[8:12] in (b"avif", b"avis", b"mif1", b"msf1"):
        return "AVIF"
    return next((form for beginning, form in _BEGINNINGS if content.startswith(beginning)), "")
