"""The containers of clips that are read, told by their first bytes.

FFmpeg tries some three hundred forms on any file, and some are lists that name other files or addresses (ffconcat, HLS,
DASH, SDP, IMF, numbered pictures): read as a clip, such a file would show what lies beside it. So the form is settled
here, before a decoder sees the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

CONTAINERS: Final = "MP4, MOV, Matroska, WebM, AVI, MPEG, Ogg or FLV"
"""For messages."""
PROBED: Final = 1 << 20
"""Bytes that FFmpeg looks through to tell a form."""

_BOXES: Final = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot")
_BEGINNINGS: Final = (
    (b"\x1aE\xdf\xa3", "matroska"),
    (b"OggS", "ogg"),
    (b"FLV\x01", "flv"),
    (b"\x00\x00\x01\xba", "mpeg"),
)
_LISTS: Final = (b"dash:profile", b"<compositionplaylist", b"<assetmap", b"<smoothstreamingmedia")
"""Marks, in lower case, of lists that FFmpeg finds anywhere in what it probes, behind the beginning of a clip too. They
are too long to come about in compressed pixels."""
_PACKET: Final = 188  # bytes of a packet of an MPEG transport stream, each of which begins with 0x47


def container_of(path: Path) -> str:
    """FFmpeg's name of a clip's container, for a local file.

    Raises:
        ValueError: it is none of those that are read.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(PROBED)
    name = _named(head)
    if not name:
        raise ValueError(f"this is no clip of a form that is read ({CONTAINERS}), or damaged at its beginning")
    lowered = head.lower()
    if any(mark in lowered for mark in _LISTS):
        raise ValueError("this clip holds a list of other files, which are never read; convert it to MP4")
    return name


def _named(head: bytes) -> str:
    if head[4:8] in _BOXES:
        return "mov"
    if head[:4] == b"RIFF" and head[8:12] in (b"AVI ", b"AVIX"):
        return "avi"
    if head[0:1] == b"\x47" and len(head) > 2 * _PACKET and head[_PACKET] == head[2 * _PACKET] == 0x47:
        return "mpegts"
    return next((name for beginning, name in _BEGINNINGS if head.startswith(beginning)), "")
