"""Picture formats that are read, detected by their first bytes.

Pillow tries more than forty formats, some by other programs (EPS runs Ghostscript) or rarely used code, so every
picture is opened with these formats alone.
"""

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
"""Pillow's format name -> file extension. JPEG covers the two-picture files of cameras (MPO)."""
PICTURE_FORMATS: Final = tuple(EXTENSIONS)  # the `formats` argument of Pillow's `open`
FORMAT_NAMES: Final = f"{', '.join(PICTURE_FORMATS[:-1])} or {PICTURE_FORMATS[-1]}"

_MAGIC: Final = (
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
    """Return Pillow's name of the format of a file's first bytes; '' for an unsupported one."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WEBP"
    if content[4:8] == b"ftyp" and content[8:12] in (b"avif", b"avis", b"mif1", b"msf1"):
        return "AVIF"
    return next((name for magic, name in _MAGIC if content.startswith(magic)), "")
