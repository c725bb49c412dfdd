"""Units of work for tests, a record of attempts, and a scripted engine."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from models.errors import EngineUnreachableError
from models.messages import Answer, Call, CallReply, Frames, Media, Request
from pipelines.ingest.dataset import Dataset
from pipelines.plan.plan_store import PlanStore
from pipelines.plan.planner import plan_model
from pipelines.plan.records import CompletedRequests
from pipelines.plan.requests import ModelTarget
from pipelines.plan.selection import Limit, SampleSelection
from pipelines.plan.units import WorkUnit
from pipelines.predict.records import AnsweredUnit
from pipelines.predict.serialization import pack_answers, unpack_answers
from pipelines.schemas import prediction_table
from pipelines.storage.store import Store


def units_of(maia_data: str, target: ModelTarget, out: str, limit: str = "2") -> list[WorkUnit]:
    """Return units of the first samples, their plan written to an output."""
    dataset = Dataset.open(Store(maia_data), "maia")
    plan = PlanStore(Store(out)).write(dataset, target.prompts, SampleSelection(Limit.parse(limit)))
    return plan_model(plan, target, CompletedRequests()).units


class RecordingAttempts:
    """Records attempts as `AttemptTracker` does."""

    def __init__(self, attempt: int = 1, blamed: Mapping[str, str] | None = None) -> None:
        self.attempt, self.blamed, self.single = attempt, blamed or {}, []
        self.stalled: list[str] = []
        self.forgiven: list[str] = []
        self.answered_rows = 0

    def begin(self, unit: str) -> tuple[int, Mapping[str, str]]:
        return self.attempt, self.blamed

    def record_rows(self, unit: str, rows: int) -> None:
        self.answered_rows = rows

    def begin_single(self, unit: str, request_id: str) -> None:
        self.single.append(request_id)

    def end_single(self, unit: str, request_id: str) -> None:
        assert self.single[-1] == request_id

    def forgive(self, unit: str, request_id: str) -> None:
        self.forgiven.append(request_id)

    def record_stall(self, unit: str, request_id: str) -> None:
        self.stalled.append(request_id)


class ScriptedEngine:
    """An engine that answers A and fails as its arguments say."""

    warnings: tuple[str, ...] = ()
    has_own_timeout = False

    def __init__(self, *, raise_on: str = "", drop: bool = False, unreachable: bool = False) -> None:
        self.raise_on, self.drop, self.unreachable, self.batches = raise_on, drop, unreachable, []

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        self.batches.append(len(calls))
        if self.unreachable:
            raise EngineUnreachableError("the endpoint is down")
        for i, call in enumerate(calls):
            assert all(medium in media for medium in call.media)
            if self.raise_on and self.raise_on in str(call.turns):
                raise RuntimeError("device-side assert")
            if not (self.drop and i == 0):
                yield CallReply(call_id=call.call_id, outcome=Answer(text="A"))

    def close(self) -> None:
        pass


def words_of(request: Request) -> str:
    return request.steps[0].turns[0].parts[1].text


def carried(unit: WorkUnit, rows: list[dict[str, Any]]) -> AnsweredUnit:
    (answered,) = unpack_answers(pack_answers([AnsweredUnit(unit=unit, rows=prediction_table(rows))]))
    return answered
