"""Show a clip that does not fit a model's context with fewer frames: 24, 16, then 8 (MAIA, decision D11)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from models.engines.base import Engine
from models.media_sampling import uniform_indices
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Turn

log = logging.getLogger(__name__)

REDUCED_FRAMES = (24, 16, 8)

_Clips: TypeAlias = tuple[Media, ...]  # of one call, in order of appearance


class FrameReductionEngine:
    """Forwards calls to an engine. Where one about a clip does not fit the context, all about it see fewer frames.

    Replies about clips are held back until all of a clip are there, so that none of them saw another number of frames.
    A clip's number of frames is kept for later calls. Frames are taken uniformly from those that were decoded.
    """

    def __init__(self, engine: Engine) -> None:
        self.warnings = engine.warnings
        self.has_own_timeout = engine.has_own_timeout
        self._engine = engine
        self._limits: dict[_Clips, int] = {}

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call; `Answer.frames_used` says how many frames of its longest clip it saw."""
        clips_of = {call.call_id: _clips(call, media) for call in calls}
        pending = {call.call_id: call for call in calls}
        while pending:
            held: dict[_Clips, list[CallReply]] = {}
            try:
                for reply in self._forward(list(pending.values()), clips_of, media):
                    if clips := clips_of.get(reply.call_id):
                        held.setdefault(clips, []).append(reply)
                    else:
                        yield reply
            except Exception:
                yield from self._finished(held, media)
                raise
            exceeding = [clips for clips, replies in held.items() if any(map(_exceeds_context, replies))]
            again = {clips: held.pop(clips) for clips in exceeding if self._reduce(clips, media)}
            yield from self._finished(held, media)
            pending = {reply.call_id: pending[reply.call_id] for replies in again.values() for reply in replies}

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    def _forward(
        self, calls: Sequence[Call], clips_of: Mapping[str, _Clips], media: Mapping[Media, Frames]
    ) -> Iterator[CallReply]:
        shorter: dict[Media, Frames] = {}
        shown = []
        for call in calls:
            clips = clips_of[call.call_id]
            limit = self._limits.get(clips)
            names = {clip: replace(clip, frames=min(limit, len(media[clip].pixels))) for clip in clips} if limit else {}
            shorter |= {name: _thinned(media[clip], name.frames) for clip, name in names.items() if name not in shorter}
            shown.append(_renamed(call, names) if names else call)
        return self._engine.generate(shown, {**media, **shorter} if shorter else media)

    def _finished(
        self, held: Mapping[_Clips, Sequence[CallReply]], media: Mapping[Media, Frames]
    ) -> Iterator[CallReply]:
        for clips, replies in held.items():
            frames = self._shown(clips, media)
            yield from (_with_frames(reply, frames) for reply in replies)

    def _reduce(self, clips: _Clips, media: Mapping[Media, Frames]) -> bool:
        """Reduce the frames of clips by one step; return whether there was one."""
        shown = self._shown(clips, media)
        fewer = next((count for count in REDUCED_FRAMES if count < shown), None)
        if fewer is None:
            return False
        log.info("a clip exceeds the context with %d frames; all requests about it get %d", shown, fewer)
        self._limits[clips] = fewer
        return True

    def _shown(self, clips: _Clips, media: Mapping[Media, Frames]) -> int:
        longest = max(len(media[clip].pixels) for clip in clips)
        return min(longest, self._limits.get(clips, longest))


def _clips(call: Call, media: Mapping[Media, Frames]) -> _Clips:
    """Return the clips of a call; those that were not decoded, for a model that sees none, do not count."""
    return tuple(dict.fromkeys(medium for medium in call.media if medium.kind == "video" and medium in media))


def _thinned(frames: Frames, count: int) -> Frames:
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


def _with_frames(reply: CallReply, frames: int) -> CallReply:
    if not isinstance(reply.outcome, Answer):
        return reply
    return replace(reply, outcome=replace(reply.outcome, frames_used=frames))
