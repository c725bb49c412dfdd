"""Sampled frames and pixels, against the rule of MAIA's paper written out as constants."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.media_sampling import shrunk_size, uniform_indices
from tests.support.maia_source import FRAMES_32_OF_40
from tests.support.paths import ROOT

GOLDEN_FRAMES = [json.loads(line) for line in (ROOT / "tests/golden/maia/frames.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("row", GOLDEN_FRAMES, ids=lambda row: f"{row['wanted']} of {row['total']}")
def test_uniform_indices_match_the_golden_rows(row: dict[str, Any]) -> None:
    indices = uniform_indices(row["total"], row["wanted"])
    assert len(indices) == row["count"]
    assert indices[: len(row["first"])] == row["first"]
    assert indices[len(indices) - len(row["last"]) :] == row["last"]


@pytest.mark.parametrize(
    ("total", "count", "indices"),
    [
        (40, 32, FRAMES_32_OF_40),
        (40, 8, [0, 5, 11, 16, 22, 27, 33, 39]),
        (32, 8, [0, 4, 8, 13, 17, 22, 26, 31]),
        (33, 32, [*range(31), 32]),
        (10, 4, [0, 3, 6, 9]),
        (9, 3, [0, 4, 8]),
        (4, 9, [0, 1, 2, 3]),
        (4, 4, [0, 1, 2, 3]),
        (4, None, [0, 1, 2, 3]),
        (32, 2, [0, 31]),
        (32, 1, [0]),
        (1, 8, [0]),
        (0, 32, []),
    ],
)
def test_uniform_indices_match_explicit_lists(total: int, count: int | None, indices: list[int]) -> None:
    assert uniform_indices(total, count) == indices


@given(st.integers(1, 5_000), st.integers(1, 64))
def test_uniform_indices_rise_without_repeats_from_first_to_last_frame(total: int, count: int) -> None:
    indices = uniform_indices(total, count)
    assert len(indices) == min(total, count)
    assert indices == sorted(set(indices))
    assert indices[0] == 0
    assert indices[-1] == (total - 1 if count > 1 else 0)


@pytest.mark.parametrize(("total", "count"), [(-1, 32), (900, 0)])
def test_uniform_indices_reject_impossible_counts(total: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"cannot take {count} of {total} frames"):
        uniform_indices(total, count)


@pytest.mark.parametrize(
    ("width", "height", "max_pixels", "size"),
    [
        (640, 360, 800, (37, 21)),
        (1920, 1080, 200_704, (597, 336)),
        (9000, 9000, None, (9000, 9000)),
        (448, 448, 200_704, (448, 448)),
        (5000, 1, 100, (100, 1)),
        (1, 5000, 100, (1, 100)),
    ],
)
def test_shrunk_size_matches_explicit_sizes(
    width: int, height: int, max_pixels: int | None, size: tuple[int, int]
) -> None:
    assert shrunk_size(width, height, max_pixels) == size


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 2_000_000))
def test_shrunk_size_stays_within_the_limit(width: int, height: int, max_pixels: int) -> None:
    new_width, new_height = shrunk_size(width, height, max_pixels)
    assert 1 <= new_width <= width
    assert 1 <= new_height <= height
    assert new_width * new_height <= max_pixels
    if width * height <= max_pixels:
        assert (new_width, new_height) == (width, height)
    elif min(new_width, new_height) > 1:
        # Rounding both sides down to whole pixels loses no more than this.
        assert (new_width + 1) * (new_height + 1) > max_pixels


def test_shifted_frames_lie_between_those_of_the_clip_and_end_with_the_last() -> None:
    assert uniform_indices(101, 5) == [0, 25, 50, 75, 100]
    assert uniform_indices(101, 5, shift=50) == [12, 37, 62, 87, 100]
    assert uniform_indices(101, 1, shift=50) == [50]
    assert uniform_indices(4, 5, shift=50) == [0, 1, 2, 3]
    assert all(len({*uniform_indices(total, 32, shift=99)}) == 32 for total in range(33, 200))
