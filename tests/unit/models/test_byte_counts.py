from __future__ import annotations

import pytest

from models.byte_counts import format_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (9000, "9 kB"),
        (35_200_000, "35 MB"),
        (999e6, "999 MB"),
        (14.04e9, "14.0 GB"),
    ],
)
def test_sizes_have_the_unit_in_which_they_are_not_zero(count: float, text: str) -> None:
    assert format_bytes(count) == text
