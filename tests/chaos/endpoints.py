"""An endpoint that fails for a while in every way, and a run that asks it and is killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import threading
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

from tests.chaos.sweeps import Answers, Damage, Scene, environment, read_answers, sweep
from tests.support.endpoint import Action, Drop, EndpointRequest, Half, Raw, Say, ScriptedEndpoint, Status

__all__ = ["disturb_endpoint"]

FAULTS: tuple[Action, ...] = (
    Drop(),
    Half(),
    Status(status=429, headers={"retry-after": "0.1"}),
    Status(status=500),
    Status(status=503),
    Raw(b'{"choices": [{"message": {"content": "A"}, "finish_reason": "network_error"}]}'),
    Raw(b'{"choices": [{"message": {"content": "B"}}], "error": {"code": 503, "message": "overloaded"}}'),
    Raw(b"<html>busy</html>"),
)
"""Failures that the engine retries; some are reported in a response with status 200 and a partial answer."""
FAULT_SHARE = 0.3
MOST_FAULTS = 2
"""Of a prompt: the engine repeats a failed call four times."""
REPLY_S = 0.05
KILL_S = (1.0, 6.0)


class _Provider:
    """Answers each prompt by its hash, and counts answers; with a seed, faults come before some of them."""

    def __init__(self, seed: int | None = None) -> None:
        self.answered = 0
        self._seed = seed
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: EndpointRequest) -> Action:
        prompt = hashlib.sha256(json.dumps(request.body["messages"]).encode()).hexdigest()
        with self._lock:
            self._attempts[prompt] += 1
            attempt = self._attempts[prompt]
            draw = Random(f"{self._seed} {prompt} {attempt}")
            if self._seed is not None and attempt <= MOST_FAULTS and draw.random() < FAULT_SHARE:
                return draw.choice(FAULTS)
            self.answered += 1
        return Say(text="AB"[int(prompt, 16) % 2], delay_s=REPLY_S)


class _Provided:
    """One address for all runs, which a request's identity holds, with a provider for each."""

    def __init__(self) -> None:
        self.provider = _Provider()
        self.endpoint = ScriptedEndpoint(self._answer).__enter__()  # until the process ends

    def _answer(self, request: EndpointRequest) -> Action:
        return self.provider(request)


@cache
def _provided() -> _Provided:
    return _Provided()


@cache
def _undisturbed(scene: Scene) -> tuple[Answers, str, int]:
    """Return the answers of an endpoint without faults, the metrics, and the calls that it answered."""
    out, provided = scene.folder / "undisturbed-endpoint", _provided()
    provided.provider = _Provider()
    scene.ended(_run(scene, out), out)
    return read_answers(out), (out / "report" / "metrics.json").read_text(), provided.provider.answered


def _run(scene: Scene, out: Path) -> subprocess.Popen[bytes]:
    models, address = out.with_suffix(".json"), _provided().endpoint.base_url
    models.write_text(json.dumps({"m": {"engine": "openai", "model": "scripted", "base_url": address}}))
    flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia")
    return sweep(scene, out, *flags, env=environment(scene.folder))


def disturb_endpoint(scene: Scene, out: Path, seed: int) -> Damage:
    """Fail calls at random, and kill the run up to three times; the same command goes on each time."""
    draw = Random(seed)
    answers, metrics, calls = _undisturbed(scene)
    provider = _provided().provider = _Provider(seed)
    kills = in_flight = 0
    for _ in range(draw.randrange(4)):
        process = _run(scene, out)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(*KILL_S))
        if process.poll() is None:
            process.kill()
            process.wait()
            kills += 1
            in_flight = provider.answered - len(read_answers(out))
    scene.ended(_run(scene, out), out)
    damage = scene.damage(out, kills, in_flight=in_flight, answers=answers, metrics=metrics, journal=False)
    damage.redone, damage.counted = provider.answered - calls, True
    return damage
