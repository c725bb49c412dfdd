"""Checks the media of a source and stores them by content hash."""

import hashlib
import posixpath
import re
from dataclasses import replace

from models.guards.regular_files import NotRegularError
from models.messages import Media
from models.scratch import scratch
from pipelines.benchmarks.records import MediaFile, MediaRef
from pipelines.errors import DecodeError, SourceError, StoreError
from pipelines.ingest.dataset import media_path
from pipelines.ingest.source_folder import Folder
from pipelines.media.decoder import DECODERS, Decoder
from pipelines.storage.backend import is_remote
from pipelines.storage.store import Store

CHECKED_FRAMES = 32  # frames decoded of every video, including first and last, to find truncated ones


class MediaWriter:
    """Checks and stores media: each file is read once, each content stored once."""

    def __init__(self, source: Folder, store: Store, decoder: Decoder) -> None:
        self._source, self._store, self._decoder = source, store, decoder
        self._results: dict[str, MediaRef | DecodeError] = {}
        self.stored: dict[str, MediaRef] = {}
        self.decoders: dict[str, str] = {}  # as in the manifest

    def write(self, file: MediaFile) -> MediaRef:
        """Check and store a medium; raise DecodeError if it is missing or not decodable."""
        if file.content is not None:
            return self._store_checked(file, file.content)
        result = self._results.get(file.path)
        if result is None:
            try:
                result = self._store_checked(file, self._source.read_bytes(file.path))
            except FileNotFoundError:
                remedy = "; give a path relative to it" if file.path.startswith("/") else ""
                result = DecodeError(f"{file.path}: no such file in {self._source.uri}{remedy}")
            except StoreError as error:
                if is_remote(self._source.uri):
                    raise  # the store failed, not the file
                cause = error.__cause__
                reason = str(cause) if isinstance(cause, NotRegularError) else type(cause).__name__
                result = DecodeError(f"{file.path[:200]}: unreadable ({reason})")
            except DecodeError as error:
                result = error
            except SourceError as error:
                result = DecodeError(str(error))  # too large: only its own rows are rejected
            self._results[file.path] = result
        if isinstance(result, DecodeError):
            raise result
        return replace(result, role=file.role)

    def _store_checked(self, file: MediaFile, content: bytes) -> MediaRef:
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 in self.stored:
            return replace(self.stored[sha256], role=file.role)
        extension = posixpath.splitext(file.path)[1].lower()
        if not re.fullmatch(r"\.[a-z0-9]{2,5}", extension):
            extension = ".mp4" if file.kind == "video" else ".png"
        media = Media(file.kind, sha256, CHECKED_FRAMES if file.kind == "video" else 0)
        with scratch() as folder:
            local = folder / f"medium{extension}"
            local.write_bytes(content)
            try:
                if file.kind == "video":
                    frames, decoders = self._decoder.checked_decoders(local, media)
                else:
                    frames, decoders = self._decoder.decode_file(local, media), DECODERS
            except DecodeError as error:
                reason = str(error).replace(str(local), posixpath.basename(file.path))
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
        if decoders != DECODERS:
            self.decoders[sha256] = ",".join(decoders)
        self._store.put(media_path(ref), content)
        self.stored[sha256] = ref
        return ref
