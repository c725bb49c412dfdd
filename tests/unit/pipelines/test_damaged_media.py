"""More than 200 damaged and odd files: each decodes or is refused with a reason, in bounded time and memory."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from models.messages import Media
from pipelines.media.decoder import DecodeError, Decoder
from tests.chaos.media import corpus, write

LIMIT_S = 60.0
MOST_BYTES = 2_500 << 20
"""Peak of the decoder's process."""


def peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_each_costs_itself_and_nothing_else(tmp_path: Path) -> None:
    fates: Counter[str] = Counter()
    most = 0
    with Decoder(timeout_s=LIMIT_S) as decoder:
        for specimen in corpus():
            path = write(tmp_path, specimen)
            started = time.monotonic()
            try:
                frames = decoder.decode_file(path, Media(specimen.kind, "", 4 if specimen.kind == "video" else 0), 4096)
            except DecodeError as error:
                assert specimen.fate != "decodes", f"{specimen.name}: {error}"
                assert len(str(error)) > 10
                fates["refused"] += 1
            else:
                assert specimen.fate != "refused", specimen.name
                assert frames.pixels.dtype == "uint8"
                assert frames.pixels.shape[3] == 3
                assert frames.pixels[0].size <= 3 * 4096
                fates["decodes"] += 1
            assert time.monotonic() - started < 2 * LIMIT_S + 5, specimen.name
            if decoder._child is not None:
                most = max(most, peak(decoder._child.pid))
            path.unlink()
    assert sum(fates.values()) >= 200
    assert min(fates.values()) >= 50, fates
    assert most < MOST_BYTES, f"{most >> 20} MiB"


@pytest.mark.parametrize("name", ["deep.png", "deep.tiff"])
def test_sixteen_bits_are_scaled_and_not_cut(tmp_path: Path, name: str) -> None:
    specimen = next(one for one in corpus() if one.name == name)
    with Decoder() as decoder:
        pixels = decoder.decode_file(write(tmp_path, specimen), Media("image", "", 0)).pixels[0]
    assert abs(float(pixels.mean()) - 127.5) < 3
    assert len(set(pixels[0, :, 0].tolist())) > 60
