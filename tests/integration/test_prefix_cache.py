"""A paid sweep about clips at a provider that caches prefixes: killed and resumed, it pays each clip once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.integration.conftest import Cli
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import EndpointRequest, Say
from tests.support.maia_source import write_source
from tests.support.prompt_cache import CachingProvider

QUESTIONS = 216  # of one clip in one setting
PRICE = {"input_per_million": 10.0, "cached_input_per_million": 1.0, "output_per_million": 10.0}


@pytest.fixture(scope="module")
def data(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    cli("ingest", "maia", str(write_source(tmp_path_factory.mktemp("maia"), videos=2)), "--data", str(data))
    return data


def flags(data: Path, out: Path, endpoint: ScriptedEndpoint) -> list[str]:
    models = out.with_suffix(".yaml")
    entry = {"engine": "openai", "model": "m", "base_url": endpoint.base_url, "price": PRICE}
    models.write_text(json.dumps({"paid": entry}))
    cells = ["--benchmarks", "maia", "--settings", "32-frames", "--data", str(data), "--out", str(out)]
    return ["--models", "paid", "--models-file", str(models), *cells]


@pytest.mark.full
def test_killed_and_resumed_sweep_pays_each_clip_once(
    cli: Cli, command_env: dict[str, str], data: Path, tmp_path: Path
) -> None:
    in_second_clip, is_dead = threading.Event(), threading.Event()

    def script(request: EndpointRequest) -> Say:
        if request.number >= QUESTIONS + 100:
            in_second_clip.set()
            is_dead.wait(400)  # no more is answered before
        return Say(text="A")

    provider = CachingProvider(script)
    with ScriptedEndpoint(provider) as endpoint:
        arguments = flags(data, tmp_path / "out", endpoint)
        planned = json.loads(cli("run", *arguments, "--dry-run", "--json").stdout)["plan"][0]
        command = [sys.executable, "-m", "jobs.cli", "run", *arguments]
        process = subprocess.Popen(command, env=command_env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert in_second_clip.wait(400)
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
            is_dead.set()
        cli("run", *arguments)
        sent = len(endpoint.requests)
    assert 2 * QUESTIONS < sent <= 2 * QUESTIONS + 120
    assert provider.shareable > 0.95 * 3200 * (sent - 2)
    assert provider.cached >= 0.95 * provider.shareable
    assert provider.bill(1.0) >= 4 * provider.bill(0.1)
    (*_, spending) = json.loads((tmp_path / "out" / "run.json").read_text())["spending"]
    resumed = spending["models"]["paid"]
    assert resumed["cached_tokens"] == sum(usage.cached for usage in provider.usage[-QUESTIONS:])
    assert resumed["dollars"] == pytest.approx(
        sum((10 * (u.prompt - u.cached) + u.cached + 10) / 1e6 for u in provider.usage[-QUESTIONS:])
    )
    report = "".join(path.read_text() for path in (tmp_path / "out" / "report").rglob("*.html"))
    assert "Prefix tokens needed" in report
    assert planned["price_cached_usd"] <= planned["price_usd"]  # small clips: by its estimate too short for a cache
