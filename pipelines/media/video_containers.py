"""Supported video containers, detected by their first bytes before a decoder opens the file.

FFmpeg tries some three hundred formats on any file, and some are playlists that name other files or addresses
(ffconcat, HLS, DASH, SDP, IMF, numbered pictures): decoding one would expose files next to it.
"""

from pathlib import Path
from typing import Final

from models.guards.regular_files import open_regular

CONTAINERS: Final = "MP4, MOV, Matroska, WebM, AVI, MPEG, Ogg or FLV"
PROBE_BYTES: Final = 1 << 20  # that FFmpeg reads to detect a format

_BOXES: Final = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot")
_MAGIC_BYTES: Final = (
    (b"\x1aE\xdf\xa3", "matroska"),
    (b"OggS", "ogg"),
    (b"FLV\x01", "flv"),
    (b"\x00\x00\x01\xba", "mpeg"),
)
# Lower case; FFmpeg finds them anywhere in the probed bytes. Too long to occur by chance in compressed pixels.
_PLAYLIST_MARKS: Final = (b"dash:profile", b"<compositionplaylist", b"<assetmap", b"<smoothstreamingmedia")
_PACKET: Final = 188  # bytes of a packet of an MPEG transport stream, each of which begins with 0x47


def detect_container(path: Path) -> str:
    """Return FFmpeg's name of the container of a local video; raise ValueError if it is not supported."""
    with open_regular(path) as file:
        head = file.read(PROBE_BYTES)
    name = container_name(head)
    if not name:
        raise ValueError(f"not a video in a supported container ({CONTAINERS}), or damaged at its beginning")
    lower_case = head.lower()
    if any(mark in lower_case for mark in _PLAYLIST_MARKS):
        raise ValueError("this video is a playlist of other files; convert it to MP4")
    return name


def container_name(head: bytes) -> str:
    """Return FFmpeg's name of the container of a video that begins so; '' where it is not supported."""
    if head[4:8] in _BOXES and head[8:11] != b"hei":  # a picture of a telephone, of which one tile would be shown
        return "mov"
    if head[:4] == b"RIFF" and head[8:12] in (b"AVI ", b"AVIX"):
        return "avi"
    if head[0:1] == b"\x47" and len(head) > 2 * _PACKET and head[_PACKET] == head[2 * _PACKET] == 0x47:
        return "mpegts"
    return next((name for magic, name in _MAGIC_BYTES if head.startswith(magic)), "")
