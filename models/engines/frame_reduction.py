"""Show a clip that does not fit a model's context with fewer frames: 24, 16, then 8 (MAIA, decision D11)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from models.engines.base import Engine, EngineWrapper
from models.media_sampling import uniform_indices
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Turn

log = logging.getLogger(__name__)

REDUCED_FRAMES = (24, 16, 8)

_Clips: TypeAlias = tuple[Media, ...]  # of one call, in order of appearance
_Group: TypeAlias = tuple[_Clips, int]  # clips, and the tokens that answers may take: those of one task


class FrameReductionEngine(EngineWrapper):
    """Forwards calls to an engine. Where one about a clip does not fit the context, all like it see fewer frames.

    Those are the calls about the clip that leave equally many tokens for an answer: a task that needs a letter keeps
    the frames that one with long answers has no room for. Their replies are held back until all are there, so that none
    saw another number of frames, which is kept for later calls. Frames are taken uniformly from those decoded.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._limits: dict[_Group, int] = {}

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call; `Answer.frames_used` says how many frames of its longest clip it saw."""
        groups = {call.call_id: (_clips(call, media), call.generation.max_new_tokens) for call in calls}
        pending = {call.call_id: call for call in calls}
        while pending:
            replies_by_group: dict[_Group, list[CallReply]] = {}
            try:
                for reply in self._forward(list(pending.values()), groups, media):
                    group = groups.get(reply.call_id)
                    if group is not None and group[0]:
                        replies_by_group.setdefault(group, []).append(reply)
                    else:
                        yield reply
            except Exception:
                self._take_reduced(replies_by_group, media)  # the caller sends them again, then with fewer frames
                yield from self._finished(replies_by_group, media)
                raise
            retried = self._take_reduced(replies_by_group, media)
            yield from self._finished(replies_by_group, media)
            pending = {reply.call_id: pending[reply.call_id] for replies in retried.values() for reply in replies}

    def _take_reduced(
        self, replies_by_group: dict[_Group, list[CallReply]], media: Mapping[Media, Frames]
    ) -> dict[_Group, list[CallReply]]:
        """Remove and return the groups with a request that exceeds the context and that can have fewer frames."""
        exceeding = [group for group, replies in replies_by_group.items() if any(map(_exceeds_context, replies))]
        return {group: replies_by_group.pop(group) for group in exceeding if self._reduce(group, media)}

    def _forward(
        self, calls: Sequence[Call], groups: Mapping[str, _Group], media: Mapping[Media, Frames]
    ) -> Iterator[CallReply]:
        shorter: dict[Media, Frames] = {}
        reduced_calls = []
        for call in calls:
            group = groups[call.call_id]
            limit = self._limits.get(group)
            names = (
                {clip: replace(clip, frames=min(limit, len(media[clip].pixels))) for clip in group[0]} if limit else {}
            )
            shorter |= {
                name: _subsampled(media[clip], name.frames) for clip, name in names.items() if name not in shorter
            }
            reduced_calls.append(_renamed(call, names) if names else call)
        return self.engine.generate(reduced_calls, {**media, **shorter} if shorter else media)

    def _finished(
        self, replies_by_group: Mapping[_Group, Sequence[CallReply]], media: Mapping[Media, Frames]
    ) -> Iterator[CallReply]:
        for group, replies in replies_by_group.items():
            frames = self._frame_count(group, media)
            for reply in replies:
                if isinstance(reply.outcome, Answer):
                    yield replace(reply, outcome=replace(reply.outcome, frames_used=frames))
                else:
                    yield reply

    def _reduce(self, group: _Group, media: Mapping[Media, Frames]) -> bool:
        """Reduce the frames of a group's clips by one step; return whether there was one."""
        frame_count = self._frame_count(group, media)
        fewer = next((count for count in REDUCED_FRAMES if count < frame_count), None)
        if fewer is None:
            return False
        log.info(
            "a clip exceeds the context with %d frames; requests about it with equal limits get %d", frame_count, fewer
        )
        self._limits[group] = fewer
        return True

    def _frame_count(self, group: _Group, media: Mapping[Media, Frames]) -> int:
        longest = max(len(media[clip].pixels) for clip in group[0])
        return min(longest, self._limits.get(group, longest))


def _clips(call: Call, media: Mapping[Media, Frames]) -> _Clips:
    """Return the clips of a call; those that were not decoded, for a model that sees none, do not count."""
    return tuple(dict.fromkeys(medium for medium in call.media if medium.kind == "video" and medium in media))


def _subsampled(frames: Frames, count: int) -> Frames:
    indices = uniform_indices(len(frames.pixels), count)
    has_times = len(frames.seconds) == len(frames.pixels)
    seconds = tuple(frames.seconds[index] for index in indices) if has_times else frames.seconds
    return replace(frames, pixels=frames.pixels[indices], seconds=seconds)


def _renamed(call: Call, names: Mapping[Media, Media]) -> Call:
    """Return the call about the shorter clips: engines keep what they computed of a clip by its name."""
    turns = (
        Turn(turn.role, tuple(names.get(part, part) if isinstance(part, Media) else part for part in turn.parts))
        for turn in call.turns
    )
    return replace(call, turns=tuple(turns))


def _exceeds_context(reply: CallReply) -> bool:
    return isinstance(reply.outcome, Failure) and reply.outcome.type == "context_length"
