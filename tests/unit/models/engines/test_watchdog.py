"""A stalled engine is given up wherever it hangs; a slow engine or a slow caller is not."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from models.engines.watchdog import WatchdogEngine, response_timeout
from models.errors import EngineStalledError
from models.messages import Answer, Call, CallReply, Frames, Media
from tests.support.calls import call

TIMEOUT_S = 1.0


class SlowEngine:
    """Answers `yes` to each call, after a pause for some; `close` ends the pauses."""

    warnings = ("it is slow",)
    has_own_timeout = False

    def __init__(self, pauses: Mapping[str, float]) -> None:
        self.pauses, self.closed = pauses, threading.Event()

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        for entry in calls:
            self.closed.wait(self.pauses.get(entry.call_id, 0.0))
            yield CallReply(call_id=entry.call_id, outcome=Answer(text="yes"))

    def close(self) -> None:
        self.closed.set()


@pytest.fixture(autouse=True)
def no_time_per_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.engines.watchdog.TOKEN_S", 0.0)


def test_watchdog_reports_stalled_engine_once() -> None:
    engine = SlowEngine({"b/0": 3600.0})
    errors: list[EngineStalledError] = []

    def on_stall(error: EngineStalledError) -> None:
        errors.append(error)
        engine.closed.set()

    watchdog = WatchdogEngine(engine, TIMEOUT_S, on_stall)
    replies = list(watchdog.generate([call("a/0", "?"), call("b/0", "?"), call("c/0", "?")], {}))
    watchdog.close()
    assert [reply.call_id for reply in replies] == ["a/0", "b/0", "c/0"]
    assert [str(error) for error in errors] == ["no answer within 1 s"]


def test_watchdog_ignores_the_time_of_a_slow_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    now, checks = [0.0], threading.Semaphore(0)
    monkeypatch.setattr("models.engines.watchdog.monotonic", lambda: now[0])
    monkeypatch.setattr("faulthandler.dump_traceback_later", lambda *_, **__: checks.release())

    def be_slow() -> None:
        now[0] += 1000 * TIMEOUT_S
        for _ in range(100):
            checks.acquire(blocking=False)  # of before
        for _ in range(3):
            assert checks.acquire(timeout=60), "a check, and a whole one"

    errors: list[EngineStalledError] = []
    watchdog = WatchdogEngine(SlowEngine({}), TIMEOUT_S, errors.append)
    for _ in watchdog.generate([call("a/0", "?")], {}):
        be_slow()
    be_slow()
    watchdog.close()
    assert not errors


def test_watchdog_passes_on_the_warnings_of_its_engine() -> None:
    watchdog = WatchdogEngine(SlowEngine({}), TIMEOUT_S, print)
    watchdog.close()
    assert watchdog.warnings == ("it is slow",)
    assert watchdog.has_own_timeout


def test_response_timeout_grows_with_the_tokens_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.engines.watchdog.TOKEN_S", 2.0)
    assert response_timeout(10.0, [call("a/0", "?")]) == 10.0 + 2.0 * call("a/0", "?").generation.max_new_tokens
    assert response_timeout(10.0, []) == 10.0


STUCK_IN_C = """
import ctypes, sys, time
from models.engines import watchdog
from tests.support.calls import call

class StuckEngine:
    warnings = ()
    def generate(self, calls, media):
        ctypes.PyDLL(None).sleep(600)  # keeps Python's lock: no other thread runs meanwhile
        yield
    def close(self): pass

watchdog.STUCK_S = 0.0
watchdog.TOKEN_S = 0.0
engine = watchdog.WatchdogEngine(StuckEngine(), 2.0, lambda error: sys.exit("a thread of Python ran"))
time.sleep(1.0)  # at least one check
list(engine.generate([call("a/0", "?")], {}))
"""

FAILING_CALLBACK = """
import time
from models.engines import watchdog
from tests.support.calls import call

class StuckEngine:
    warnings = ()
    def generate(self, calls, media):
        time.sleep(600)
        yield
    def close(self): pass

def on_stall(error):
    raise OSError("the tracker cannot be reached")

watchdog.STUCK_S = 0.0
watchdog.TOKEN_S = 0.0
list(watchdog.WatchdogEngine(StuckEngine(), 2.0, on_stall).generate([call("a/0", "?")], {}))
"""


def test_process_ends_where_code_keeps_the_lock_of_python() -> None:
    result = subprocess.run([sys.executable, "-c", STUCK_IN_C], capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert "Timeout" in result.stderr
    assert "in generate" in result.stderr, "the traceback shows where it was stuck"


def test_process_ends_where_the_callback_fails() -> None:
    result = subprocess.run([sys.executable, "-c", FAILING_CALLBACK], capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert "the tracker cannot be reached" in result.stderr
    assert "in generate" in result.stderr, "the traceback shows where it was stuck"
