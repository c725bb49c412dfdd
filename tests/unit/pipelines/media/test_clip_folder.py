"""Models with equal limits find each other's decoded clips; trouble with the folder costs time and no clip."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.messages import Frames, Media
from models.scratch import scratch_base
from pipelines.errors import DecodeError
from pipelines.media import clip_folder
from pipelines.media.clip_folder import ClipFolder, make_clip_folder, remove_clip_folder
from tests.support.damage_matrix import DAMAGES

CLIP = Media("video", "a" * 64, 2)
PIXELS = np.random.default_rng(0).integers(0, 256, (2, 6, 10, 3), np.uint8)
FRAMES = Frames(pixels=PIXELS, seconds=(0.0, 1.5), fps=25.0, total_frames=50)


class Counter:
    def __init__(self) -> None:
        self.decoded = 0

    def __call__(self) -> Frames:
        self.decoded += 1
        return FRAMES


@pytest.fixture
def decode() -> Counter:
    return Counter()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def folder() -> str:
    return "a-run"


def test_clip_is_decoded_once_and_returned_unchanged(folder: str, decode: Counter) -> None:
    for _ in range(3):  # three models, each with its own loader
        frames = ClipFolder(folder).fetch(CLIP, 1000, decode)
        assert np.array_equal(frames.pixels, PIXELS)
        assert (frames.seconds, frames.fps, frames.total_frames) == ((0.0, 1.5), 25.0, 50)
    assert decode.decoded == 1
    ClipFolder(folder).fetch(Media("video", "a" * 64, 1), 1000, decode)
    assert decode.decoded == 2, "another number of frames is another clip"


@pytest.mark.parametrize(
    ("limits", "decoded"),
    [
        ((None, 1000, 61), 1),  # 60 pixels are within all of these limits
        ((1000, None, 61), 1),
        ((60, 60), 1),
        ((60, None), 2),  # a larger frame may have been shrunk to exactly 60 pixels
        ((None, 60), 2),
        ((None, 50, 50), 2),
    ],
)
def test_harmless_limits_share_it(folder: str, decode: Counter, limits: tuple[int | None, ...], decoded: int) -> None:
    for limit in limits:
        ClipFolder(folder).fetch(CLIP, limit, decode)
    assert decode.decoded == decoded


def test_processes_that_need_a_clip_at_once_wait_for_one_decoding(folder: str, decode: Counter) -> None:
    def slow() -> Frames:
        time.sleep(0.2)
        return decode()

    threads = [threading.Thread(target=ClipFolder(folder).fetch, args=(CLIP, None, slow)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert decode.decoded == 1


def test_failure_is_raised_and_not_stored(folder: str, decode: Counter) -> None:
    def fail() -> Frames:
        raise DecodeError("truncated")

    with pytest.raises(DecodeError, match="truncated"):
        ClipFolder(folder).fetch(CLIP, None, fail)
    assert ClipFolder(folder).fetch(CLIP, None, decode) is FRAMES


def test_full_folder_keeps_its_clips(folder: str, decode: Counter) -> None:
    other = Media("video", "b" * 64, 2)
    for clip in (CLIP, other, CLIP, other):
        ClipFolder(folder, max_bytes=600).fetch(clip, None, decode)
    assert decode.decoded == 3


def unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    return "a-run"


def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    del tmp_path
    monkeypatch.setattr(Path, "replace", fail)
    return "a-run"


@pytest.mark.parametrize("make_folder", [unwritable_folder, full_disk])
def test_trouble_with_the_disk_is_logged_once_and_costs_no_clip(
    make_folder: Callable[[Path, pytest.MonkeyPatch], str],
    tmp_path: Path,
    decode: Counter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clips = ClipFolder(make_folder(tmp_path, monkeypatch))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert clips.fetch(CLIP, None, decode) is FRAMES
    assert [record.message[:26] for record in caplog.records] == ["cannot cache decoded clips"]
    assert not list(tmp_path.rglob("*.part"))


def test_decoding_that_hangs_is_not_waited_for(folder: str, decode: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clip_folder, "LOCK_S", 0.05)
    inside, end = threading.Event(), threading.Event()

    def hang() -> Frames:
        inside.set()
        end.wait(60)
        return FRAMES

    thread = threading.Thread(target=ClipFolder(folder).fetch, args=(CLIP, None, hang))
    thread.start()
    assert inside.wait(60)
    ClipFolder(folder).fetch(CLIP, None, decode)
    assert decode.decoded == 1
    end.set()
    thread.join(60)


def test_folder_of_a_killed_run_is_removed_and_that_of_a_living_one_stays(tmp_path: Path, decode: Counter) -> None:
    code = "import os; from pipelines.media.clip_folder import make_clip_folder as f; print(f(), flush=True)"
    code += "; os.kill(os.getpid(), 9)"
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True)
    killed, living = scratch_base() / run.stdout.decode().strip(), scratch_base() / make_clip_folder()
    assert killed.is_dir()
    ClipFolder("a-run").fetch(CLIP, None, decode)
    assert not killed.exists()
    assert living.is_dir()


def test_folder_names_differ_between_runs_and_removal_may_be_repeated(decode: Counter) -> None:
    name = make_clip_folder()
    assert name != make_clip_folder()
    ClipFolder(name).fetch(CLIP, None, decode)
    folder = scratch_base() / name
    assert folder.stat().st_mode & 0o077 == 0, "other users cannot read the clips"
    for _ in range(2):
        remove_clip_folder(name)
        assert not folder.exists()


@pytest.mark.parametrize("way", DAMAGES)
def test_damaged_clip_is_decoded_again(folder: str, decode: Counter, way: str) -> None:
    ClipFolder(folder).fetch(CLIP, 1000, decode)
    other = Frames(pixels=255 - PIXELS, seconds=(0.0, 1.5), fps=25.0, total_frames=50)
    ClipFolder(folder).fetch(Media("video", "b" * 64, 2), 1000, lambda: other)
    path, other_path = sorted((scratch_base() / folder).glob("*.frames"))
    content = DAMAGES[way](path.read_bytes(), other_path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    for _ in range(2):
        assert np.array_equal(ClipFolder(folder).fetch(CLIP, 1000, decode).pixels, PIXELS)
    assert decode.decoded == 2  # and stored again
