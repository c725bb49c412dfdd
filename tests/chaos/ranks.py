"""SIGKILL to one rank of a tensor-parallel group in a running sweep: a small random-weight model on two ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from functools import cache
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from tests.chaos.processes import ending, named
from tests.chaos.sweeps import Answers, Damage, Scene, environment, parts, read_answers, sweep
from tests.support.checkpoints import build_tiny

__all__ = ["kill_rank"]

RANK = "spawn_main"
_FLAGS = ("--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame")


@cache
def _undisturbed(scene: Scene) -> tuple[Answers, str, float]:
    """Return the answers of an undisturbed run with two ranks, and how long it took."""
    build_tiny(scene.folder / "model", "qwen2_5_vl")
    out = scene.folder / "undisturbed-ranks"
    process = _run(scene, out)
    _ranks(process, scene, out)
    started = time.monotonic()
    while named(process.pid, RANK):
        time.sleep(0.2)
    seconds = time.monotonic() - started
    scene.ended(process, out)
    return read_answers(out), (out / "report" / "metrics.json").read_text(), seconds


def _run(scene: Scene, out: Path) -> subprocess.Popen[bytes]:
    models = out.with_suffix(".yaml")
    models.write_text(
        f"pair: {{engine: transformers, model: {scene.folder / 'model'}, dtype: float32, device: cpu, "
        "tensor_parallel: 2, limits: {max_pixels: 3072}, generation: {max_new_tokens: 2}}\n"
    )
    return sweep(scene, out, "--models", "pair", "--models-file", str(models), *_FLAGS, env=environment(scene.folder))


def _ranks(process: subprocess.Popen[bytes], scene: Scene, out: Path) -> list[int]:
    """Wait for both ranks and return their process ids."""
    deadline = time.monotonic() + 300
    while len(ranks := named(process.pid, RANK)) < 2:
        assert process.poll() is None, scene.log_tail(out)
        assert time.monotonic() < deadline, "no ranks within five minutes"
        time.sleep(0.05)
    return ranks


def kill_rank(scene: Scene, out: Path, seed: int) -> Damage:
    """Kill one of two ranks at a random moment from their start on; the group and its replica start again."""
    answers, metrics, seconds = _undisturbed(scene)
    draw = Random(seed)
    process = _run(scene, out)
    kills, before = 0, {}
    with ending(process):
        ranks = _ranks(process, scene, out)
        time.sleep(draw.uniform(0.0, 0.8) * seconds)
        ranks = named(process.pid, RANK) or ranks
        before = {part: part.stat().st_mtime_ns for part in parts(out)}
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(ranks), signal.SIGKILL)
            kills = 1
        scene.ended(process, out)
    # A group answers one unit at a time and keeps no journal: what it had in hand is one of the parts written after.
    after = [part for part in parts(out) if part not in before]
    in_flight = max((pq.ParquetFile(part).metadata.num_rows for part in after), default=0) if kills else 0
    damage = scene.damage(out, kills, in_flight=in_flight, answers=answers, metrics=metrics, journal=False)
    damage.changed += sum(part.stat().st_mtime_ns != written for part, written in before.items())
    return damage
