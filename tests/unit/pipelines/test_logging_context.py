"""Log lines of processes that Ray starts: JSON with whose they are, where the driver's are; untouched where not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from pipelines import logging_context as lines
from pipelines.logging_context import (
    JsonFormatter,
    current_context,
    fields_for_workers,
    logs_are_json,
    worker_log_context,
)

LOG = logging.getLogger("pipelines.somewhere")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fresh process's logging, as far as it goes; afterwards everything is as before."""
    before = {room: logging.getLogger(room).level for room in lines.OURS}
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    lines._begin.cache_clear()
    yield
    lines._begin.cache_clear()
    for room, level in before.items():
        logging.getLogger(room).setLevel(level)


def test_lines_of_a_worker_carry_run_model_part_and_request(capsys: pytest.CaptureFixture[str]) -> None:
    for part, request_id in (("p1", ""), ("p2", "r7")):
        with worker_log_context({"run": "r", "model": "m"}, part=part, request_id=request_id):
            LOG.info("told of %s", part)
            logging.getLogger("library").info("chatter")
    LOG.warning("told of none")
    first, second, none = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["run"], first["model"], first["part"], first["message"]) == ("r", "m", "p1", "told of p1")
    assert "request_id" not in first
    assert (second["part"], second["request_id"], second["level"]) == ("p2", "r7", "info")
    assert not {"run", "model", "part"} & set(none)


def test_workers_do_as_the_driver_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert fields_for_workers(run="r") is None
    with worker_log_context(None, part="p"):
        LOG.info("nobody asked")
        assert current_context() == {}
    assert capsys.readouterr().err == ""
    assert not logs_are_json()
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger().handlers = [handler]
    assert fields_for_workers(run="r") == {"run": "r"}
