"""TODO doc."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from models.messages import Media
from pipelines.benchmarks.records import MediaFile, MediaRef
from pipelines.errors import DecodeError, SourceError, StoreError
from pipelines.ingest.dataset import media_path
from pipelines.ingest.source_folder import Folder
from pipelines.media.decoder import Decoder
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

CHECKED_FRAMES = 32
"""Frames decoded of every clip at ingest, first and last among them: a clip cut short is found here, not in a run."""


class _MediaKeeper:
    """Checks and stores media, each content once and each file looked at once."""

    def __init__(self, source: Folder, store: Store, decoder: Decoder) -> None:
        self._source, self._store, self._decoder = source, store, decoder
        self._looked_at: dict[str, MediaRef | DecodeError] = {}
        self.kept: dict[str, MediaRef] = {}

    def keep(self, file: MediaFile) -> MediaRef:
        """Store a medium.

        Raises:
            DecodeError: it is missing or cannot be decoded.
        """
        if file.content is not None:
            return self._checked(file, file.content)
        known = self._looked_at.get(file.path)
        if known is None:
            try:
                known = self._checked(file, self._source.read_bytes(file.path))
            except FileNotFoundError:
                known = DecodeError(f"{file.path}: no such file in {self._source.uri}")
            except StoreError as error:
                if is_remote(self._source.uri):
                    raise  # the store failed, not the file
                known = DecodeError(f"{file.path[:200]}: cannot be read ({type(error.__cause__).__name__})")
            except DecodeError as error:
                known = error
            except SourceError as error:
                known = DecodeError(str(error))  # too large: it costs its own rows
            self._looked_at[file.path] = known
        if isinstance(known, DecodeError):
            raise known
        return replace(known, role=file.role)

    def _checked(self, file: MediaFile, content: bytes) -> MediaRef:
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 in self.kept:
            return replace(self.kept[sha256], role=file.role)
        extension = posixpath.splitext(file.path)[1].lower()
        if not re.fullmatch(r"\.[a-z0-9]{2,5}", extension):
            extension = ".mp4" if file.kind == "video" else ".png"
        wanted = Media(file.kind, sha256, CHECKED_FRAMES if file.kind == "video" else 0)
        with tempfile.NamedTemporaryFile(suffix=extension, prefix=f"vlmsweep-{os.getpid()}-") as local:
            local.write(content)
            local.flush()
            try:
                frames = self._decoder.decode_file(Path(local.name), wanted)
            except DecodeError as error:
                reason = str(error).replace(local.name, posixpath.basename(file.path))
                raise DecodeError(f"{file.path}: cannot be decoded ({reason})") from error
        _, height, width, _ = frames.pixels.shape
        ref = MediaRef(
            role=file.role,
            kind=file.kind,
            sha256=sha256,
            extension=extension,
            bytes=len(content),
            width=width,
            height=height,
            frames=frames.total_frames,
            fps=frames.fps,
        )
        self._store.put(media_path(ref), content)
        self.kept[sha256] = ref
        return ref
