"""Every frame of a clip is the one asked for, in the containers, codecs and cuts with which decoders go wrong."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from models.media_sampling import uniform_indices
from models.messages import Media
from pipelines.errors import DecodeError
from pipelines.media import decode_worker
from pipelines.media.decoder import DECODERS, Decoder
from pipelines.media.video_containers import detect_container
from tests.support.clip_corpus import CLIPS, FRAMES, Clip, set_matrix, write
from tests.support.maia_source import HEIGHT, WIDTH, frame_of
from tests.support.paths import SHARED_DATA
from tests.support.turns import in_turns

CHECKED = 32


USUAL = {
    "h264-open-gop.mp4", "h264-cut-7.mp4", "h264-turned-90.mp4", "h264-gap.mp4", "h264.ts", "hevc-cut.mp4", "vp9.webm",
}  # fmt: skip


@pytest.mark.parametrize(
    "clip",
    in_turns([clip for clip in CLIPS if not clip.audio_cover], [clip for clip in CLIPS if clip.name in USUAL]),
    ids=lambda clip: clip.name,
)
def test_frames_are_those_asked_for(clip: Clip, tmp_path: Path) -> None:
    path = write(clip, tmp_path)
    with Decoder() as decoder:
        checked, decoders = decoder.checked_decoders(path, Media("video", "", CHECKED))
        expected = clip.expected()
        by_count = {count: decoder.decode_file(path, Media("video", "", count), None, decoders) for count in (1, 8)}
        for count, frames in {**by_count, CHECKED: checked}.items():
            upright = [np.rot90(picture, clip.rotation // 90) for picture in frames.pixels]
            assert [clip.index_of(picture) for picture in upright] == [
                expected[index] for index in uniform_indices(len(expected), count)
            ]
            assert frames.total_frames == len(expected)
            sides = (WIDTH, HEIGHT) if clip.rotation in (90, 270) else (HEIGHT, WIDTH)
            assert frames.pixels.shape[1:3] == sides


@pytest.mark.parametrize(
    "matrix", [(x, 0, 0, y) for x in (1, -1) for y in (1, -1)] + [(0, x, y, 0) for x in (1, -1) for y in (1, -1)]
)
def test_frames_are_turned_and_mirrored_as_the_matrix_says(matrix: tuple[int, int, int, int], tmp_path: Path) -> None:
    """The matrix maps x to ax + cy and y to bx + dy, from the upper left corner; the result is moved to begin at 0."""
    a, b, c, d = matrix
    path, media = write(CLIPS[0], tmp_path), Media("video", "", 1)
    with Decoder() as decoder:
        (plain,) = decoder.checked_decoders(path, media)[0].pixels
        set_matrix(path, matrix)
        (shown,) = decoder.checked_decoders(path, media)[0].pixels
    y, x = np.indices(plain.shape[:2])
    to_x, to_y = a * x + c * y, b * x + d * y
    expected = np.zeros((np.ptp(to_y) + 1, np.ptp(to_x) + 1, 3), np.uint8)
    expected[to_y - to_y.min(), to_x - to_x.min()] = plain
    assert np.array_equal(shown, expected)


def test_sound_with_a_cover_is_no_clip(tmp_path: Path) -> None:
    path = write(next(clip for clip in CLIPS if clip.audio_cover), tmp_path)
    with Decoder() as decoder, pytest.raises(DecodeError, match="cover of a sound"):
        decoder.checked_decoders(path, Media("video", "", CHECKED))


def test_a_damaged_file_is_refused_where_decord_mixes_its_frames(tmp_path: Path) -> None:
    path = write(next(clip for clip in CLIPS if clip.name == "h264.avi"), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 8 // 10])
    with Decoder() as decoder, pytest.raises(DecodeError, match="the file is truncated"):
        decoder.checked_decoders(path, Media("video", "", CHECKED))


def test_decord_is_trusted_where_it_is_right(tmp_path: Path) -> None:
    trusted = {}
    with Decoder() as decoder:
        for clip in CLIPS:
            if clip.name in ("h264-plain.mp4", "h264.mkv", "h264-cut-5.mp4", "h264.ts"):
                trusted[clip.name] = decoder.checked_decoders(write(clip, tmp_path), Media("video", "", CHECKED))[1]
    assert trusted["h264-plain.mp4"] == trusted["h264.mkv"] == DECODERS
    assert trusted["h264-cut-5.mp4"] == trusted["h264.ts"] == ("pyav",)


SOUGHT = {
    clip.name
    for clip in CLIPS
    if clip.name.endswith((".mp4", ".mov")) and not clip.skipped  # frames before an edit list's start are not counted
}


@pytest.mark.parametrize("clip", [clip for clip in CLIPS if not clip.audio_cover], ids=lambda clip: clip.name)
def test_seeking_shows_the_frames_of_a_whole_pass_or_refuses(
    clip: Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(clip, tmp_path)
    request = {
        "kind": "video",
        "path": str(path),
        "change": "",
        "max_pixels": None,
        "container": detect_container(path),
    }
    with pytest.raises(ValueError, match=r"fewer than 1000 frames|cannot be counted"):
        decode_worker.decode({**request, "frames": 8, "decoder": "seek"})
    monkeypatch.setattr(decode_worker, "LONG_CLIP", FRAMES)
    refused = set()
    for count in (1, 5, 8, FRAMES):
        whole, expected = decode_worker.decode({**request, "frames": count, "decoder": "pyav"})
        try:
            header, pixels = decode_worker.decode({**request, "frames": count, "decoder": "seek"})
        except ValueError as error:
            assert "cannot be" in str(error)
            refused.add(count)
        else:
            assert header == whole
            assert np.array_equal(pixels, expected)
    assert (not refused) == (clip.name in SOUGHT)


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip with a key frame in 250."""
    path, frames = tmp_path_factory.mktemp("long") / "long.mp4", decode_worker.LONG_CLIP
    with av.open(str(path), "w") as opened:
        stream = opened.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"g": "250", "keyint_min": "250", "preset": "ultrafast"}
        for index in range(frames):
            opened.mux(stream.encode(av.VideoFrame.from_ndarray(frame_of(index % 60), format="rgb24")))
        opened.mux(stream.encode())
    return path


