"""A run whose judge is asked beside models, on two GPUs that Ray only counts, killed while it judges."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from random import Random

from tests.chaos.processes import REPLICA, named, wait_until_gone
from tests.chaos.sweeps import Answers, Damage, Scene, in_hand, parts, read_answers, sweep
from tests.support.ray_head import RayHead, ray_head

__all__ = ["kill_while_judged"]

_CALL_S = {"first": 0.05, "second": 1.0, "judge": 0.2}
_FLAGS = ("--models", "first,second", "--judge", "judge", "--benchmarks", "maia", "--tasks", "oevqa")
_SMALL_PARTS = """
from jobs.cli.__main__ import main
from pipelines.predict import concurrent_judges
from pipelines.score import judge

concurrent_judges.SLICE_UNITS, judge.UNIT_QUESTIONS = 2, 2
main()
"""
"""The command line, with so small parts of a judge's questions that it has many beside the second model."""
_MOST_PARTS = 12
_BEGIN_S = 300.0
_DIE_S = 30.0


@cache
def _undisturbed(scene: Scene) -> tuple[Answers, str]:
    out = scene.folder / "undisturbed-judged"
    with _gpus() as head:
        scene.ended(_run(scene, out, head), out)
    return read_answers(out), (out / "report" / "metrics.json").read_text()


def _gpus() -> contextlib.AbstractContextManager[RayHead]:
    return ray_head("--num-cpus=6", "--num-gpus=2")


def _run(scene: Scene, out: Path, head: RayHead) -> subprocess.Popen[bytes]:
    def entry(name: str) -> dict[str, object]:
        faults = {"on_gpu": True, "call_s": _CALL_S[name], "journal": str(out.with_suffix(".journal"))}
        return {
            "engine": "scripted",
            "seed": list(_CALL_S).index(name),
            "parameters_b": 1,
            "replicas": {"max": 1},
            "fault_injection": faults,
        }

    models = out.with_suffix(".json")
    models.write_text(json.dumps({name: entry(name) for name in _CALL_S}))
    place = ("--models-file", str(models), "--settings", "1-frame", "--address", f"127.0.0.1:{head.gcs}")
    command = (sys.executable, "-c", _SMALL_PARTS)
    return sweep(scene, out, *_FLAGS, *place, env={**scene.env, **head.env}, command=command)


def kill_while_judged(scene: Scene, out: Path, seed: int) -> Damage:
    """Kill the run when the judge has committed some parts beside the second model, up to three times; finish it."""
    draw, (answers, metrics) = Random(seed), _undisturbed(scene)
    kills = in_flight = 0
    with _gpus() as head:
        for _ in range(1 + draw.randrange(3)):
            awaited = _judged_parts(out) + 1 + draw.randrange(_MOST_PARTS)
            process = _run(scene, out, head)
            deadline = time.monotonic() + _BEGIN_S
            while process.poll() is None and _judged_parts(out) < awaited:
                assert time.monotonic() < deadline, scene.log_tail(out)
                time.sleep(0.05)
            if process.poll() is None:
                below, committed = named(head.processes[0].pid, REPLICA), read_answers(out)
                process.kill()
                process.wait()
                kills += 1
                wait_until_gone(below, _DIE_S)
                in_flight += in_hand(out, committed)
        scene.ended(_run(scene, out, head), out)
    return scene.damage(out, kills, in_flight=in_flight, answers=answers, metrics=metrics)


def _judged_parts(out: Path) -> int:
    return len(parts(out, "judgements"))
