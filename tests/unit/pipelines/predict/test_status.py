"""The status of a live run stays fresh, however long its units take."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipelines.predict.status import StatusWriter
from pipelines.storage.store import Store


def test_status_is_written_repeatedly_while_a_model_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.predict.status.HEARTBEAT_S", 0.05)
    monkeypatch.setattr("pipelines.predict.status.WRITE_EVERY_S", 0.0)
    board = StatusWriter(Store(str(tmp_path)), {})
    board.begin("m")
    file = tmp_path / "status.json"
    for _ in range(2):
        file.unlink()
        deadline = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    board.end("m")
    file.unlink()
    time.sleep(0.3)
    assert not file.exists(), "nothing runs, and nothing is written"
    board.close()