def test_long_clip_is_decoded_by_seeking(long_clip: Path) -> None:
    media = Media("video", "", CHECKED)
    with Decoder() as decoder:
        whole = decoder.decode_file(long_clip, media, None, ["pyav"])
        for decoders in (DECODERS, ["decord"]):  # as of a clip in the manifest, and without PyAV's whole pass
            sought = decoder.decode_file(long_clip, media, None, decoders)
            assert np.array_equal(sought.pixels, whole.pixels)
            assert (sought.seconds, sought.fps, sought.total_frames) == (
                whole.seconds,
                whole.fps,
                decode_worker.LONG_CLIP,
            )


@pytest.mark.parametrize("seed", range(8))
def test_damaged_long_clip_shows_the_frames_of_a_whole_pass(seed: int, long_clip: Path, tmp_path: Path) -> None:
    content, random = bytearray(long_clip.read_bytes()), np.random.default_rng(seed)
    start = content.index(b"mdat")
    for place in random.integers(start + 2000, content.index(b"moov") - 2000, 3):
        content[place] ^= 0x55
    (tmp_path / "damaged.mp4").write_bytes(content)
    media = Media("video", "", CHECKED)
    with Decoder() as decoder:
        try:
            checked, decoders = decoder.checked_decoders(tmp_path / "damaged.mp4", media)
        except DecodeError:
            return  # refused
        shown = decoder.decode_file(tmp_path / "damaged.mp4", media, None, decoders)
    assert np.array_equal(checked.pixels, shown.pixels)


@pytest.mark.full
def test_published_clips_are_decoded_as_before() -> None:
    clips = sorted((SHARED_DATA / "maia" / "dataset" / "videos").glob("*.mp4"))
    if not clips:
        pytest.skip("the published data are not on this machine")
    with Decoder() as decoder:
        for path in clips:
            frames, decoders = decoder.checked_decoders(path, Media("video", "", CHECKED))
            assert decoders == DECODERS, path.name
            assert np.array_equal(frames.pixels, decoder.decode_file(path, Media("video", "", CHECKED)).pixels)
