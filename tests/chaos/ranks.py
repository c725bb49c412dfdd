"""SIGKILL to one rank of a tensor-parallel group in a running sweep: a small random-weight model on two ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from functools import cache
from pathlib import Path
from random import Random

from models.tiny import build_tiny
from tests.chaos.processes import named
from tests.chaos.sweeps import Damage, Scene, environment, parts, read_answers, sweep

__all__ = ["kill_rank"]

_FLAGS = ("--benchmarks", "maia", "--tasks", "vsv", "--settings", "1-frame")


@cache
def _undisturbed(scene: Scene) -> tuple[dict[str, tuple[str, str]], str]:
    """What two ranks answer when nothing happens to them."""
    build_tiny(scene.folder / "model", "qwen2_5_vl")
    out = scene.folder / "undisturbed-ranks"
    _run(scene, out).wait(900)
    return read_answers(out), (out / "report" / "metrics.json").read_text()


def _run(scene: Scene, out: Path):
    models = out.with_suffix(".yaml")
    models.write_text(
        f"pair: {{engine: transformers, model: {scene.folder / 'model'}, dtype: float32, device: cpu, "
        "tensor_parallel: 2, limits: {max_pixels: 3072}, generation: {max_new_tokens: 2}}\n"
    )
    return sweep(scene, out, "--models", "pair", "--models-file", str(models), *_FLAGS, env=environment(scene.folder))


def kill_rank(scene: Scene, out: Path, seed: int) -> Damage:
    """Kill one of two ranks at a random moment from their start on; the group and its replica start again."""
    answers, metrics = _undisturbed(scene)
    draw = Random(seed)
    process = _run(scene, out)
    try:
        deadline = time.monotonic() + 300
        while len(ranks := named(process.pid, "spawn_main")) < 2:
            assert process.poll() is None, out.with_suffix(".log").read_text()[-3000:]
            assert time.monotonic() < deadline, "no ranks within five minutes"
            time.sleep(0.05)
        time.sleep(draw.uniform(0.0, 20.0))
        ranks = named(process.pid, "spawn_main") or ranks
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(ranks), signal.SIGKILL)
        code = process.wait(600)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert code == 0, out.with_suffix(".log").read_text()[-3000:]
    assert parts(out)
    return scene.damage(out, 1, answers=answers, metrics=metrics, journal=False)
