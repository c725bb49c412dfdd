"""Answering without a cluster, with failing engines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from models.errors import DeviceFailedError, EngineDiedError, EngineStalledError, EngineUnreachableError
from models.messages import Answer, Call, CallReply, Frames, Media
from pipelines.logging_context import current_context
from pipelines.predict.loader import Loaded
from pipelines.predict.records import AnsweredUnit, Receipt, TokenCounts
from pipelines.predict.serialization import pack_answers, pack_receipts, unpack_answers, unpack_receipts
from pipelines.predict.unit_runner import UnitRunner
from pipelines.schemas import prediction_table
from tests.support.units import RecordingAttempts, ScriptedEngine, carried, words_of


def statuses(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {status: sum(row["status"] == status for row in rows) for status in {row["status"] for row in rows}}


def test_each_row_is_answered_once_in_one_batch_a_unit(loaded: list[Loaded]) -> None:
    engine = ScriptedEngine()
    for unit in loaded:
        rows = UnitRunner(engine, RecordingAttempts()).answer(unit)
        assert sorted(row["request_id"] for row in rows) == sorted(unit.columns)
        assert statuses(rows) == {"ok": len(unit.requests)}
    assert engine.batches == [len(unit.requests) for unit in loaded]


def test_runner_records_answered_rows_of_a_unit(loaded: list[Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.predict.unit_runner.REPORT_EVERY_S", -1.0)
    attempts, unit = RecordingAttempts(), loaded[0]
    UnitRunner(ScriptedEngine(), attempts).answer(unit)
    assert attempts.answered_rows == len(unit.requests)


def test_exception_fails_only_the_rows_that_cause_it(loaded: list[Loaded]) -> None:
    unit = loaded[0]
    poison = words_of(unit.requests[5])
    rows = UnitRunner(ScriptedEngine(raise_on=repr(poison)[1:-1]), RecordingAttempts()).answer(unit)
    bad = [row for row in rows if row["status"] == "error"]
    assert {row["request_id"] for row in bad} == {r.request_id for r in unit.requests if words_of(r) == poison}
    assert 0 < len(bad) < len(rows) == len(unit.requests)
    assert {row["error_type"] for row in bad} == {"RuntimeError"}
    assert {row.get("output") for row in bad} == {None}


def test_dropped_call_is_an_error_and_an_unreachable_endpoint_none(loaded: list[Loaded]) -> None:
    rows = UnitRunner(ScriptedEngine(drop=True), RecordingAttempts()).answer(loaded[0])
    assert statuses(rows) == {"ok": len(loaded[0].requests) - 1, "error": 1}
    assert {row["error_type"] for row in rows if row["status"] == "error"} == {"engine_contract"}
    with pytest.raises(EngineUnreachableError):
        UnitRunner(ScriptedEngine(unreachable=True), RecordingAttempts()).answer(loaded[0])


def test_requests_are_sent_one_by_one_after_a_death_or_stall_without_the_blamed_one(loaded: list[Loaded]) -> None:
    engine, unit = ScriptedEngine(), loaded[0]
    killer = unit.requests[0].request_id
    attempts = RecordingAttempts(attempt=3, blamed={killer: "engine_died"})
    rows = UnitRunner(engine, attempts).answer(unit)
    assert set(engine.batches) == {1}
    assert len(attempts.single) == len(unit.requests) - 1
    assert [row["error_type"] for row in rows if row["request_id"] == killer] == ["engine_died"]
    assert statuses(rows) == {"ok": len(unit.requests) - 1, "error": 1}
    unit = loaded[0]
    silent = unit.requests[0].request_id
    rows = UnitRunner(ScriptedEngine(), RecordingAttempts(attempt=3, blamed={silent: "timeout"})).answer(unit)
    (row,) = [row for row in rows if row["status"] == "error"]
    assert (row["request_id"], row["error_type"]) == (silent, "timeout")
    assert "stall_timeout_s" in row["error"]


class DyingEngine(ScriptedEngine):
    """An engine whose processes die under one request."""

    def __init__(self, on: str, error: type[EngineDiedError]) -> None:
        super().__init__()
        self.on, self.error = on, error

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        for call in calls:
            if call.call_id.startswith(self.on):
                raise self.error("rank 1 of 2")
            yield CallReply(call_id=call.call_id, outcome=Answer(text="A"))


@pytest.mark.parametrize(
    ("error", "is_forgiven", "is_stall"),
    [(EngineDiedError, True, False), (DeviceFailedError, False, False), (EngineStalledError, False, True)],
)
def test_death_of_a_rank_alone_is_forgiven(
    loaded: list[Loaded], error: type[EngineDiedError], is_forgiven: bool, is_stall: bool
) -> None:
    victim = loaded[0].requests[3].request_id
    for attempts, blamed in ((RecordingAttempts(), ""), (RecordingAttempts(attempt=2), victim)):
        with pytest.raises(error):
            UnitRunner(DyingEngine(victim, error), attempts).answer(loaded[0])
        assert (attempts.forgiven, attempts.stalled) == ([blamed] * is_forgiven, [blamed] * is_stall)


def test_answered_units_survive_packing(loaded: list[Loaded]) -> None:
    answers = [
        AnsweredUnit(
            unit=unit.unit, rows=prediction_table(UnitRunner(ScriptedEngine(), RecordingAttempts()).answer(unit))
        )
        for unit in loaded
    ]
    answers += [
        AnsweredUnit(unit=loaded[0].unit, fatal="gone"),
        AnsweredUnit(unit=loaded[0].unit, is_committed=True, warnings=("slow",)),
    ]
    assert list(unpack_answers(pack_answers(answers))) == answers


def test_receipts_survive_packing() -> None:
    rows = {("vsv", "1-frame", "ok"): 3, ("vsv", "1-frame", "error"): 1}
    receipts = [
        Receipt(
            part="p", counts=rows, replica="r", began=1.0, ended=2.5, tokens=TokenCounts(7, 2, cached=1),
            warnings=("slow",), failed=(("a", "x"),),
        ),
        Receipt(part="", counts={}, fatal="the model is gone", cost_limit_reached=True),
    ]  # fmt: skip
    (row,) = pack_receipts(receipts).to_pylist()
    assert unpack_receipts(row) == receipts


def test_rows_hold_any_text_of_a_model(loaded: list[Loaded]) -> None:
    class SurrogateEngine(ScriptedEngine):
        def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
            for call in calls:
                yield CallReply(call_id=call.call_id, outcome=Answer(text="half \ud800 pair \x00 🙂"))

    unit = loaded[0]
    table = carried(unit.unit, UnitRunner(SurrogateEngine(), RecordingAttempts()).answer(unit)).rows
    assert set(table["output"].to_pylist()) == {"half ? pair \x00 🙂"}


class LoggingEngine(ScriptedEngine):
    """An engine that records the request in its log context."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[tuple[int, str]] = []

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        self.logged.append((len(calls), current_context().get("request_id", "")))
        yield from super().generate(calls, media)


def test_log_lines_name_the_request_that_is_sent_by_itself(loaded: list[Loaded]) -> None:
    unit, together, alone = loaded[0], LoggingEngine(), LoggingEngine()
    UnitRunner(together, RecordingAttempts()).answer(unit)
    assert {name for _, name in together.logged} == {""}
    UnitRunner(alone, RecordingAttempts(attempt=2)).answer(unit)
    assert {name for _, name in alone.logged} == {request.request_id for request in unit.requests}
    assert current_context() == {}
