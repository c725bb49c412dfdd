"""The engine that tests register misbehaves as its entry says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from models.engines.conversation import answer_requests
from models.errors import EngineContractError
from models.messages import Answer, Call, Failure, Request, Step, user
from models.spec import ModelSpec
from tests.support.calls import PICTURE, call
from tests.support.scripted_engine import ScriptedEngine, ScriptedEntry, scripted

MANY = [call(f"{index}/0", "A or B?", choices=("A", "B", "B", "B")) for index in range(4000)]


class DiedError(Exception):
    """Replaces the end of the process."""


def die() -> None:
    raise DiedError


def build(slept: list[float] | None = None, **faults: object) -> ScriptedEngine:
    return ScriptedEngine(scripted(**faults), sleep=(slept if slept is not None else []).append, die=die)


def outcomes_of(engine: ScriptedEngine, calls: list[Call]) -> dict[str, Answer | Failure]:
    return {reply.call_id: reply.outcome for reply in engine.generate(calls, {})}


def test_engine_of_an_entry_point_is_an_engine_of_models_files() -> None:
    entry = ModelSpec.model_validate({"engine": "scripted", "fault_injection": {"call_s": 1}})
    assert isinstance(entry, ScriptedEntry)
    assert not entry.needs_no_isolation


def test_fail_share_is_drawn_by_id() -> None:
    outcomes = outcomes_of(build(fail_share=0.1), MANY)
    failed = {name for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
    assert abs(len(failed) - 400) < 76  # four standard deviations
    again = outcomes_of(build(fail_share=0.1), MANY[::-1])
    assert failed == {name for name, outcome in again.items() if isinstance(outcome, Failure)}


def test_fail_share_of_all() -> None:
    assert all(isinstance(outcome, Failure) for outcome in outcomes_of(build(fail_share=1.0), MANY[:50]).values())


def test_fail_ids_are_request_ids() -> None:
    calls = [call("a/0", "?"), call("a/1", "?"), call("ab/0", "?"), call("x/y/0", "?"), call("plain", "?")]
    outcomes = outcomes_of(build(fail_ids=("a", "x/y", "plain")), calls)
    assert [name for name, outcome in outcomes.items() if isinstance(outcome, Failure)] == [
        "a/0",
        "a/1",
        "x/y/0",
        "plain",
    ]


@pytest.mark.parametrize("after", [0, 3, 5])
def test_die_after(after: int) -> None:
    engine = build(die_after=after)
    answered: list[str] = []

    def ask() -> None:
        for group in (MANY[:4], MANY[4:8]):
            answered.extend(reply.call_id for reply in engine.generate(group, {}))

    with pytest.raises(DiedError):
        ask()
    assert len(answered) == after


def test_die_after_the_last_call_does_not_exit() -> None:
    assert len(outcomes_of(build(die_after=4), MANY[:4])) == 4


def test_die_on() -> None:
    engine = build(die_on="poison")
    assert set(outcomes_of(engine, [call("a/0", "harmless")])) == {"a/0"}
    with pytest.raises(DiedError):
        outcomes_of(engine, [call("b/0", PICTURE, "some poison here")])


def test_exit_is_a_kill() -> None:
    code = (
        "from tests.support.scripted_engine import ScriptedEngine, scripted\n"
        "from tests.support.calls import call\n"
        "import atexit\n"
        "atexit.register(print, 'a handler ran', flush=True)\n"
        "engine = ScriptedEngine(scripted(die_after=1))\n"
        "for reply in engine.generate([call('a/0', '?'), call('b/0', '?')], {}):\n"
        "    print(reply.call_id, flush=True)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert run.stdout == "a/0\n"
    assert run.returncode == -9, run.stderr


def test_stall_applies_once_per_nonempty_group() -> None:
    slept: list[float] = []
    engine = build(slept=slept, stall_s=2.0)
    for group in (MANY[:3], [], MANY[3:5]):
        outcomes_of(engine, group)
    assert slept == [2.0, 2.0]


def test_call_s_applies_to_every_call() -> None:
    slept: list[float] = []
    outcomes_of(build(slept=slept, call_s=0.25), MANY[:3])
    assert slept == [0.25, 0.25, 0.25]


def test_reverse() -> None:
    assert list(outcomes_of(build(reverse=True), MANY[:3])) == ["2/0", "1/0", "0/0"]


def test_drop_every_counts_over_groups() -> None:
    engine = build(drop_every=3)
    assert list(outcomes_of(engine, MANY[:4])) == ["0/0", "1/0", "3/0"]
    assert list(outcomes_of(engine, MANY[4:8])) == ["4/0", "6/0", "7/0"]


def test_dropped_call_violates_the_contract() -> None:
    requests = [Request(request_id=str(index), steps=(Step(turns=(user("?"),)),)) for index in range(3)]
    with pytest.raises(EngineContractError, match="1 of 3"):
        list(answer_requests(build(drop_every=2), requests, {}))
