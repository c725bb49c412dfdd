from __future__ import annotations

import pytest
from transformers.utils import logging as transformers_logging

from models.engines.load_progress import progress_listener, report_progress
from models.engines.transformers.checkpoint import load_checkpoint
from models.engines.weights import weights_bytes
from models.spec import ModelSpec
from pipelines.predict.replica_board import format_load_progress
from tests.unit.models.engines.conftest import Checkpoints


def test_load_progress_is_reported_as_bytes_without_a_progress_bar(
    checkpoint_of: Checkpoints, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = checkpoint_of("llama")
    reports: list[tuple[str, float, float]] = []
    transformers_logging.enable_progress_bar()
    spec = ModelSpec(engine="transformers", model=str(folder), device="cpu", dtype="float32")
    with progress_listener(lambda activity, done, total: reports.append((activity, done, total))):
        load_checkpoint(spec)
    size = weights_bytes(folder)
    assert reports[0] == ("loading", 0.0, size)
    assert reports[-1] == ("loading", size, size)
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
    assert "Loading weights" not in capfd.readouterr().err
    report_progress("loading", 1.0, 2.0)
    assert reports[-1] == ("loading", size, size), "the listener is removed"


def test_load_progress_line_shows_rate_and_time_left() -> None:
    assert format_load_progress(("loading", 0.0, 4e9), since=(0.0, 0.0), now=0.0) == "loading weights, 0.00 of 4.00 GB"
    line = format_load_progress(("fetching", 20e9, 145e9), since=(10.0, 15e9), now=20.0, count=2)
    assert line == "fetching weights, 20.00 of 145.00 GB, 500 MB/s, 250 s left (2 replicas load)"
