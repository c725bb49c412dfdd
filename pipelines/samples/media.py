"""Pictures, clips and frames of samples. A file is found through a sample's record, never by a visitor's path."""

import base64
import hashlib
import io
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import parse_qs

from models.guards.regular_files import open_regular
from models.image_formats import detect_format
from models.messages import Frames, Media
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.clean_text import one_line
from pipelines.errors import DatasetError, DecodeError, TooLargeError
from pipelines.ingest.dataset import Dataset, media_path
from pipelines.media.decoder import Decoder
from pipelines.media.video_containers import detect_container
from pipelines.rendering.contact_sheet import contact_sheet
from pipelines.rendering.environment import VIEW_MARK, inline_file
from pipelines.samples.outputs import REPORT, Output
from pipelines.storage.backend import is_remote

Address = Callable[[str, Mapping[str, str]], str]
"""The address of a page, `sample` or `samples`, from the values that choose what it shows."""

_NAME: Final = re.compile(r"(?:(?:tables|figures|items)/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
_TYPES: Final = {
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".csv": "text/csv",
    ".md": "text/plain",
    ".tex": "text/plain",
}
_MAX_FILE_BYTES: Final = 256 << 20
_STYLE: Final = re.compile(rb"<style>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReportFile:
    """One file of a report as it is sent."""

    content: bytes
    media_type: str
    policy: str  # its content security policy


def report_names(output: Output) -> list[str]:
    """Return the paths of the files of a report, in its folder."""
    names = [info.path.removeprefix(f"{REPORT}/") for info in output.store.list(REPORT)]
    return [name for name in names if _NAME.fullmatch(name) and PurePosixPath(name).suffix in _TYPES]


def report_file(output: Output, path: str, address: Address) -> ReportFile:
    """Return a file of an output's report; pages get links to those of samples.

    Raises:
        DatasetError: there is no such file in the report's folder, or it leads out of it.
    """
    kind = PurePosixPath(path).suffix
    if not _NAME.fullmatch(path) or kind not in _TYPES:
        raise DatasetError(f"{path[:200]!r} is no file of a report")
    content = _read(output, path)
    if kind == ".html":
        content = _with_links(content.decode("utf-8", "replace"), output, address).encode()
    return ReportFile(content, f"{_TYPES[kind]}; charset=utf-8", _policy(content))


def _read(output: Output, path: str) -> bytes:
    store, name = output.store, f"{REPORT}/{path}"
    if not is_remote(store.uri):
        folder = Path(store.uri).resolve() / REPORT
        if not (Path(store.uri) / name).resolve().is_relative_to(folder):
            raise DatasetError(f"{store.uri}/{name}: leads out of the report's folder; it is not shown")
    try:
        return store.get(name, _MAX_FILE_BYTES)
    except FileNotFoundError as error:
        raise DatasetError(f"{store.uri}/{name}: there is no such file; write the report again") from error
    except TooLargeError as error:
        raise DatasetError(str(error)) from error


def _policy(content: bytes) -> str:
    """Allow images, the style that the file itself holds and the script of reports, and nothing else."""
    styles = {base64.b64encode(hashlib.sha256(text).digest()).decode() for text in _STYLE.findall(content)}
    sources = " ".join(f"'sha256-{digest}'" for digest in sorted(styles)) or "'none'"
    rest = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    _, script = inline_file("report.js")
    return f"default-src 'none'; img-src 'self'; style-src {sources}; script-src {script}; {rest}"


def _with_links(page: str, output: Output, address: Address) -> str:
    """Replace the marks of a page by links; a mark of a model that has no answers here is left."""
    models = {entry.model for entry in output.entries()}

    def replaced(match: re.Match[str]) -> str:
        query = {name: values[0] for name, values in parse_qs(match["query"]).items()}
        model = query.get("model", "")
        if model and model not in models:
            return match[0]
        if "sample_id" in query:
            return _link(address("sample", query), "Answers of all models")
        filtered = {**query, "out": output.label}
        if model:
            return _link(address("samples", filtered), "answers", f"answers of {model}")
        return _link(address("samples", filtered), "Samples and answers")

    return VIEW_MARK.sub(replaced, page)


def _link(address: str, text: str, label: str = "") -> str:
    name = f' aria-label="{escape(one_line(label))}"' if label else ""
    return f'<a class="viewer" href="{escape(address)}"{name}>{text}</a>'


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
