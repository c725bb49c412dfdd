"""More than 200 damaged and unusual files: each decodes or is refused with a reason, in bounded time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.messages import Media
from pipelines.media.decoder import Decoder
from tests.chaos.damage import LIMIT_S, decode_all
from tests.chaos.media import corpus, write

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
