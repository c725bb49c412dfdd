"""Log lines of worker processes: JSON with context where the driver logs JSON, unchanged elsewhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from pipelines import logging_context
from pipelines.logging_context import (
    JsonFormatter,
    current_context,
    fields_for_workers,
    logs_are_json,
    worker_log_context,
)

LOG = logging.getLogger("pipelines.somewhere")


@pytest.fixture(autouse=True)
def unconfigured_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start with the logging of a new process; restore it afterwards."""
    levels = {name: logging.getLogger(name).level for name in logging_context.LOGGED_PACKAGES}
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logging_context._configure_worker_logging.cache_clear()
    yield
    logging_context._configure_worker_logging.cache_clear()
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_worker_log_lines_contain_run_model_part_and_request(capsys: pytest.CaptureFixture[str]) -> None:
    for part, request_id in (("p1", ""), ("p2", "r7")):
        with worker_log_context({"run": "r", "model": "m"}, part=part, request_id=request_id):
            LOG.info("working on %s", part)
            logging.getLogger("library").info("chatter")
    LOG.warning("outside")
    first, second, outside = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["run"], first["model"], first["part"], first["message"]) == ("r", "m", "p1", "working on p1")
    assert "request_id" not in first
    assert (second["part"], second["request_id"], second["level"]) == ("p2", "r7", "info")
    assert not {"run", "model", "part"} & set(outside)


def test_workers_log_json_only_when_the_driver_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert fields_for_workers(run="r") is None
    with worker_log_context(None, part="p"):
        LOG.info("not formatted")
        assert current_context() == {}
    assert capsys.readouterr().err == ""
    assert not logs_are_json()
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger().handlers = [handler]
    assert fields_for_workers(run="r") == {"run": "r"}
