"""Metrics and log context of a run: counts, seconds, and the fields of log lines."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

from jobs.shared.output import log_as_json
from jobs.shared.progress import Progress
from pipelines.logging_context import current_context, log_context, logs_are_json
from pipelines.predict import metrics
from pipelines.predict.metrics import count_answering, count_commit, count_loading, count_waiting
from pipelines.predict.records import Receipt, TokenCounts


class RecordedMetrics:
    """Records the values of metrics."""

    def __init__(self) -> None:
        self.counters: Counter[tuple[Any, ...]] = Counter()
        self.gauges: dict[tuple[Any, ...], float] = {}

    def metric(self, name: str) -> Any:
        recorded, definitions = self, {**metrics.COUNTERS, **metrics.GAUGES}

        class Metric:
            def inc(self, by: float, tags: dict[str, str]) -> None:
                assert by > 0
                assert set(tags) == set(definitions[name][1])
                recorded.counters[name, *tags.values()] += by

            def set(self, value: float, tags: dict[str, str]) -> None:
                assert set(tags) == set(definitions[name][1])
                recorded.gauges[name, *tags.values()] = value

        return Metric()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordedMetrics:
    values = RecordedMetrics()
    monkeypatch.setattr(metrics, "_metric", values.metric)
    monkeypatch.setattr(metrics, "_has_ray", lambda: True)
    return values


RECEIPT = Receipt(
    part="predictions/benchmark=maia/model=m/abc.parquet",
    counts={("vsv", "1-frame", "ok"): 10, ("vsv", "32-frames", "ok"): 5, ("vsv", "1-frame", "error"): 1}, began=100.0,
    ended=102.5, tokens=TokenCounts(300, 40, 200), failed=(("r1", "timeout"),),
)  # fmt: skip


def test_commits_seconds_and_gauges_are_counted(recorded: RecordedMetrics) -> None:
    count_commit("m", RECEIPT)
    count_commit("m", Receipt(part="predictions/benchmark=maia/model=m/d.parquet", counts={}))
    assert recorded.counters == {
        ("vlmsweep_requests", "predictions", "m", "maia", "ok"): 15,
        ("vlmsweep_requests", "predictions", "m", "maia", "error"): 1,
        ("vlmsweep_tokens", "m", "read"): 300,
        ("vlmsweep_tokens", "m", "written"): 40,
        ("vlmsweep_tokens", "m", "cached"): 200,
    }
    count_answering("m", answered_s=2.0, waited_s=0.0)
    count_answering("m", answered_s=1.0, waited_s=0.5)
    count_loading(0.25)
    count_waiting("m", 7)
    assert recorded.counters["vlmsweep_engine_seconds", "m", "answering"] == 3.0
    assert recorded.counters["vlmsweep_engine_seconds", "m", "waiting"] == 0.5
    assert recorded.counters["vlmsweep_load_seconds",] == 0.25
    assert recorded.gauges == {("vlmsweep_waiting_requests", "m"): 7.0}


def test_log_fields_belong_to_the_thread_and_end_with_their_block() -> None:
    contexts = []
    with log_context(run="r", model="a", part=""):
        other = threading.Thread(target=lambda: contexts.append(dict(current_context())))
        other.start()
        other.join()
        with log_context(model="b"):
            contexts.append(dict(current_context()))
        contexts.append(dict(current_context()))
    assert [*contexts, dict(current_context())] == [{}, {"run": "r", "model": "b"}, {"run": "r", "model": "a"}, {}]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    root, stream = logging.getLogger(), StringIO()
    monkeypatch.setattr(root, "handlers", [logging.StreamHandler(stream)])
    monkeypatch.setattr(root, "level", logging.INFO)
    logging.getLogger("vlmsweep").manager._clear_cache()  # levels are remembered
    log_as_json(enabled=True)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_log_lines_name_their_request(recorded: RecordedMetrics, lines: Callable[[], list[dict[str, Any]]]) -> None:
    with log_context(run="r", model="m"):
        count_commit("m", RECEIPT)
    part, failed = lines()
    assert (part["run"], part["model"], part["rows"], part["seconds"]) == ("r", "m", 16, 2.5)
    assert part["part"] == RECEIPT.part
    assert (failed["run"], failed["request_id"], failed["error_type"]) == ("r", "r1", "timeout")
    assert {"at", "level", "logger", "message"} <= set(failed)
    assert failed["message"] == "request r1 failed: timeout"


def test_progress_and_tracebacks_are_json_lines(lines: Callable[[], list[dict[str, Any]]]) -> None:
    progress = Progress()
    progress.phase("predict m", 3)
    progress.advance(3, 1)
    progress.finish()
    error = ValueError("two\nlines")
    logging.getLogger("x").error("it\nbroke", exc_info=error)
    line, broken = lines()
    assert line["message"].startswith("predict m: 3 of 3, 1 failed in ")
    assert broken["message"] == "it\nbroke"
    assert "ValueError: two" in broken["trace"]
    log_as_json(enabled=False)
    assert not logs_are_json()
