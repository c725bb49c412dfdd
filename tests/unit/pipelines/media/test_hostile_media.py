"""Hostile media and sources cannot run a program, read another file, see a secret or exhaust memory."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageFile

from models.image_formats import EXTENSIONS, PICTURE_FORMATS, detect_format
from models.messages import Media
from pipelines.benchmarks import benchmark, parquet_source
from pipelines.benchmarks.parquet_source import MAX_ROWS, batches
from pipelines.benchmarks.records import Rejection
from pipelines.benchmarks.unpie.download import PictureError
from pipelines.benchmarks.unpie.pictures import PictureLoader
from pipelines.benchmarks.vflute.source import hub_claims, hub_rows
from pipelines.errors import DecodeError, SourceError, StoreError
from pipelines.ingest import source_folder
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.media.decoder import Decoder
from pipelines.media.video_containers import detect_container
from pipelines.storage.store import Store
from tests.support.maia_source import write_clip, write_source
from tests.support.small_data import ingest_all

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
CLIP = Media("video", "", 4)


# ----------------------------------------------------------------------------------------------------------- pictures


def test_picture_cannot_start_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called, tools = tmp_path / "called", tmp_path / "bin"
    tools.mkdir()
    (tools / "gs").write_text(f"#!/bin/sh\ntouch {called}\necho 10.0\n")
    (tools / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    picture = tmp_path / "x.png"
    picture.write_bytes(EPS)
    with Decoder() as decoder, pytest.raises(DecodeError, match=r"not a PNG, JPEG, .*; convert it to PNG"):
        decoder.decode_file(picture, Media("image", ""))
    with pytest.raises(PictureError, match="it is no PNG, JPEG"):
        PictureLoader(Folder(str(tmp_path))).get("x.png")
    assert not called.exists()


@pytest.mark.parametrize("picture_format", PICTURE_FORMATS)
def test_listed_picture_formats_are_detected_and_decoded(picture_format: str) -> None:
    sink = io.BytesIO()
    Image.new("RGB", (16, 12), "red").save(sink, picture_format)
    assert detect_format(sink.getvalue()) == picture_format
    assert EXTENSIONS[picture_format]
    with Decoder() as decoder:
        assert decoder.decode_picture(sink.getvalue()).pixels.shape == (1, 12, 16, 3)


def test_ingest_decodes_pictures_in_the_decoding_process_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a picture was opened in this process")

    monkeypatch.setattr(Image, "open", fail)
    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    ingest_all(tmp_path)


def test_unclosed_decoder_ends_with_its_owner(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    with pytest.raises(DecodeError, match="PNG"):
        folder.pixels(b"not a picture")
    child = folder.decoder._child
    assert child.poll() is None
    del folder
    assert child.poll() is not None


def test_decoding_process_inherits_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "planted-secret")
    with Decoder() as decoder:
        with pytest.raises(DecodeError):
            decoder.decode_picture(b"")
        environment = Path(f"/proc/{decoder._child.pid}/environ").read_bytes()
    names = {entry.partition(b"=")[0] for entry in environment.split(b"\x00")}
    assert b"PATH" in names
    assert b"planted-secret" not in environment
    assert not {b"AWS_SECRET_ACCESS_KEY", b"OPENAI_API_KEY"} & names


# -------------------------------------------------------------------------------------------------------------- clips


def test_playlist_does_not_read_other_files(tmp_path: Path) -> None:
    write_clip(tmp_path / "real.mp4", frames=8)
    playlists = {
        "ffconcat": b"ffconcat version 1.0\nfile 'real.mp4'\n",
        "hls": b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nreal.mp4\n#EXT-X-ENDLIST\n",
        "dash": b'<?xml version="1.0"?><MPD profiles="urn:mpeg:dash:profile:isoff-live:2011"></MPD>',
        "sdp": b"v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 1 RTP/AVP 96\n",
        "after-a-clip-header": b"OggSx <MPD profiles='urn:mpeg:dash:profile:isoff-live:2011'></MPD>",
    }
    with Decoder() as decoder:
        assert decoder.decode_file(tmp_path / "real.mp4", CLIP).total_frames == 8
        for name, content in playlists.items():
            path = tmp_path / f"{name}.mp4"
            path.write_bytes(content)
            with pytest.raises(
                DecodeError, match=r"not a video in a supported container \(MP4|a playlist of other files"
            ):
                decoder.decode_file(path, CLIP)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"ffconcat version 1.0\nfile '1.mp4'\n", "Matroska"), (None, "more than the limit")],
    ids=["playlist", "oversized"],
)
def test_a_clip_that_is_none_rejects_its_own_rows_only(tmp_path: Path, content: bytes | None, reason: str) -> None:
    source = write_source(tmp_path / "source")
    clip = source / "videos" / "2.mp4"
    if content is None:
        sparse(clip, source_folder.MAX_FILE_BYTES + 1)
    else:
        clip.write_bytes(content)
    result = ingest_benchmark(benchmark("maia"), Folder(str(source)), Store(str(tmp_path / "data")))
    assert result.manifest.samples == 24
    assert {(row.item.split("/")[0], reason in row.reason) for row in result.rejections} == {("video2", True)}


@pytest.mark.parametrize(
    ("head", "container"),
    [
        (b"\x00\x00\x00\x18ftypmp42", "mov"),
        (b"\x00\x00\x00\x08wide", "mov"),
        (b"\x1aE\xdf\xa3\x01", "matroska"),
        (b"RIFF\x00\x00\x00\x00AVI ", "avi"),
        ((b"G" + bytes(187)) * 3, "mpegts"),
        (b"\x00\x00\x01\xba!", "mpeg"),
        (b"OggS\x00", "ogg"),
        (b"FLV\x01", "flv"),
    ],
)
def test_container_is_detected_by_its_first_bytes(tmp_path: Path, head: bytes, container: str) -> None:
    (tmp_path / "clip").write_bytes(head)
    assert detect_container(tmp_path / "clip") == container


# ------------------------------------------------------------------------------------------------------------ sources


def sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


@pytest.mark.parametrize("name", ["data.json", "data.parquet", "clip.mp4", "rows.jsonl"])
def test_oversized_files_are_not_read(tmp_path: Path, name: str) -> None:
    limit = source_folder.MAX_BYTES_BY_EXTENSION.get(Path(name).suffix, source_folder.MAX_FILE_BYTES)
    sparse(tmp_path / name, limit + 1)
    with pytest.raises(SourceError, match=rf"{name}: {limit + 1:,} bytes, more than the limit of {limit:,} bytes"):
        Folder(str(tmp_path)).read_bytes(name)


def test_endless_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="it is a device, not a regular file"):
        Store(str(tmp_path)).get("x.json", max_bytes=1000)


def write_parquet_bomb(path: Path, rows: int, size: int) -> None:
    """Write a few kilobytes of Parquet whose values are one long text, stored once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * size]))
    nulls = pa.nulls(rows, pa.string())
    columns = {"claim": texts, "label": nulls, "explanation": nulls, "phenomenon": nulls}
    table = pa.table({**columns, "source_dataset": nulls, "image": pa.nulls(rows, pa.binary())})
    pq.write_table(table, path, compression="zstd", store_schema=False)


