"""Odd sources: each costs its own rows, and the rest is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from pipelines.benchmarks import benchmark
from pipelines.errors import DatasetError, SourceError
from pipelines.ingest.dataset import Dataset, Manifest
from pipelines.ingest.ingest import IngestResult, ingest
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support.maia_source import question, questions, write_clip


@pytest.fixture
def source(maia_source: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(maia_source, tmp_path / "source"))


def read(source: Path, tmp_path: Path) -> IngestResult:
    return ingest(benchmark("maia"), Folder(str(source)), Store(str(tmp_path / "data")))


def rewrite(source: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    raw = questions(2)
    change(raw)
    (source / "data.json").write_text(json.dumps(raw))


def test_what_is_read_comes_back_whole(source: Path, tmp_path: Path) -> None:
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


def test_the_fingerprint_is_of_the_content(source: Path, tmp_path: Path) -> None:
    first = read(source, tmp_path).manifest.dataset_fingerprint
    rewrite(source, lambda raw: raw.reverse())
    assert read(source, tmp_path).manifest.dataset_fingerprint == first
    rewrite(source, lambda raw: raw[0]["question_categories_A"][0].update(question="Altro?"))
    changed = read(source, tmp_path).manifest.dataset_fingerprint
    assert changed != first
    assert len(Store(str(tmp_path / "data")).list("maia/samples")) == 1


def test_dangling_links_and_strange_files_are_passed_over(source: Path, tmp_path: Path) -> None:
    (source / "readme.txt").symlink_to("/nonexistent")
    (source / "videos" / "9.mp4").symlink_to("/nonexistent")
    assert read(source, tmp_path).manifest.samples == 48


@pytest.mark.parametrize("deed", ["folder", "empty", "picture", "text", "link"])
def test_a_clip_that_is_none_costs_its_own_questions(source: Path, tmp_path: Path, deed: str) -> None:
    clip = source / "videos" / "2.mp4"
    clip.unlink()
    if deed == "folder":
        clip.mkdir()
    elif deed == "empty":
        clip.write_bytes(b"")
    elif deed == "picture":
        Image.new("RGB", (64, 48), "red").save(clip, format="PNG")
    elif deed == "text":
        clip.write_text("not a clip" * 100)
    else:
        clip.symlink_to("/nonexistent")
    result = read(source, tmp_path)
    assert result.manifest.samples == 24
    assert {row.item.split("/")[0] for row in result.rejections} == {"video2"}
    assert all("/tmp" not in row.reason.replace(str(source), "") for row in result.rejections)


def test_names_that_no_file_can_have(source: Path, tmp_path: Path) -> None:
    rewrite(source, lambda raw: raw[1].update(video="video" + "9" * 400))
    assert read(source, tmp_path).manifest.samples == 24


def test_half_characters_are_listed_not_fatal(source: Path, tmp_path: Path) -> None:
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


def test_a_second_row_of_one_id_is_rejected(source: Path, tmp_path: Path) -> None:
    rewrite(source, lambda raw: raw[0]["question_categories_A"].append(question(1, "Sentiment_A")))
    result = read(source, tmp_path)
    assert result.manifest.samples == 48
    assert [row.reason for row in result.rejections] == ["duplicate id; the first row of this id is kept"]


@pytest.mark.parametrize("content", ["[" * 100_000, '{"video": 1}', "", "[1, null]", "\ufeff[]"])
def test_json_that_holds_nothing(source: Path, tmp_path: Path, content: str) -> None:
    (source / "data.json").write_text(content, encoding="utf-8")
    with pytest.raises(SourceError, match=r"data\.json|no row can be used"):
        read(source, tmp_path)


def test_bom_crlf_and_the_folder_above(source: Path, tmp_path: Path) -> None:
    text = json.dumps(questions(2), indent=1).replace("\n", "\r\n")
    (source / "data.json").write_bytes(b"\xef\xbb\xbf" + text.encode())
    above = tmp_path / "above"
    above.mkdir()
    shutil.move(source, above / "dataset")
    assert read(above, tmp_path).manifest.samples == 48


def test_short_and_long_clips(source: Path, tmp_path: Path) -> None:
    write_clip(source / "videos" / "1.mp4", frames=1)
    write_clip(source / "videos" / "2.mp4", frames=31)
    read(source, tmp_path)
    frames = {s.cluster: s.ref("clip").frames for s in Dataset.open(Store(str(tmp_path / "data")), "maia").samples()}
    assert frames == {"video1": 1, "video2": 31}


def test_damage_after_ingest_is_told(source: Path, tmp_path: Path) -> None:
    read(source, tmp_path)
    store = Store(str(tmp_path / "data"))
    (shard,) = store.list("maia/samples")
    store.put(shard.path, store.get(shard.path)[:-10])
    with pytest.raises(DatasetError, match="damaged"):
        list(Dataset.open(store, "maia").samples())
    whole = store.get("maia/manifest.json")
    for bad in (
        b"{}",
        b"null",
        b'"a"',
        b"[]",
        b"",
        b"\xff",
        whole[:-20],
        whole.replace(b'"samples": ', b'"samples": 1'),
    ):
        store.put("maia/manifest.json", bad)
        with pytest.raises(DatasetError, match="ingest again"):
            Dataset.open(store, "maia")
    old = {name: value for name, value in json.loads(whole).items() if name != "checksum"}
    store.put("maia/manifest.json", json.dumps(old).encode())
    assert Dataset.open(store, "maia").manifest == Manifest.from_json(whole)


def test_any_byte_of_a_manifest_that_is_changed_is_seen(source: Path, tmp_path: Path) -> None:
    whole = read(source, tmp_path).manifest.to_json()
    kept, draw = Manifest.from_json(whole), Random(1)
    for _ in range(500):
        place, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        changed = whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :]
        try:
            found = Manifest.from_json(changed)
        except (ValueError, TypeError, KeyError):
            continue
        assert found == kept, f"byte {place}: a blank between two fields may differ, and nothing else"
