"""Two thousand damaged rows through every ingest; `make chaos` uses ten thousand."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipelines.benchmarks import benchmark_names
from tests.support.mutated_sources import ingest_damaged


@pytest.mark.parametrize("name", benchmark_names())
@pytest.mark.parametrize("count", [500, pytest.param(2000, marks=pytest.mark.full)])
def test_damaged_row_rejects_itself(name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: socket.socket, address: object) -> None:
        raise AssertionError(f"a row made ingest connect to {address}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    rows, rejected = ingest_damaged(name, tmp_path, count)
    assert rows >= count
    assert rejected
