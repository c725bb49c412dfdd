"""The decoder: replacement of a stuck or crashed child, hashes, and single-colour frames."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from models.messages import Frames, Media
from pipelines.errors import DecodeError
from pipelines.media.decoder import Decoder, blank_frames
from pipelines.media.recent_frames import RecentFrames
from pipelines.media.video_containers import PROBE_BYTES, detect_container
from pipelines.storage.store import Store
from tests.chaos.damage import LIMIT_S, decode_all
from tests.chaos.media import corpus, write
from tests.support.maia_source import write_source


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.new("RGB", (8, 4), "red").save(path)
    return path


def test_crashed_or_stuck_child_is_replaced(picture: Path) -> None:
    with Decoder() as decoder:
        assert decoder.decode_file(picture, Media("image", "")).pixels.shape == (1, 4, 8, 3)
        os.kill(decoder._child.pid, signal.SIGKILL)
        with pytest.raises(DecodeError, match=r"the decoder crashed \(exit -9\)"):
            decoder.decode_file(picture, Media("image", ""))
        assert decoder.decode_file(picture, Media("image", "")).pixels.shape == (1, 4, 8, 3)
    with Decoder(timeout_s=0.5) as decoder:
        decoder._running_child().send_signal(signal.SIGSTOP)
        with pytest.raises(DecodeError, match=r"no result after 0\.5 s"):
            decoder.decode_file(picture, Media("image", ""))
        assert decoder._child is None


def test_child_outlives_the_thread_that_asked_first(picture: Path) -> None:
    with Decoder() as decoder:
        thread = threading.Thread(target=decoder.decode_file, args=(picture, Media("image", "")))
        thread.start()
        thread.join()
        time.sleep(0.3)  # for the signal that Linux sends at the end of a child's starting thread
        assert decoder._child is not None
        assert decoder._child.poll() is None


def test_child_starts_under_a_lower_memory_limit(picture: Path) -> None:
    lines = [
        "import resource, sys", "from pathlib import Path",
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))", "from models.messages import Media",
        "from pipelines.media.decoder import Decoder", "Decoder().decode_file(Path(sys.argv[1]), Media('image', ''))",
    ]  # fmt: skip
    subprocess.run([sys.executable, "-c", "\n".join(lines), str(picture)], check=True)


def test_encoding_of_the_shells_streams_reaches_no_child(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-16")
    with Decoder() as decoder:
        assert decoder.decode_file(picture, Media("image", "")).pixels.shape == (1, 4, 8, 3)


def test_pixel_limit_refuses_a_picture_and_shrinking_drops_its_bytes(picture: Path) -> None:
    with Decoder(max_image_pixels=8) as decoder, pytest.raises(DecodeError, match="exceeds limit"):
        decoder.decode_file(picture, Media("image", ""))
    with Decoder() as decoder:
        assert decoder.decode_file(picture, Media("image", "")).encoded == picture.read_bytes()
        shrunk = decoder.decode_file(picture, Media("image", ""), max_pixels=8)
    assert shrunk.encoded is None
    assert shrunk.pixels.shape == (1, 2, 4, 3)


@pytest.mark.parametrize("name", ["picture.jpg", "picture.png"])
@pytest.mark.parametrize("max_pixels", [200_704, 50_176, 3_072])
def test_a_large_picture_never_passes_a_limit_as_its_own_bytes(tmp_path: Path, name: str, max_pixels: int) -> None:
    Image.effect_noise((2000, 1500), 60).convert("RGB").save(tmp_path / name)
    with Decoder() as decoder:
        frames = decoder.decode_file(tmp_path / name, Media("image", ""), max_pixels)
    assert frames.encoded is None
    assert frames.pixels.shape[1] * frames.pixels.shape[2] <= max_pixels


def save(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def test_only_plain_pictures_keep_their_bytes(tmp_path: Path) -> None:
    red, turned = Image.new("RGB", (8, 4), "red"), Image.Exif()
    turned[0x0112] = 6
    deep = Image.fromarray(np.full((4, 8), 40_000, np.uint16))
    grey_alpha = Image.new("LA", (8, 4), (9, 0))
    frames = [red, Image.new("RGB", (8, 4), "blue")]
    plain = [save(tmp_path / "a.png", red), save(tmp_path / "b.jpg", red), save(tmp_path / "c.png", red.convert("L"))]
    others = [
        save(tmp_path / "alpha.png", red.convert("RGBA")), save(tmp_path / "hidden.png", red, transparency=(255, 0, 0)),
        save(tmp_path / "palette.png", red.convert("P")), save(tmp_path / "grey_alpha.png", grey_alpha),
        save(tmp_path / "deep.png", deep), save(tmp_path / "turned.jpg", red, exif=turned),
        save(tmp_path / "cmyk.jpg", red.convert("CMYK")),
        save(tmp_path / "moving.png", red, save_all=True, append_images=frames[1:]), save(tmp_path / "a.webp", red),
    ]  # fmt: skip
    with Decoder() as decoder:
        assert all(decoder.decode_file(path, Media("image", "")).encoded == path.read_bytes() for path in plain)
        assert [path.name for path in others if decoder.decode_file(path, Media("image", "")).encoded] == []


def test_transparency_shows_white_and_orientation_is_applied_once(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (8, 4), (0, 0, 0, 0))
    clear.paste((255, 0, 0, 255), (0, 0, 4, 4))
    turned = Image.Exif()
    turned[0x0112] = 6
    with Decoder() as decoder:
        pixels = decoder.decode_file(save(tmp_path / "clear.png", clear), Media("image", "")).pixels[0]
        assert (pixels[0, 0].tolist(), pixels[0, 7].tolist()) == ([255, 0, 0], [255, 255, 255])
        turned_file = save(tmp_path / "turned.png", Image.new("RGB", (8, 4), "red"), exif=turned)
        assert decoder.decode_file(turned_file, Media("image", "")).pixels.shape == (1, 8, 4, 3)
    values = np.full((4, 8), 300, np.uint16)
    values[:, 4:] = 40_000
    path = save(tmp_path / "clear.png", Image.fromarray(values), transparency=300)
    with Decoder() as decoder:
        pixels = decoder.decode_file(path, Media("image", "")).pixels[0]
    assert (pixels[0, 0].tolist(), pixels[0, 7].tolist()) == ([255] * 3, [40_000 >> 8] * 3)


@pytest.mark.parametrize("value", [200, 256, 40_000])
def test_sixteen_bits_are_scaled_by_their_range(tmp_path: Path, value: int) -> None:
    path = save(tmp_path / "deep.png", Image.fromarray(np.full((4, 8), value, np.uint16)))
    with Decoder() as decoder:
        assert decoder.decode_file(path, Media("image", "")).pixels.max() == value >> 8


def test_changed_file_is_refused(picture: Path) -> None:
    with Decoder() as decoder, pytest.raises(DecodeError, match="its hash differs"):
        decoder.decode(Store(str(picture.parent)), picture.name, Media("image", "0" * 64))


def test_blank_frames_have_one_colour() -> None:
    frames = blank_frames(Media("video", "blank:ff0080:6x4:10:2.0", 3))
    assert frames.pixels.shape == (3, 4, 6, 3)
    assert set(map(tuple, frames.pixels.reshape(-1, 3).tolist())) == {(255, 0, 128)}
    assert (frames.seconds, frames.fps, frames.total_frames) == ((0.0, 1.0, 2.0), 5.0, 10)


def test_pyav_decodes_where_decord_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "decord.py").write_text("raise ModuleNotFoundError('no decord here')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    source = write_source(tmp_path / "maia", 1, 1)
    clip = next(path for path in source.rglob("*.mp4"))
    with Decoder() as decoder:
        frames, decoders = decoder.checked_decoders(clip, Media("video", "", 4))
        assert decoders == ("pyav",)
        assert np.array_equal(decoder.decode_file(clip, Media("video", "", 4)).pixels, frames.pixels)


def test_a_stress_test_changes_the_pixels_that_are_shown_and_not_the_file(tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    noise = np.random.default_rng(1).integers(0, 255, (40, 60, 3), np.uint8)
    Image.fromarray(noise).save(path)
    with Decoder() as decoder:
        plain = decoder.decode_file(path, Media("image", "ab"))
        stored, shrunk, small = (
            decoder.decode_file(path, Media("image", f"ab~{change}"), limit)
            for change, limit in (("jpeg-30", None), ("pixels-25", None), ("pixels-25", 600))
        )
        assert decoder.decode_file(path, Media("image", "ab~jpeg-30")).pixels.tolist() == stored.pixels.tolist()
    assert plain.encoded is not None
    assert [each.encoded for each in (stored, shrunk, small)] == [None, None, None]
    assert [each.pixels.shape for each in (stored, shrunk, small)] == [(1, 40, 60, 3), (1, 20, 30, 3), (1, 10, 15, 3)]
    assert np.abs(stored.pixels.astype(int) - plain.pixels).mean() > 5


def test_a_stress_test_shows_the_frames_between(tmp_path: Path) -> None:
    write_source(tmp_path, 1, 1)
    clip = next(tmp_path.rglob("*.mp4"))
    with Decoder() as decoder:
        for name in ("decord", "pyav"):
            plain, shifted = (
                decoder.decode_file(clip, Media("video", f"ab{c}", 3), None, [name]) for c in ("", "~frames-50")
            )
            assert plain.seconds[0] < shifted.seconds[0] < plain.seconds[1] < shifted.seconds[1]
            assert (plain.seconds[-1], len(shifted.pixels)) == (shifted.seconds[-1], 3)


def frames(size: int = 10) -> Frames:
    return Frames(pixels=np.zeros((1, 1, size, 3), np.uint8))


def recording_decoder(decoded: list[str], key: str, size: int = 10) -> Callable[[], Frames]:
    def decode() -> Frames:
        decoded.append(key)
        return frames(size)

    return decode


def test_cache_evicts_the_least_recently_used_medium_and_holds_an_oversized_one_alone() -> None:
    decoded: list[str] = []
    cache = RecentFrames(max_bytes=3 * 30)
    for key in ("a", "b", "a", "c", "a", "d", "a", "b"):
        cache.fetch(key, recording_decoder(decoded, key))
    assert decoded == ["a", "b", "c", "d", "b"]
    decoded: list[str] = []
    cache = RecentFrames(max_bytes=10)
    for key in ("a", "a", "b", "b"):
        cache.fetch(key, recording_decoder(decoded, key))
    assert decoded == ["a", "b"]


@pytest.mark.parametrize("mark", [b"dash:profile", b"<CompositionPlaylist", b"<AssetMap"])
def test_playlist_mark_within_the_probed_bytes_is_refused(tmp_path: Path, mark: bytes) -> None:
    clip = tmp_path / "clip.ogg"
    clip.write_bytes(b"OggS" + b"\x00" * 1000 + mark)
    with pytest.raises(ValueError, match="a playlist of other files"):
        detect_container(clip)
    clip.write_bytes(b"OggS" + b"\x00" * PROBE_BYTES + mark)
    assert detect_container(clip) == "ogg"


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x00\x18ftypheic"])
def test_unknown_container_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clip").write_bytes(content)
    with pytest.raises(ValueError, match="not a video in a supported container"):
        detect_container(tmp_path / "clip")


MAX_MEMORY_BYTES = 2_500 << 20
"""Peak of the decoding process."""


def test_damaged_file_fails_alone(tmp_path: Path) -> None:
    outcomes = decode_all(tmp_path)
    assert outcomes.wrong == []
    assert outcomes.counts.keys() == {"decodes", "refused"}
    assert outcomes.counts.total() >= 200
    assert min(outcomes.counts.values()) >= 50, outcomes
    assert outcomes.longest_s < 2 * LIMIT_S + 5
    assert outcomes.most_bytes < MAX_MEMORY_BYTES, f"{outcomes.most_bytes >> 20} MiB"


@pytest.mark.parametrize("name", ["deep.png", "deep.tiff"])
def test_sixteen_bit_grey_is_scaled_and_not_clipped(tmp_path: Path, name: str) -> None:
    specimen = next(specimen for specimen in corpus() if specimen.name == name)
    with Decoder() as decoder:
        pixels = decoder.decode_file(write(tmp_path, specimen), Media("image", "", 0)).pixels[0]
    assert abs(float(pixels.mean()) - 127.5) < 3
    assert len(set(pixels[0, :, 0].tolist())) > 60
