"""`run --batch`: a run that is killed or interrupted at any point resumes, and the provider bills each request once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli
from tests.support.endpoint import BatchEndpoint, BatchScript, EndpointRequest
from tests.support.maia_source import question
from tests.support.turns import in_turns
from tests.unit.models.engines.endpoints.rig import ENGINES, PATHS

REQUESTS = 384


class Sweep:
    """The commands of one output, its endpoint, and signals at chosen moments."""

    def __init__(self, endpoint: BatchEndpoint, env: dict[str, str], data: str, folder: Path) -> None:
        self.endpoint, self.out, self._env = endpoint, folder / "out", env
        models = folder / "models.yaml"
        models.write_text(
            f"paid: {{engine: {endpoint.engine}, model: m, base_url: '{endpoint.address}{PATHS[endpoint.engine]}', "
            "batch_poll_s: 0.1, "
            "batch_max_requests: 150, price: {input_per_million: 10, output_per_million: 20}}\n"
        )
        self.flags = (
            *("--models", "paid", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv"),
            *("--settings", "1-frame", "--data", data, "--out", str(self.out), "--batch"),
        )

    def signalled(self, hook: Callable[[Callable[[], None]], None], number: signal.Signals) -> tuple[int, str]:
        """Run the command; `hook` gets a function that sends it a signal. Return its exit code and standard error."""
        command = [sys.executable, "-m", "jobs.cli", "predict", *self.flags]
        process = subprocess.Popen(command, env=self._env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        hook(lambda: os.kill(process.pid, number) if process.poll() is None else None)
        _, error = process.communicate(timeout=300)
        server = self.endpoint.batches
        server.on_create = server.on_upload = server.on_download = lambda: None
        server.on_poll = lambda _: None
        return process.returncode, error

    def rows(self) -> list[dict[str, object]]:
        parts = sorted(self.out.glob("predictions/*/*/*.parquet"))
        return pa.concat_tables([pq.ParquetFile(path).read() for path in parts]).to_pylist() if parts else []

    def check_complete(self) -> None:
        rows = self.rows()
        assert Counter(row["status"] for row in rows) == {"ok": REQUESTS}
        assert len({row["request_id"] for row in rows}) == REQUESTS
        billed = self.endpoint.batches.billed
        assert len(billed) == REQUESTS
        assert set(billed.values()) == {1}
        assert not [path for path in (self.out / "batches").rglob("*") if path.is_file()]


@pytest.fixture
def sweep(
    command_env: dict[str, str], maia_data: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Sweep]:
    engine = getattr(request, "param", "openai")
    with BatchEndpoint(lambda _: "A", lambda _: BatchScript(polls=4), engine=engine) as endpoint:
        yield Sweep(endpoint, command_env, maia_data, tmp_path)


@pytest.mark.parametrize("sweep", in_turns(ENGINES, ("openai",)), indirect=True)
def test_killed_runs_resume_without_paying_twice(inline_cli: Cli, sweep: Sweep) -> None:
    server = sweep.endpoint.batches

    def at_upload(kill: Callable[[], None]) -> None:
        server.on_upload = kill

    def before_record(kill: Callable[[], None]) -> None:
        server.on_create = kill

    def while_polling(kill: Callable[[], None]) -> None:
        server.on_poll = lambda _: kill() if any(batch.polls == 2 for batch in server.batches) else None

    def before_results(kill: Callable[[], None]) -> None:
        server.on_download = kill

    moments = (at_upload, before_record, while_polling, before_results)
    assert [sweep.signalled(moment, signal.SIGKILL)[0] for moment in moments] == [-signal.SIGKILL] * len(moments)
    assert len(server.batches) == 3
    result = inline_cli("predict", *sweep.flags)
    sweep.check_complete()
    assert len(server.batches) == 3
    assert f"predict paid: {REQUESTS} of {REQUESTS}" in result.stderr
    polls = server.polls
    inline_cli("predict", *sweep.flags)
    assert (server.polls, len(server.batches)) == (polls, 3)


def test_ctrl_c_cancels_batches_and_keeps_their_answers(inline_cli: Cli, sweep: Sweep) -> None:
    server = sweep.endpoint.batches
    server.script = lambda _: BatchScript(polls=1000, answered=0.5)

    def while_polling(interrupt: Callable[[], None]) -> None:
        def on_poll(_: object) -> None:
            # A busy machine polls the first batch several times before the last one is sent.
            if len(server.batches) == 3 and server.batches[2].polls == 2:
                server.on_poll = lambda _: None  # polls of the other batches would interrupt again
                interrupt()

        server.on_poll = on_poll

    code, error = sweep.signalled(while_polling, signal.SIGINT)
    assert code == 130, error
    assert "Run the same command again to resume" in error
    assert "Traceback" not in error
    assert server.cancelled == [f"batch_{number}" for number in range(3)]
    server.script = lambda _: BatchScript()
    inline_cli("predict", *sweep.flags)
    sweep.check_complete()


@pytest.mark.parametrize("sweep", in_turns(ENGINES, ("openai",)), indirect=True)
def test_price_is_half_in_the_plan_and_in_the_record(inline_cli: Cli, sweep: Sweep) -> None:
    planned = json.loads(inline_cli("run", *sweep.flags, "--dry-run", "--json").stdout)["plan"][0]
    listed = json.loads(inline_cli("run", *sweep.flags[:-1], "--dry-run", "--json").stdout)["plan"][0]
    dollars = [float(row["price"].split("$")[1].partition(",")[0]) for row in (planned, listed)]
    assert dollars[0] == pytest.approx(dollars[1] / 2, abs=0.01)
    assert planned["batch"] is True
    assert "0.5 of the list price" in planned["price"]
    assert (
        f"engine {sweep.endpoint.engine}; in batches, within 24h" in inline_cli("run", *sweep.flags, "--dry-run").stdout
    )
    inline_cli("predict", *sweep.flags)
    spent = json.loads((sweep.out / "run.json").read_text())["spending"][0]["models"]["paid"]
    assert spent["dollars"] == pytest.approx((10 * spent["input_tokens"] + 20 * spent["output_tokens"]) / 2e6)


def test_judge_answers_in_batches_too(
    inline_cli: Cli, command_env: dict[str, str], maia_data: str, tmp_path: Path
) -> None:
    def answer(request: EndpointRequest) -> str:
        if "<risposta>" in request.text:
            return json.dumps({"correct": True})
        return question(0, "SpazialeParziale_A")["answer"][3]

    with BatchEndpoint(answer) as endpoint:
        sweep = Sweep(endpoint, command_env, maia_data, tmp_path)
        flags = [flag if flag != "vsv" else "oevqa" for flag in sweep.flags]
        inline_cli("run", *flags, "--judge", "paid")
        assert not endpoint.requests
        assert len(endpoint.batches.batches) >= 2
        assert set(endpoint.batches.billed.values()) == {1}
    metrics = json.loads((sweep.out / "report" / "metrics.json").read_text())
    accuracy = [row["value"] for row in metrics if row["metric"] == "oevqa_accuracy" and not row["category"]]
    assert accuracy == [1.0]


def test_batch_needs_an_endpoint(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    common_flags = ("--data", maia_data, "--out", str(tmp_path / "out"))
    refused = inline_cli("run", "--models", "random", "--benchmarks", "maia", *common_flags, "--batch", code=2)
    assert "--batch: no model of this run is at an endpoint" in refused.stderr
