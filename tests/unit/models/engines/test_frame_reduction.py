"""Fewer frames where a clip does not fit the context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from models.engines.frame_reduction import FrameReductionEngine
from models.messages import Answer, Call, CallReply, Failure, Frames, Generation, Media, user

CLIP, OTHER, PICTURE = Media("video", "a", 32), Media("video", "b", 32), Media("image", "p")


def clip(count: int) -> Frames:
    pixels = np.arange(count, dtype=np.uint8)[:, None, None, None].repeat(3, axis=3)
    return Frames(pixels=pixels, seconds=tuple(index / 2 for index in range(count)), fps=4.0, total_frames=2 * count)


MEDIA = {CLIP: clip(32), OTHER: clip(32), PICTURE: clip(1)}


class ContextEngine:
    """Takes ten tokens a frame, one a word and those of the answer, within `context` tokens."""

    warnings: tuple[str, ...] = ("slow",)
    has_own_timeout = True

    def __init__(self, context: int, raise_on: str = "") -> None:
        self.context, self.raise_on, self.seen, self.closed = context, raise_on, [], False

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        for call in calls:
            if call.call_id == self.raise_on:
                raise RuntimeError("device-side assert")
            frames = [media[medium] for medium in call.media]
            word_count = sum(
                len(part.text.split()) for turn in call.turns for part in turn.parts if hasattr(part, "text")
            )
            tokens = 10 * sum(len(item.pixels) for item in frames) + word_count
            self.seen.append((call.call_id, tuple(len(item.pixels) for item in frames)))
            too_long = tokens + call.generation.max_new_tokens > self.context
            outcome = Failure(type="context_length", message=str(tokens)) if too_long else Answer(text=call.call_id)
            yield CallReply(call_id=call.call_id, outcome=outcome)

    def close(self) -> None:
        self.closed = True


def call(name: str, *parts: str | Media, answer: int = 1) -> Call:
    """Make a call that may be answered with `answer` tokens."""
    return Call(call_id=name, turns=(user(*parts),), generation=Generation(max_new_tokens=answer))


def outcomes(engine: ContextEngine, *calls: Call) -> dict[str, int | str | None]:
    replies = list(FrameReductionEngine(engine).generate(calls, MEDIA))
    assert len({reply.call_id for reply in replies}) == len(replies) == len(calls)
    return {
        reply.call_id: reply.outcome.frames_used if isinstance(reply.outcome, Answer) else reply.outcome.type
        for reply in replies
    }


@pytest.mark.parametrize(
    ("context", "expected"), [(400, 32), (322, 32), (321, 24), (200, 16), (100, 8), (80, "context_length")]
)
def test_clip_is_shown_with_the_most_frames_that_fit(context: int, expected: int | str) -> None:
    assert outcomes(ContextEngine(context), call("x", CLIP, "word")) == {"x": expected}


def test_all_calls_about_a_clip_see_the_frames_of_the_longest_one() -> None:
    calls = [call("short", CLIP, "word"), call("long", CLIP, "word " * 40), call("other", OTHER, "word")]
    assert outcomes(ContextEngine(330), *calls) == {"short": 24, "long": 24, "other": 32}


def test_room_for_the_answer_is_that_of_the_task() -> None:
    letters = [call(name, CLIP, "word", answer=16) for name in "ab"]
    sentences = [call(name, CLIP, "word", answer=128) for name in "cd"]
    assert outcomes(ContextEngine(400), *letters, *sentences) == {"a": 32, "b": 32, "c": 24, "d": 24}


def test_calls_without_a_clip_pass_unchanged_and_at_once() -> None:
    engine = ContextEngine(5)
    reduced = FrameReductionEngine(engine)
    replies = reduced.generate([call("text", "one two"), call("long", "word " * 9), call("x", CLIP, "word")], MEDIA)
    assert next(replies).outcome == Answer(text="text")
    assert engine.seen == [("text", ())]
    assert isinstance(next(replies).outcome, Failure)


def test_picture_that_does_not_fit_fails_once() -> None:
    engine = ContextEngine(5)
    assert outcomes(engine, call("x", PICTURE, "word")) == {"x": "context_length"}
    assert len(engine.seen) == 1


def test_number_of_frames_is_kept_for_later_calls_about_the_clip() -> None:
    engine = ContextEngine(330)
    reduced = FrameReductionEngine(engine)
    list(reduced.generate([call("long", CLIP, "word " * 40)], MEDIA))
    (reply,) = reduced.generate([call("short", CLIP, "word")], MEDIA)
    assert reply.outcome == Answer(text="short", frames_used=24)
    assert engine.seen[-1] == ("short", (24,))


def test_frames_and_their_times_are_taken_uniformly_from_first_to_last() -> None:
    shown: dict[Media, Frames] = {}

    class Recorder(ContextEngine):
        def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
            shown.update({medium: media[medium] for entry in calls for medium in entry.media})
            return super().generate(calls, media)

    list(FrameReductionEngine(Recorder(100)).generate([call("x", CLIP, "word")], MEDIA))
    frames = shown[Media("video", "a", 8)]
    assert frames.pixels.ravel().tolist()[::3] == [0, 4, 8, 13, 17, 22, 26, 31]
    assert frames.seconds == (0.0, 2.0, 4.0, 6.5, 8.5, 11.0, 13.0, 15.5)
    assert (frames.fps, frames.total_frames) == (4.0, 64)
    assert set(shown) == {CLIP, *(Media("video", "a", count) for count in (24, 16, 8))}


def test_replies_before_an_exception_are_not_lost() -> None:
    reduced = FrameReductionEngine(ContextEngine(400, raise_on="bad"))
    replies = reduced.generate([call("good", CLIP, "word"), call("bad", CLIP, "word")], MEDIA)
    assert next(replies).outcome == Answer(text="good", frames_used=32)
    with pytest.raises(RuntimeError, match="assert"):
        next(replies)


def test_clips_that_can_be_shortened_are_left_to_the_caller_after_an_exception() -> None:
    engine = ContextEngine(330, raise_on="bad")
    reduced = FrameReductionEngine(engine)
    replies = reduced.generate([call("long", CLIP, "word " * 40), call("bad", OTHER, "word")], MEDIA)
    with pytest.raises(RuntimeError, match="assert"):
        next(replies)
    (reply,) = reduced.generate([call("long", CLIP, "word " * 40)], MEDIA)
    assert reply.outcome == Answer(text="long", frames_used=24)


def test_engine_is_described_and_closed_as_the_one_inside() -> None:
    engine = ContextEngine(1)
    reduced = FrameReductionEngine(engine)
    assert (reduced.warnings, reduced.has_own_timeout) == (("slow",), True)
    reduced.close()
    assert engine.closed
