"""Answer the requests of a unit from results of batches, and collect the calls that have none yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from models.engines import with_reasoning
from models.engines.conversation import answer_requests
from models.engines.frame_reduction import FrameReductionEngine
from models.engines.openai.messages import UNSCORED
from models.fingerprint import answer_fingerprint
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Step, decoding_name, prompt_sha256
from models.spec import ModelSpec
from pipelines.hashing import stable_id
from pipelines.media.frame_cache import FrameSource, LocalFrameCache
from pipelines.plan.units import WorkUnit
from pipelines.predict.loader import Loaded
from pipelines.schemas import prediction_row
from pipelines.storage.retry import retry_store

Outcome: TypeAlias = Answer | Failure

EARLY = "step-"
"""Begins the custom ids of early steps of conversations, which several requests may share."""
_PENDING = Failure(type="pending", message="not answered yet")
_DIGEST_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A unit as far as results go."""

    rows: list[dict[str, Any]]
    """Of all its requests; usable where nothing is missing."""
    missing: Mapping[str, Call]
    """Calls without a result, by custom id."""
    media: Mapping[Media, Frames]


class UnitLoader(Protocol):
    """Loads a unit, as `pipelines.predict.loader.Loader`."""

    def load(self, unit: WorkUnit, exclusive_groups: Collection[str] = ()) -> Loaded:
        """Return the requests of a unit and their media."""
        ...

    def close(self) -> None:
        """End the processes that decode."""
        ...


class Replayer:
    """Replays units of a model; pixels are decoded only where a call is to be sent."""

    def __init__(self, spec: ModelSpec, build_loader: Callable[[FrameSource], UnitLoader]) -> None:
        self._spec, self._entry = spec, stable_id(answer_fingerprint(spec))
        self._frames = _CountedFrames()
        self._loader = build_loader(self._frames)

    def replay(self, unit: WorkUnit, outcomes: Mapping[str, Outcome], *, with_pixels: bool) -> Replayed:
        """Answer a unit as an engine would that knows these outcomes, by custom id (StoreError)."""
        self._frames.with_pixels = with_pixels
        loaded: Loaded = retry_store(lambda: self._loader.load(unit))
        steps = {request.request_id: len(request.steps) for request in loaded.requests}
        engine = _ReplayEngine(self._entry, steps, outcomes)
        answering = FrameReductionEngine(with_reasoning(engine, self._spec))
        replies = answer_requests(answering, loaded.requests, loaded.media)
        rows = [prediction_row(loaded.columns[reply.request_id], reply) for reply in replies]
        return Replayed(rows=[*loaded.ready, *rows], missing=engine.missing, media={**loaded.media, **engine.media})

    def close(self) -> None:
        """End the decoder's process."""
        self._loader.close()


class _ReplayEngine:
    """Answers calls by their outcomes, and those without one with a failure that is never committed."""

    warnings: tuple[str, ...] = ()
    has_own_timeout = True

    def __init__(self, entry: str, steps: Mapping[str, int], outcomes: Mapping[str, Outcome]) -> None:
        self._entry, self._steps, self._outcomes = entry, steps, outcomes
        self.missing: dict[str, Call] = {}
        self.media: dict[Media, Frames] = {}

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield a reply for each call."""
        self.media |= media  # clips with fewer frames among them
        for call in calls:
            custom_id = self._custom_id(call)
            outcome = UNSCORED if call.scored else self._outcomes.get(custom_id)
            if outcome is None:
                self.missing[custom_id] = call
                outcome = _PENDING
            elif isinstance(outcome, Answer):
                outcome = replace(outcome, decoding=decoding_name(call.generation, beams=False))
            yield CallReply(call_id=call.call_id, outcome=outcome)

    def close(self) -> None:
        """Do nothing."""

    def _custom_id(self, call: Call) -> str:
        """Return a name that is equal for equal calls: early steps by content, last ones by request too."""
        content = prompt_sha256([Step(turns=call.turns, generation=call.generation)])
        digest = stable_id({"entry": self._entry, "prompt": content, "generation": asdict(call.generation)})
        request_id, _, index = call.call_id.rpartition("/")
        if int(index) + 1 < self._steps[request_id]:
            return f"{EARLY}{digest}"
        return f"{request_id}-{index}-{digest[:_DIGEST_DIGITS]}"


class _CountedFrames:
    """Frames of media; without pixels, of each clip only how many there are, once it was decoded here."""

    def __init__(self) -> None:
        self.with_pixels = True
        self._cache = LocalFrameCache()
        self._counts: dict[str, int] = {}

    def fetch(self, key: str, decode: Callable[[], Frames], *, shared: bool = True) -> Frames:
        """Return the frames of a key, as `FrameSource.fetch`."""
        count = 1 if key.startswith("image:") else self._counts.get(key)
        if count is not None and not self.with_pixels:
            return Frames(pixels=np.zeros((count, 1, 1, 3), np.uint8))
        frames = self._cache.fetch(key, decode, shared=shared)
        self._counts[key] = len(frames.pixels)
        return frames
