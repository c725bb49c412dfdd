"""An engine that falls silent is given up, whatever it is stuck in; one that is slow, or whose caller is, is not."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from models.engines.watchdog import WatchdogEngine, response_timeout
from models.errors import EngineStalledError
from models.messages import Answer, Call, CallReply, Frames, Media
from tests.support.calls import call

PATIENCE_S = 1.0


class Script:
    """Says yes to each call, after a pause for some; closed, it wakes."""

    def __init__(self, pauses: Mapping[str, float]) -> None:
        self.pauses, self.closed = pauses, threading.Event()

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        for one in calls:
            self.closed.wait(self.pauses.get(one.call_id, 0.0))
            yield CallReply(call_id=one.call_id, outcome=Answer(text="yes"))

    def close(self) -> None:
        self.closed.set()


@pytest.fixture(autouse=True)
def tokens_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.engines.watchdog.TOKEN_S", 0.0)


def test_a_silent_one_is_told_of_once_while_it_is_still_stuck() -> None:
    engine = Script({"b/0": 3600.0})
    told: list[EngineStalledError] = []

    def stalled(error: EngineStalledError) -> None:
        told.append(error)
        engine.closed.set()

    patient = WatchdogEngine(engine, PATIENCE_S, stalled)
    replies = list(patient.generate([call("a/0", "?"), call("b/0", "?"), call("c/0", "?")], {}))
    patient.close()
    assert [reply.call_id for reply in replies] == ["a/0", "b/0", "c/0"]
    assert [str(error) for error in told] == ["no answer within 1 s"]


def test_a_slow_caller_is_not_the_engine_s_silence() -> None:
    told: list[EngineStalledError] = []
    patient = WatchdogEngine(Script({}), PATIENCE_S, told.append)
    for _ in patient.generate([call("a/0", "?")], {}):
        time.sleep(1.5 * PATIENCE_S)
    time.sleep(1.5 * PATIENCE_S)
    patient.close()
    assert not told


def test_longer_answers_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.engines.watchdog.TOKEN_S", 2.0)
    assert response_timeout(10.0, [call("a/0", "?")]) == 10.0 + 2.0 * call("a/0", "?").generation.max_new_tokens
    assert response_timeout(10.0, []) == 10.0


HOLDS_PYTHON = """
import ctypes, sys
import models.engines.watchdog as patient
from tests.support.calls import call

class Stuck:
    def generate(self, calls, media):
        ctypes.PyDLL(None).sleep(600)  # keeps Python's lock: no other thread runs meanwhile
        yield
    def close(self): pass

patient.STUCK_S = 0.0
patient.TOKEN_S = 0.0
one = patient.PatientEngine(Stuck(), 2.0, lambda error: sys.exit("a thread of Python ran"))
import time; time.sleep(1.0)  # at least one look
list(one.generate([call("a/0", "?")], {}))
"""

NOBODY_LISTENS = """
import time
import models.engines.watchdog as patient
from tests.support.calls import call

class Stuck:
    def generate(self, calls, media):
        time.sleep(600)
        yield
    def close(self): pass

def stalled(error):
    raise OSError("the ledger cannot be reached")

patient.STUCK_S = 0.0
patient.TOKEN_S = 0.0
list(patient.PatientEngine(Stuck(), 2.0, stalled).generate([call("a/0", "?")], {}))
"""


def test_code_that_keeps_python_s_lock_ends_the_process_too() -> None:
    done = subprocess.run([sys.executable, "-c", HOLDS_PYTHON], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in generate" in done.stderr, "where it was stuck is told"


def test_the_process_ends_also_where_whoever_is_told_fails() -> None:
    done = subprocess.run([sys.executable, "-c", NOBODY_LISTENS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "the ledger cannot be reached" in done.stderr
    assert "in generate" in done.stderr, "where it was stuck is told"
