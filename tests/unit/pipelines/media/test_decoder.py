"""The decoder: replacement of a stuck or crashed child, hashes, and single-colour frames."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from PIL import Image

from models.messages import Media
from pipelines.errors import DecodeError
from pipelines.media.decoder import Decoder, blank_frames
from pipelines.storage.store import Store


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.new("RGB", (8, 4), "red").save(path)
    return path


def test_crashed_child_is_replaced(picture: Path) -> None:
    with Decoder() as decoder:
        assert decoder.decode_file(picture, Media("image", "")).pixels.shape == (1, 4, 8, 3)
        assert decoder._child is not None
        os.kill(decoder._child.pid, signal.SIGKILL)
        with pytest.raises(DecodeError, match=r"the decoder crashed \(exit -9\)"):
            decoder.decode_file(picture, Media("image", ""))
        assert decoder.decode_file(picture, Media("image", "")).pixels.shape == (1, 4, 8, 3)


def test_stuck_child_is_replaced(picture: Path) -> None:
    with Decoder(timeout_s=0.5) as decoder:
        decoder._running_child().send_signal(signal.SIGSTOP)
        with pytest.raises(DecodeError, match=r"no result after 0\.5 s"):
            decoder.decode_file(picture, Media("image", ""))
        assert decoder._child is None


def test_picture_above_the_pixel_limit_is_refused(picture: Path) -> None:
    with Decoder(max_image_pixels=8) as decoder, pytest.raises(DecodeError, match="exceeds limit"):
        decoder.decode_file(picture, Media("image", ""))


def test_shrunk_picture_has_no_original_bytes(picture: Path) -> None:
    with Decoder() as decoder:
        assert decoder.decode_file(picture, Media("image", "")).encoded == picture.read_bytes()
        shrunk = decoder.decode_file(picture, Media("image", ""), max_pixels=8)
    assert shrunk.encoded is None
    assert shrunk.pixels.shape == (1, 2, 4, 3)


def test_changed_file_is_refused(picture: Path) -> None:
    with Decoder() as decoder, pytest.raises(DecodeError, match="its hash differs"):
        decoder.decode(Store(str(picture.parent)), picture.name, Media("image", "0" * 64))


def test_blank_frames_have_one_colour() -> None:
    frames = blank_frames(Media("video", "blank:ff0080:6x4:10:2.0", 3))
    assert frames.pixels.shape == (3, 4, 6, 3)
    assert set(map(tuple, frames.pixels.reshape(-1, 3).tolist())) == {(255, 0, 128)}
    assert (frames.seconds, frames.fps, frames.total_frames) == ((0.0, 1.0, 2.0), 5.0, 10)
