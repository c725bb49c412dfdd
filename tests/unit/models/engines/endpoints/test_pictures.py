from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from models.engines.endpoints.pictures import data_uris
from models.entry_fields import Limits
from models.messages import Frames, Media
from tests.support.calls import CLIP, PICTURE, noise

NO_LIMITS = Limits()


def decode_uri(uri: str) -> tuple[str, Image.Image]:
    kind, _, data = uri.removeprefix("data:").partition(";base64,")
    return kind, Image.open(io.BytesIO(base64.b64decode(data, validate=True)))


def file_of(pixels: np.ndarray, form: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


class TestDataUris:
    @pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
    def test_original_bytes_of_a_picture_are_sent(self, form: str) -> None:
        frames = noise(1)
        original = file_of(frames.pixels[0], form)
        (uri,) = data_uris(PICTURE, Frames(pixels=frames.pixels, encoded=original), NO_LIMITS)
        assert uri == f"data:image/{form.lower()};base64,{base64.b64encode(original).decode()}"

    def test_original_bytes_are_sent_within_the_limit(self) -> None:
        frames = noise(1)
        original = file_of(frames.pixels[0], "PNG")
        limits = Limits(max_pixels=56 * 84)
        (uri,) = data_uris(PICTURE, Frames(pixels=frames.pixels, encoded=original), limits)
        assert base64.b64decode(uri.partition(",")[2]) == original

    def test_picture_above_the_limit_is_encoded_again(self) -> None:
        frames = noise(1)
        limits = Limits(max_pixels=56 * 84 // 4)
        original = file_of(frames.pixels[0], "PNG")
        (uri,) = data_uris(PICTURE, Frames(pixels=frames.pixels, encoded=original), limits)
        kind, image = decode_uri(uri)
        assert (kind, image.size) == ("image/jpeg", (42, 28))

    def test_unknown_format_is_encoded_again(self) -> None:
        frames = noise(1)
        (uri,) = data_uris(PICTURE, Frames(pixels=frames.pixels, encoded=b"GIF89a..."), NO_LIMITS)
        assert decode_uri(uri)[0] == "image/jpeg"

    def test_frames_are_jpeg_of_quality_90(self) -> None:
        y, x = np.mgrid[0:56, 0:84]
        pixels = np.stack([x * 3, y * 4, (x + y) * 2], axis=-1).astype(np.uint8)[None]
        pixels = np.concatenate([pixels, pixels[:, :, ::-1]])
        uris = data_uris(CLIP, Frames(pixels=pixels), NO_LIMITS)
        assert len(uris) == 2
        for uri, frame in zip(uris, pixels, strict=True):
            kind, image = decode_uri(uri)
            assert kind == "image/jpeg"
            expected = io.BytesIO()
            Image.fromarray(frame).save(expected, "JPEG", quality=90)
            assert base64.b64decode(uri.partition(",")[2]) == expected.getvalue()
            assert np.abs(np.asarray(image).astype(int) - frame).mean() < 3

    def test_png_is_used_where_smaller(self) -> None:
        black = Frames(pixels=np.zeros((1, 360, 640, 3), np.uint8))
        (uri,) = data_uris(Media("video", "blank", 1), black, NO_LIMITS)
        kind, image = decode_uri(uri)
        assert (kind, image.size) == ("image/png", (640, 360))
        assert not np.asarray(image).any()

    def test_jpeg_is_used_where_smaller(self) -> None:
        # 2,048 colours in disorder: PNG is tried, and loses.
        pixels = np.random.default_rng(0).integers(0, 2048, (1, 64, 64))
        few = np.stack([pixels % 256, pixels // 256, pixels * 0], axis=-1).astype(np.uint8)
        (uri,) = data_uris(PICTURE, Frames(pixels=few), NO_LIMITS)
        assert decode_uri(uri)[0] == "image/jpeg"

    def test_clip_is_sampled_and_shrunk(self) -> None:
        frames = noise(5, frames=9, height=100, width=200)
        uris = data_uris(CLIP, frames, Limits(max_frames=3, max_pixels=5000))
        assert [decode_uri(uri)[1].size for uri in uris] == [(100, 50)] * 3
        sampled = noise(5, frames=9, height=100, width=200).pixels[[0, 4, 8]]
        assert uris == data_uris(CLIP, Frames(pixels=sampled), Limits(max_pixels=5000))

    def test_encoded_bytes_of_a_clip_are_not_sent(self) -> None:
        frames = Frames(pixels=noise(1).pixels, encoded=file_of(noise(1).pixels[0], "PNG"))
        (uri,) = data_uris(Media("video", "x", 1), frames, NO_LIMITS)
        assert decode_uri(uri)[0] == "image/jpeg"
