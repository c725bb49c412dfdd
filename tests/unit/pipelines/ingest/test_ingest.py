"""Ingest of unusual sources: a defect rejects its own rows, and the rest is read."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.errors import DatasetError, SourceError
from pipelines.ingest.dataset import Dataset, Manifest, SampleReader, media_path, write_shard
from pipelines.ingest.ingest import IngestResult, ingest_benchmark
from pipelines.ingest.source_folder import MAX_PATH, Folder, is_encodable
from pipelines.storage.store import Store
from tests.support.fingerprints import fingerprint
from tests.support.maia_source import question, questions, write_clip
from tests.support.mutated_sources import ingest_damaged


@pytest.fixture
def source(maia_source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(maia_source, tmp_path / "source"))


def read(source: Path, tmp_path: Path) -> IngestResult:
    return ingest_benchmark(benchmark("maia"), Folder(str(source)), Store(str(tmp_path / "data")))


def rewrite(source: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    raw = questions(2)
    change(raw)
    (source / "data.json").write_text(json.dumps(raw))


def test_ingested_samples_are_read_back(source: Path, tmp_path: Path) -> None:
    result = read(source, tmp_path)
    assert (result.manifest.samples, result.manifest.media, result.rejections) == (48, 2, ())
    dataset = Dataset.open(Store(str(tmp_path / "data")), "maia")
    samples = list(dataset.samples())
    assert [sample.sample_id for sample in samples[:2]] == ["video1/CausaleEsplicita_A", "video1/Controfattuale_A"]
    assert {sample.cluster for sample in samples} == {"video1", "video2"}
    clip = samples[0].ref("clip")
    assert clip
    assert (clip.frames, clip.width, clip.height) == (40, 64, 48)
    assert dataset.store.exists(f"media/{clip.sha256}.mp4")


def test_fingerprint_depends_on_content_only(source: Path, tmp_path: Path) -> None:
    first = read(source, tmp_path).manifest.dataset_fingerprint
    rewrite(source, lambda raw: raw.reverse())
    assert read(source, tmp_path).manifest.dataset_fingerprint == first
    rewrite(source, lambda raw: raw[0]["question_categories_A"][0].update(question="Altro?"))
    changed = read(source, tmp_path).manifest.dataset_fingerprint
    assert changed != first
    assert len(Store(str(tmp_path / "data")).list("maia/samples")) == 1


def test_dangling_links_are_ignored_and_impossible_names_reject_their_rows(source: Path, tmp_path: Path) -> None:
    (source / "readme.txt").symlink_to("/nonexistent")
    (source / "videos" / "9.mp4").symlink_to("/nonexistent")
    assert read(source, tmp_path).manifest.samples == 48
    rewrite(source, lambda raw: raw[1].update(video="video" + "9" * 400))
    assert read(source, tmp_path).manifest.samples == 24


@pytest.mark.parametrize("content", ["folder", "empty", "picture", "text", "link"])
def test_invalid_clip_rejects_its_own_questions(source: Path, tmp_path: Path, content: str) -> None:
    clip = source / "videos" / "2.mp4"
    clip.unlink()
    if content == "folder":
        clip.mkdir()
    elif content == "empty":
        clip.write_bytes(b"")
    elif content == "picture":
        Image.new("RGB", (64, 48), "red").save(clip, format="PNG")
    elif content == "text":
        clip.write_text("not a clip" * 100)
    else:
        clip.symlink_to("/nonexistent")
    result = read(source, tmp_path)
    assert result.manifest.samples == 24
    assert {row.item.split("/")[0] for row in result.rejections} == {"video2"}
    assert all("/tmp" not in row.reason.replace(str(source), "") for row in result.rejections)


def test_half_surrogate_pairs_and_second_rows_of_an_id_are_rejected_and_listed(source: Path, tmp_path: Path) -> None:
    def change(raw: list[dict[str, Any]]) -> None:
        raw[0]["question_categories_A"][0]["category"] = "abc\ud800"
        raw[0]["question_categories_A"][1]["question"] = "Che \ud800 cosa?"

    rewrite(source, change)
    result = read(source, tmp_path)
    assert result.manifest.samples == 46
    lines = (tmp_path / "data" / "maia" / "rejected.jsonl").read_text().splitlines()
    assert "abc" in json.loads(lines[0])["item"]
    assert "question" in json.loads(lines[1])["reason"]
    assert len(lines) == 2
    rewrite(source, lambda raw: raw[0]["question_categories_A"].append(question(1, "Sentiment_A")))
    result = read(source, tmp_path)
    assert result.manifest.samples == 48
    assert [row.reason for row in result.rejections] == ["duplicate id; the first row of this id is kept"]


@pytest.mark.parametrize("content", ["[" * 100_000, '{"video": 1}', "", "[1, null]", "\ufeff[]"])
def test_source_without_usable_rows_is_refused(source: Path, tmp_path: Path, content: str) -> None:
    (source / "data.json").write_text(content, encoding="utf-8")
    with pytest.raises(SourceError, match=r"data\.json|no usable row"):
        read(source, tmp_path)


def test_source_with_bom_and_crlf_is_read_from_its_parent_folder(source: Path, tmp_path: Path) -> None:
    text = json.dumps(questions(2), indent=1).replace("\n", "\r\n")
    (source / "data.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    above = tmp_path / "above"
    above.mkdir()
    shutil.move(source, above / "dataset")
    assert read(above, tmp_path).manifest.samples == 48


def test_clips_of_few_frames_are_accepted(source: Path, tmp_path: Path) -> None:
    write_clip(source / "videos" / "1.mp4", frames=1)
    write_clip(source / "videos" / "2.mp4", frames=31)
    read(source, tmp_path)
    frames = {
        sample.cluster: sample.ref("clip").frames
        for sample in Dataset.open(Store(str(tmp_path / "data")), "maia").samples()
    }
    assert frames == {"video1": 1, "video2": 31}


def test_damage_after_ingest_is_detected(source: Path, tmp_path: Path) -> None:
    read(source, tmp_path)
    store = Store(str(tmp_path / "data"))
    (shard,) = store.list("maia/samples")
    store.put(shard.path, store.get(shard.path)[:-10])
    with pytest.raises(DatasetError, match="damaged"):
        list(Dataset.open(store, "maia").samples())
    whole = store.get("maia/manifest.json")
    for damaged in (
        b"{}",
        b"null",
        b'"a"',
        b"[]",
        b"",
        b"\xff",
        whole[:-20],
        whole.replace(b'"samples": ', b'"samples": 1'),
        json.dumps({name: value for name, value in json.loads(whole).items() if name != "checksum"}).encode(),
    ):
        store.put("maia/manifest.json", damaged)
        with pytest.raises(DatasetError, match="ingest again"):
            Dataset.open(store, "maia")


def test_changed_byte_of_a_manifest_is_detected(source: Path, tmp_path: Path) -> None:
    whole = read(source, tmp_path).manifest.to_json()
    manifest, draw = Manifest.from_json(whole), Random(1)
    for _ in range(500):
        offset, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        changed = whole[:offset] + bytes([whole[offset] ^ bit]) + whole[offset + 1 :]
        try:
            parsed = Manifest.from_json(changed)
        except (ValueError, TypeError, KeyError):
            continue
        assert parsed == manifest, f"byte {offset}: only whitespace between fields may differ"


PICTURE = MediaRef(
    role="picture", kind="image", sha256="a" * 64, extension=".png", bytes=1, width=2, height=3, frames=1, fps=0.0
)
SAMPLE = Sample(
    sample_id="s1", category="c", subset="", cluster="s1", media=(PICTURE,), data={"text": "caffè", "list": [1, None]}
)


def test_fingerprint_and_shard_depend_on_content_alone(tmp_path: Path) -> None:
    other = replace(SAMPLE, sample_id="s2")
    assert fingerprint([SAMPLE, other]) == fingerprint([other, SAMPLE])
    assert fingerprint([SAMPLE]) != fingerprint([replace(SAMPLE, data={"text": "caffe"})])
    assert fingerprint([SAMPLE]) != fingerprint([replace(SAMPLE, media=(replace(PICTURE, sha256="b" * 64),))])
    info = write_shard(Store(str(tmp_path)), "samples/part.parquet", [SAMPLE])
    assert (info.path, info.rows, len(info.sha256)) == ("samples/part.parquet", 1, 64)
    assert media_path(PICTURE) == f"media/{'a' * 64}.png"


def test_missing_data_names_the_ingest_command(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="run `vlmsweep ingest maia SOURCE --data"):
        Dataset.open(Store(str(tmp_path)), "maia")


@pytest.mark.parametrize("name", benchmark_names())
@pytest.mark.parametrize("count", [500, pytest.param(2000, marks=pytest.mark.full)])
def test_damaged_row_rejects_itself(name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: socket.socket, address: object) -> None:
        raise AssertionError(f"a row made ingest connect to {address}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    rows, rejected = ingest_damaged(name, tmp_path, count)
    assert rows >= count
    assert rejected


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name in ("a.json", "data/b.json", "data/deep/c.json", "data/d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return Folder(str(tmp_path))


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*.json", ["a.json"]),
        ("data/*.json", ["data/b.json"]),
        ("*/*.json", ["data/b.json"]),
        ("data/*/*", ["data/deep/c.json"]),
        ("missing/*", []),
    ],
)
def test_glob_matches_within_one_folder(folder: Folder, pattern: str, paths: list[str]) -> None:
    assert folder.glob(pattern) == paths


@pytest.mark.parametrize("path", ["../a.json", "/etc/hostname", "a\x00b", "a\ud800", "x" * (MAX_PATH + 1), "n" * 256])
def test_invalid_path_does_not_exist(folder: Folder, path: str) -> None:
    assert not folder.exists(path)
    with pytest.raises(FileNotFoundError, match="not a valid path"):
        folder.read_bytes(path)


def test_files_are_read_whole(folder: Folder) -> None:
    assert folder.exists("data/d.csv")
    assert folder.read_bytes("data/d.csv") == b"data/d.csv"
    assert not folder.exists("data")


def test_picture_named_in_another_unicode_form_is_found(tmp_path: Path) -> None:
    spellings = {normalize(form, "bilder/ﬁlm ２ é.jpg") for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert len(spellings) == 4
    for place, (stored, named) in enumerate(permutations(spellings, 2)):
        root = tmp_path / str(place)
        (root / stored).parent.mkdir(parents=True)
        (root / stored).write_bytes(b"picture")
        source = Folder(str(root))
        assert source.exists(named)
        assert source.read_bytes(named) == b"picture"
        assert not source.exists(named.replace("jpg", "png"))
        assert not source.exists("bilder/ü.jpg")


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="missing: no such folder"):
        Folder(str(tmp_path / "missing"))
    with pytest.raises(SourceError, match=r"data\.json: no such file or folder"):
        Folder(str(tmp_path / "data.json"))
    (tmp_path / "data.json").touch()
    with pytest.raises(SourceError, match=r"data\.json: not a folder; give the folder that it is in"):
        Folder(str(tmp_path / "data.json"))


def test_half_a_surrogate_pair_is_not_encodable() -> None:
    assert is_encodable("caffè \U0001f600")
    assert not is_encodable("half \ud800")


def dataset_of(samples: list[Sample], folder: Path, per_shard: int) -> Dataset:
    store = Store(str(folder))
    starts = range(0, len(samples), per_shard)
    shards = [write_shard(store, f"samples/{start}.parquet", samples[start : start + per_shard]) for start in starts]
    manifest = Manifest(
        benchmark="maia", dataset_fingerprint="f", source="", samples=len(samples), rejected=0, media=0, media_bytes=0,
        counts={}, shards=tuple(shards), notices=(),
    )  # fmt: skip
    return Dataset(store, manifest)


@pytest.mark.parametrize("have_equal_hashes", [False, True])
def test_samples_are_read_by_id(have_equal_hashes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if have_equal_hashes:
        monkeypatch.setattr("pipelines.ingest.dataset._hashes", lambda ids: np.zeros(len(ids), np.int64))
    samples = [replace(SAMPLE, sample_id=f"s{number}", data={"n": number}) for number in range(700)]
    reader = SampleReader(dataset_of(samples, tmp_path, per_shard=300))
    wanted = {"s0", "s299", "s300", "s599", "s699"}
    assert reader.read({*wanted, "unknown"}) == {name: samples[int(name[1:])] for name in wanted}
    assert reader.read(()) == {}
    assert SampleReader(dataset_of([], tmp_path, per_shard=1)).read({"s0"}) == {}


def test_only_row_groups_of_wanted_samples_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [replace(SAMPLE, sample_id=f"s{number}") for number in range(700)]
    reader, groups = SampleReader(dataset_of(samples, tmp_path, per_shard=300)), list[int]()
    read = pq.ParquetFile.read_row_groups
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_groups",
        lambda file, numbers, **kwargs: groups.extend(numbers) or read(file, numbers, **kwargs),
    )
    reader.read({"s130", "s140", "s310"})
    assert groups == [1, 0]
