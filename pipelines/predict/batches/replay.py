"""Answer the requests of a unit from results of batches, and collect the calls that have none yet."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from models.engines import wrap_engine
from models.engines.endpoints.engine import UNSCORED
from models.fingerprint import answer_fingerprint
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, prompt_sha256
from pipelines.hashing import stable_id
from pipelines.media.recent_frames import RecentFrames
from pipelines.plan.units import WorkUnit
from pipelines.predict.attempts import AttemptTracker
from pipelines.predict.records import AnsweredUnit, Receipt, ReplicaSpan, UnitWork
from pipelines.predict.unit_pipeline import UnitPipeline
from pipelines.predict.unit_runner import UnitRunner
from pipelines.schemas import prediction_table

Outcome: TypeAlias = Answer | Failure

REPLICA = "batch"
EARLY = "step-"  # begins the custom ids of early steps of conversations, which several requests may share
_PENDING = Failure(type="pending", message="not answered yet")
_DIGEST_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A unit as far as results go."""

    rows: list[dict[str, Any]]  # of all its requests; usable where nothing is missing
    missing: Mapping[str, Call]  # calls without a result, by custom id
    media: Mapping[Media, Frames]


class Replayer:
    """Replays units of a model through its pipeline; pixels are decoded only where a call is to be sent."""

    def __init__(self, work: UnitWork, decoding: Callable[[str, Call], str]) -> None:
        """`decoding` returns how the answer of a custom id to a call was decoded."""
        self._decoding = decoding
        self._spec, self._entry, self._began = work.spec, stable_id(answer_fingerprint(work.spec)), time.time()
        self._frames = _CountedFrames()
        self._pipeline = UnitPipeline(work, frames=self._frames)

    def replay(self, unit: WorkUnit, outcomes: Mapping[str, Outcome], *, with_pixels: bool) -> Replayed:
        """Answer a unit as an engine would that knows these outcomes, by custom id (StoreError)."""
        self._frames.with_pixels = with_pixels
        loaded = self._pipeline.load(unit)
        steps = {request.request_id: len(request.steps) for request in loaded.requests}
        engine = _ReplayEngine(self._entry, steps, outcomes, self._decoding)
        rows = UnitRunner(wrap_engine(engine, self._spec), AttemptTracker()).answer(loaded)
        return Replayed(rows=rows, missing=engine.missing, media={**loaded.media, **engine.media})

    def commit(self, unit: WorkUnit, replayed: Replayed, warnings: tuple[str, ...]) -> Receipt:
        """Commit a unit of which nothing is missing, as `UnitPipeline.commit`; `warnings` are of its model."""
        span = ReplicaSpan(REPLICA, self._began, time.time())
        rows = prediction_table(replayed.rows)
        return self._pipeline.commit(AnsweredUnit(unit=unit, rows=rows, span=span, warnings=warnings))

    def close(self) -> None:
        """End the decoder's process."""
        self._pipeline.close()


class _ReplayEngine:
    """Answers calls by their outcomes, and those without one with a failure that is never committed."""

    warnings: tuple[str, ...] = ()
    has_own_timeout = True

    def __init__(
        self,
        entry: str,
        steps: Mapping[str, int],
        outcomes: Mapping[str, Outcome],
        decoding: Callable[[str, Call], str],
    ) -> None:
        self._entry, self._steps, self._outcomes, self._decoding = entry, steps, outcomes, decoding
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
                outcome = replace(outcome, decoding=self._decoding(custom_id, call))
            yield CallReply(call_id=call.call_id, outcome=outcome)

    def close(self) -> None:
        """Do nothing."""

    def _custom_id(self, call: Call) -> str:
        """Return a name that is equal for equal calls: early steps by content, last ones by request too."""
        content = prompt_sha256([call])
        digest = stable_id({"entry": self._entry, "prompt": content, "generation": asdict(call.generation)})
        request_id, _, index = call.call_id.rpartition("/")
        if int(index) + 1 < self._steps[request_id]:
            return f"{EARLY}{digest}"
        return f"{request_id}-{index}-{digest[:_DIGEST_DIGITS]}"


class _CountedFrames:
    """Frames of media; without pixels, of each clip only how many there are, once it was decoded here."""

    def __init__(self) -> None:
        self.with_pixels = True
        self._cache = RecentFrames()
        self._counts: dict[str, int] = {}

    def fetch(self, key: str, decode: Callable[[], Frames]) -> Frames:
        """Return the frames of a key, as `FrameSource.fetch`."""
        count = 1 if key.startswith("image:") else self._counts.get(key)
        if count is not None and not self.with_pixels:
            return Frames(pixels=np.zeros((count, 1, 1, 3), np.uint8))
        frames = self._cache.fetch(key, decode)
        self._counts[key] = len(frames.pixels)
        return frames
