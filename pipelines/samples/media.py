"""Pictures, clips and frames of samples. A file is found through a sample's record, never by a visitor's path."""

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Final

from models.guards.regular_files import open_regular
from models.image_formats import detect_format
from models.messages import Frames, Media
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.errors import DatasetError, DecodeError
from pipelines.ingest.dataset import Dataset, media_path
from pipelines.media.decoder import Decoder
from pipelines.media.video_containers import detect_container
from pipelines.rendering.contact_sheet import contact_sheet
from pipelines.storage.backend import is_remote

_CLIP_TYPES: Final = {
    "mov": "video/mp4",
    "matroska": "video/webm",  # browsers play Matroska under this name, and its own under none
    "ogg": "video/ogg",
    "avi": "video/x-msvideo",
    "flv": "video/x-flv",
    "mpeg": "video/mpeg",
    "mpegts": "video/mp2t",
}
_FRAME_PIXELS: Final = 320 * 240
_MAX_FRAMES: Final = 128
_SHEET_FRAME: Final = 160  # pixels of the longer side of a frame on a contact sheet
_SHEET_COLUMNS: Final = 8
_MAX_CLIPS: Final = 4  # whose frames stay in memory: 128 frames are 30 MB
_MAX_BYTES: Final = 2 << 30  # of fetched files


def find_ref(sample: Sample, sha256: str) -> MediaRef:
    """Return a sample's medium; DatasetError where it has none of this hash."""
    for ref in sample.media:
        if ref.sha256 == sha256:
            return ref
    raise DatasetError(f"{sample.sample_id}: has no picture or clip {sha256[:80]!r}")


def media_type(file: Path, ref: MediaRef) -> str:
    """Return the type of a picture or clip by its own bytes; DatasetError where they are neither."""
    try:
        if ref.kind == "video":
            return _CLIP_TYPES[detect_container(file)]
        with open_regular(file) as opened:
            if name := detect_format(opened.read(16)):
                return f"image/{name.lower()}"
    except ValueError as error:
        raise DatasetError(f"{media_path(ref)}: {error}") from error
    raise DatasetError(f"{media_path(ref)}: is no picture of a known format; ingest again")


class MediaReader:
    """Hands out files and frames of media; decodes in a child process, and fetches from object stores once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "media"
        self._decoder, self._lock = Decoder(timeout_s=30.0), threading.Lock()
        # Linux ends the decoding process with the thread that started it, and a server's threads come and go.
        self._thread = ThreadPoolExecutor(1)
        self._clips = lru_cache(maxsize=_MAX_CLIPS)(self._decode)
        self._fetched: OrderedDict[Path, int] = OrderedDict()

    def close(self) -> None:
        """End the decoding process."""
        self._thread.shutdown()
        self._decoder.close()

    def file(self, dataset: Dataset, ref: MediaRef) -> Path:
        """Return a local file with the medium; DatasetError where it is gone, altered or outside the data's folder."""
        path = media_path(ref)
        if is_remote(dataset.store.uri):
            return self._fetch(dataset, ref, path)
        root = Path(dataset.store.uri).resolve()
        file = (root / path).resolve()
        if not file.is_relative_to(root):
            raise DatasetError(f"{dataset.store.uri}/{path}: leads out of the data's folder; it is not shown")
        if not file.is_file():
            raise DatasetError(f"{dataset.store.uri}/{path}: missing; ingest again")
        return file

    def contact_sheet(self, dataset: Dataset, ref: MediaRef, frames: int, change: str = "") -> bytes:
        """Return the frames that a model gets in reading order, made smaller, as one JPEG."""
        decoded = self._decoded(dataset, ref, min(max(1, frames), _MAX_FRAMES), change)
        buffer = io.BytesIO()
        contact_sheet(decoded, _SHEET_FRAME, _SHEET_COLUMNS).save(buffer, "JPEG", quality=80)
        return buffer.getvalue()

    def frame(self, dataset: Dataset, ref: MediaRef, frames: int, number: int, change: str = "") -> bytes:
        """Return one of the frames that a model gets, made smaller, as JPEG; a changed picture in its own size."""
        from PIL import Image

        frames = min(max(0, frames), _MAX_FRAMES)
        decoded = self._decoded(dataset, ref, frames, change)
        if not 0 <= number < len(decoded.pixels):
            raise DatasetError(f"{ref.sha256}: has no frame {number}")
        buffer = io.BytesIO()
        Image.fromarray(decoded.pixels[number]).save(buffer, "JPEG", quality=95 if change else 85)
        return buffer.getvalue()

    def _decoded(self, dataset: Dataset, ref: MediaRef, frames: int, change: str) -> Frames:
        file, source = self.file(dataset, ref), f"{ref.sha256}~{change}" if change else ref.sha256
        media = Media(ref.kind, source, frames if ref.kind == "video" else 0)
        limit = None if change and ref.kind == "image" else _FRAME_PIXELS  # which would hide the change
        try:
            with self._lock:
                return self._clips(file, media, limit, dataset.manifest.decoders_of(ref.sha256))
        except DecodeError as error:
            raise DatasetError(f"{media_path(ref)}: cannot be decoded ({error})") from error

    def _decode(self, file: Path, media: Media, max_pixels: int | None, decoders: Sequence[str]) -> Frames:
        return self._thread.submit(self._decoder.decode_file, file, media, max_pixels, decoders).result()

    def _fetch(self, dataset: Dataset, ref: MediaRef, path: str) -> Path:
        file = self._folder / f"{ref.sha256}{Path(path).suffix}"
        with self._lock:
            if file not in self._fetched:
                try:
                    content = dataset.store.get(path, _MAX_BYTES)
                except FileNotFoundError:
                    raise DatasetError(f"{dataset.store.uri}/{path}: missing; ingest again") from None
                if hashlib.sha256(content).hexdigest() != ref.sha256:
                    raise DatasetError(f"{dataset.store.uri}/{path}: is not the file that was ingested; ingest again")
                self._folder.mkdir(exist_ok=True)
                file.write_bytes(content)
                self._fetched[file] = len(content)
            self._fetched.move_to_end(file)
            while len(self._fetched) > 1 and sum(self._fetched.values()) > _MAX_BYTES:
                self._fetched.popitem(last=False)[0].unlink(missing_ok=True)
        return file
