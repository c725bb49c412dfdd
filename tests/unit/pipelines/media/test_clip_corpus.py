"""Every frame of a clip is the one asked for, in the containers, codecs and cuts with which decoders go wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.media_sampling import uniform_indices
from models.messages import Media
from pipelines.errors import DecodeError
from pipelines.media.decoder import DECODERS, Decoder
from tests.support.clip_corpus import CLIPS, Clip, set_matrix, write
from tests.support.maia_source import HEIGHT, WIDTH
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