def test_parquet_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "data/test-00000-of-00001.parquet"
    write_parquet_bomb(tmp_path / path, 3000, 400_000)
    assert (tmp_path / path).stat().st_size < 20_000
    folder, started = Folder(str(tmp_path)), time.monotonic()
    before = pa.total_allocated_bytes()
    with pytest.raises(SourceError, match=rf"{path}: claim unfold to more than 536,870,912 bytes"):
        hub_claims(folder, [path])
    assert pa.total_allocated_bytes() - before < 64 << 20
    assert time.monotonic() - started < 60
    monkeypatch.setattr("pipelines.benchmarks.vflute.source.MAX_PICTURE_BYTES", 100 << 20)
    rows = hub_rows(folder, [path], "test")
    assert isinstance(next(rows), Rejection)
    with pytest.raises(SourceError, match="image unfold to more than"):
        list(rows)


def test_long_values_have_batches_of_few_rows_and_too_many_rows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet_bomb(tmp_path / "x.parquet", 100, 1_000_000)
    monkeypatch.setattr(parquet_source, "_AT_ONCE", 5_000_000)
    batch_list = list(batches(pq.ParquetFile(tmp_path / "x.parquet"), ["claim"], rows=64, max_bytes=1 << 30, where="x"))
    assert max(batch.num_rows for batch in batch_list) < 6
    assert sum(batch.num_rows for batch in batch_list) == 100
    pq.write_table(pa.table({"claim": pa.nulls(MAX_ROWS + 1, pa.string())}), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match=r"x\.parquet: 2,000,001 rows, more than the limit"):
        next(batches(pq.ParquetFile(tmp_path / "x.parquet"), ["claim"], rows=64, max_bytes=1 << 30, where="x.parquet"))
