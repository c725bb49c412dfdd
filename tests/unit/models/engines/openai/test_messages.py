from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from models.engines.openai.messages import chat_messages, data_uris
from models.entry_fields import Limits
from models.messages import Call, Frames, Generation, Media, Text, Turn, user
from tests.support.calls import CLIP, OTHER_PICTURE, PICTURE, noise

NO_LIMITS = Limits()


def make_call(*turns: Turn) -> Call:
    return Call(call_id="a/0", turns=turns, generation=Generation())


def decode_uri(uri: str) -> tuple[str, Image.Image]:
    kind, _, data = uri.removeprefix("data:").partition(";base64,")
    return kind, Image.open(io.BytesIO(base64.b64decode(data, validate=True)))


def file_of(pixels: np.ndarray, form: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


SENT = {PICTURE: ["p"], OTHER_PICTURE: ["o"], CLIP: ["c0", "c1"]}


class TestMessages:
    def content(self, *parts: Any) -> Any:
        (message,) = chat_messages(make_call(user(*parts)), SENT)
        assert message["role"] == "user"
        return message["content"]

    def test_text_alone_is_a_string(self) -> None:
        assert self.content("How ", "man", "y?") == "How many?"

    def test_pictures_come_first_in_the_order_of_the_parts(self) -> None:
        content = self.content("Look: ", CLIP, PICTURE, "which?", OTHER_PICTURE)
        assert [part["image_url"]["url"] for part in content[:-1]] == ["c0", "c1", "p", "o"]
        assert all(part["type"] == "image_url" for part in content[:-1])
        assert content[-1] == {"type": "text", "text": "Look: which?"}

    def test_texts_around_a_picture_are_joined_with_a_line_break(self) -> None:
        assert self.content("First:", PICTURE, "Second:", OTHER_PICTURE, "\nWhich?")[-1]["text"] == (
            "First:\nSecond:\nWhich?"
        )

    def test_picture_without_text(self) -> None:
        assert self.content(PICTURE) == [{"type": "image_url", "image_url": {"url": "p"}}]

    def test_repeated_picture_is_sent_twice(self) -> None:
        assert len(self.content(PICTURE, "and", PICTURE)) == 3

    def test_system_prompt_is_optional(self) -> None:
        call = make_call(user("Hi"))
        assert [message["role"] for message in chat_messages(call, {})] == ["user"]
        assert chat_messages(call, {}, "Be brief.")[0] == {"role": "system", "content": "Be brief."}

    def test_system_turn_of_the_call_follows_the_one_of_the_spec(self) -> None:
        call = make_call(Turn("system", (Text("You judge."),)), user("Hi"))
        assert chat_messages(call, {})[0]["content"] == "You judge."
        both = chat_messages(call, {}, "Be brief.")
        assert [message["role"] for message in both] == ["system", "user"]
        assert both[0]["content"] == "Be brief.\n\nYou judge."

    def test_turns_are_preserved(self) -> None:
        call = make_call(user(PICTURE, "Which?"), Turn("assistant", (Text("A"),)), user(OTHER_PICTURE, "And now?"))
        first, second, third = chat_messages(call, SENT)
        assert (first["role"], second, third["role"]) == (
            "user",
            {"role": "assistant", "content": "A"},
            "user",
        )
        assert third["content"][0]["image_url"]["url"] == "o"

    @settings(deadline=None)
    @given(st.text())
    def test_text_is_never_changed(self, words: str) -> None:
        (message,) = chat_messages(make_call(user(words)), {})
        assert message["content"] == words

    def test_half_a_surrogate_pair_is_replaced(self) -> None:
        (message,) = chat_messages(make_call(user("a\ud83db")), {})
        assert message["content"] == "a?b"


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
