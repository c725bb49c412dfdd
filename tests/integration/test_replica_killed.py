"""A replica dies within a batch: committed units stay, the others are sent again, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.bench.many import write_many
from tests.chaos.processes import ending, named
from tests.chaos.sweeps import in_hand, parts, read_answers, read_rows
from tests.integration.conftest import Cli

REQUESTS = 3072
"""About one clip: twelve units in four batches of three."""


@pytest.mark.slow
def test_replica_death_repeats_only_open_units_of_its_batch(
    cli: Cli, command_env: dict[str, str], tmp_path: Path
) -> None:
    planned = write_many(tmp_path / "data", 1, REQUESTS)
    calm, out = tmp_path / "calm", tmp_path / "out"
    models = tmp_path / "models.yaml"
    flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--settings", "1-frame")
    flags = (*flags, "--data", str(tmp_path / "data"))
    models.write_text("m: {engine: scripted}\n")
    cli("predict", *flags, "--out", str(calm))
    faults = {"call_s": 0.002, "journal": str(out.with_suffix(".journal"))}
    models.write_text(json.dumps({"m": {"engine": "scripted", "fault_injection": faults}}))
    command = [sys.executable, "-m", "jobs.cli", "predict", *flags, "--out", str(out)]
    process = subprocess.Popen(command, env=command_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with ending(process):
        deadline = time.monotonic() + 400
        # One replica answers one batch after the other: with one or two parts of three committed, it is in the middle.
        while len(parts(out)) % 3 == 0 or in_hand(out, read_answers(out)) < 20:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        modified = {part: part.stat().st_mtime_ns for part in parts(out)}
        done = read_answers(out)
        (replica,) = named(process.pid, "MapBatches(EngineActor)")
        os.kill(replica, signal.SIGKILL)
        in_flight = in_hand(out, done)
        _, output = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert read_answers(out) == read_answers(calm)
    assert len(read_rows(out)) == len(read_answers(out)) == planned
    assert {status for status, _ in read_answers(out).values()} == {"ok"}
    calls = Counter(out.with_suffix(".journal").read_text().split())
    assert set(calls.values()) == {1, 2}, "what was in hand was asked again, and nothing twice"
    assert all(part.stat().st_mtime_ns == written for part, written in modified.items())
    assert not {call for call, n in calls.items() if n > 1 and call.rpartition("/")[0] in done}
    assert sum(calls.values()) - planned <= in_flight
