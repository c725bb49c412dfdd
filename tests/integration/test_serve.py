"""`vlmsweep serve`: the official client and a sweep's judge use it; no process is left after a stop."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import psutil
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.chaos.processes import descendants
from tests.integration.conftest import Cli
from tests.support.checkpoints import build_tiny
from tests.support.ray_head import ray_head

NAME = "tosser"


@contextlib.contextmanager
def serving(
    name: str, entry: str, folder: Path, env: dict[str, str], *flags: str
) -> Iterator[tuple[dict[str, str], Any, Path]]:
    """Yield a serving process: the JSON line it printed, the process, and the folder of its log."""
    models = folder / "models.yaml"
    models.write_text(f"{name}: {entry}")
    serve_flags = ("--port", "0", "--models-file", str(models), "--json")
    command = [sys.executable, "-m", "jobs.cli", "serve", name, *serve_flags, *flags]
    with (folder / "err").open("wb") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, env=env, text=True)
    try:
        assert process.stdout
        # Ray may die at its start on a machine that is busy; then the line is empty and the log says why.
        line = process.stdout.readline()
        assert line, (folder / "err").read_text()
        yield json.loads(line), process, folder
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(120)
        assert process.stdout
        process.stdout.close()


@pytest.fixture(scope="module")
def served(command_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory):
    """The JSON line that a running endpoint printed, its process, and the folder of its log."""
    entry = "{engine: scripted, answer: '{\"correct\": true}', fault_injection: {call_s: 0.05}}"
    with serving(NAME, entry, tmp_path_factory.mktemp("serve"), command_env) as endpoint:
        yield endpoint


def rows_of(part: Path) -> list[dict[str, Any]]:
    return pq.ParquetFile(part).read().to_pylist()


@contextlib.contextmanager
def client(announcement: dict[str, str], **settings: object) -> Iterator[openai.OpenAI]:
    """Open a client without retries for the length of a block."""
    defaults = {"base_url": announcement["base_url"], "api_key": announcement["key"], "max_retries": 0}
    with openai.OpenAI(**{**defaults, **settings}) as opened:
        yield opened


def picture(address: str) -> list[dict[str, object]]:
    return [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": address}}]


def data_uri() -> str:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (0, 90, 200)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


@pytest.mark.slow
def test_official_client_sends_text_and_a_picture(served) -> None:
    announcement, _, _ = served
    assert announcement["base_url"].startswith("http://127.0.0.1:")
    with client(announcement) as asking:
        assert [item.id for item in asking.models.list()] == [NAME]
        for content in ("Right?", picture(data_uri())):
            turn = {"role": "user", "content": content}
            reply = asking.chat.completions.create(model=NAME, messages=[turn], temperature=0, max_tokens=20, seed=1)
            assert reply.choices[0].message.content == '{"correct": true}'
            assert reply.choices[0].finish_reason == "stop"
            streamed = asking.chat.completions.create(
                model=NAME, messages=[turn], stream=True, stream_options={"include_usage": True}
            )
            events = list(streamed)
            assert "".join(event.choices[0].delta.content or "" for event in events[:-1]) == '{"correct": true}'
            assert (events[-2].choices[0].finish_reason, events[-1].usage.completion_tokens > 0) == ("stop", True)


def test_everything_listens_at_the_host_alone(served) -> None:
    serving_process = psutil.Process(served[1].pid)
    listening = [
        (below.name(), connection.laddr)
        for below in (serving_process, *serving_process.children(recursive=True))
        for connection in below.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) > 1, "the endpoint and Ray's own"
    assert not [entry for entry in listening if entry[1].ip.removeprefix("::ffff:") != "127.0.0.1"]


def test_errors_arrive_as_the_clients_exception_classes(served) -> None:
    announcement, _, _ = served
    turn = {"role": "user", "content": "x"}
    remote = {"role": "user", "content": picture("http://127.0.0.1:9/a.png")}
    with client(announcement, api_key="wrong") as stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    with client(announcement) as asking:
        with pytest.raises(openai.NotFoundError, match="is served here"):
            asking.chat.completions.create(model="other", messages=[turn])
        with pytest.raises(openai.BadRequestError, match="verbosity: not supported here"):
            asking.chat.completions.create(model=NAME, messages=[turn], verbosity="low")
        with pytest.raises(openai.BadRequestError, match="nothing is fetched"):
            asking.chat.completions.create(model=NAME, messages=[remote])


def test_concurrent_requests_are_batched_and_answered_separately(served) -> None:
    announcement, _, _ = served

    def ask(number: int) -> str:
        turn = {"role": "user", "content": f"question {number}"}
        return asking.chat.completions.create(model=NAME, messages=[turn]).id

    with client(announcement) as asking, ThreadPoolExecutor(16) as threads:
        assert len(set(threads.map(ask, range(16)))) == 16


@pytest.mark.slow
def test_replica_that_fails_is_replaced(command_env: dict[str, str], tmp_path: Path) -> None:
    entry = "{engine: scripted, answer: A, fault_injection: {cuda_error_on: break the device, die_on: end the process}}"

    def ask(text: str, asking: openai.OpenAI) -> str | None:
        turn = {"role": "user", "content": text}
        return asking.chat.completions.create(model=NAME, messages=[turn]).choices[0].message.content

    with (
        serving(NAME, entry, tmp_path, command_env) as (announcement, _, _),
        client(announcement) as hasty,
        client(announcement, max_retries=30) as patient,
    ):
        for prompt, reason in (("break the device", "CUDA error"), ("end the process", "its replica ended")):
            with pytest.raises(openai.InternalServerError, match=f"{reason}.*send the request again") as raised:
                ask(prompt, hasty)
            assert raised.value.status_code == 503
            assert ask("Right?", patient) == "A"


def judged(cli: Cli, name: str, announcement: dict[str, str], data: str, folder: Path) -> dict[str, Any]:
    """Return MAIA's accuracy for a random model's eight open answers, by a served judge."""
    models = folder / "judged.yaml"
    entry = f"{{engine: openai, model: {name}, base_url: '{announcement['base_url']}', api_key_env: JUDGE_KEY}}"
    models.write_text(f"served: {entry}")
    flags = ("--models", "random", "--judge", "served", "--models-file", str(models), "--benchmarks", "maia")
    cells = ("--tasks", "oevqa", "--settings", "1-frame", "--limit", "8")
    cli(*("run", *flags, *cells, "--data", data, "--out", str(folder / "out")), env={"JUDGE_KEY": announcement["key"]})
    rows = json.loads((folder / "out/report/metrics.json").read_text())
    (row,) = [r for r in rows if r["metric"] == "oevqa_accuracy" and not r["category"] and not r["subset"]]
    return dict(row)


def test_serve_stops_cleanly_and_prints_its_key_once(served) -> None:
    announcement, process, folder = served
    below = descendants(process.pid)
    assert below
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert announcement["key"] not in (folder / "err").read_text()
    assert "Traceback" not in (folder / "err").read_text()
    deadline = time.monotonic() + 60
    while matching_below := [pid for pid in below if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, matching_below
        time.sleep(0.2)
    assert not list(Path("/tmp").glob(f"vlmsweep-*/*/owner-{process.pid}-*.json"))


@pytest.mark.full
def test_served_checkpoint_answers_text_and_pictures_and_judges(
    cli: Cli, command_env: dict[str, str], maia_data: str, tmp_path: Path
) -> None:
    folder = build_tiny(tmp_path / "checkpoint")
    entry = f"{{engine: transformers, model: {folder}, device: cpu, dtype: float32}}"
    with serving("tiny", entry, tmp_path, command_env) as (announcement, _, _):
        with client(announcement, api_key="none") as stranger, pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        contents = ["Chi entra?", *[[*picture(data_uri()), {"type": "text", "text": f"No. {n}?"}] for n in range(6)]]

        def ask(content: object) -> Any:
            turn: Any = {"role": "user", "content": content}
            return asking.chat.completions.create(model="tiny", messages=[turn], temperature=0, max_tokens=5)

        with client(announcement) as asking, ThreadPoolExecutor(len(contents)) as threads:
            first = [ask(content) for content in contents]
            replies = list(threads.map(ask, contents))
        row = judged(cli, "tiny", announcement, maia_data, tmp_path)
    judgements = [row for part in tmp_path.glob("out/judgements/*/*/*.parquet") for row in rows_of(part)]
    assert {item["status"] for item in judgements} == {"ok"}
    # Random weights seldom give a verdict; each answer is judged three times at the most.
    assert 8 <= len(judgements) <= 3 * 8
    assert len({item["sample_id"] for item in judgements}) == 8
    assert row["n_failed"] == 0, row
    assert row["n"] <= 8, row
    assert [reply.choices[0].message.content for reply in replies] == [
        item.choices[0].message.content for item in first
    ]
    assert {reply.choices[0].finish_reason for reply in replies} <= {"stop", "length"}
    words, *displayed = [reply.usage for reply in replies]
    assert all(0 < word.completion_tokens <= 5 for word in (words, *displayed))
    assert min(item.prompt_tokens for item in displayed) > words.prompt_tokens
    assert max(item.prompt_tokens_details.cached_tokens for item in displayed) > 0, "one picture, encoded once"


@pytest.mark.full
def test_cluster_serves_one_model_at_a_time(cli: Cli, tmp_path: Path) -> None:
    with ray_head("--num-cpus=2") as head:
        where = ("--address", f"127.0.0.1:{head.gcs}")
        for _ in range(2):
            with serving(NAME, "{engine: random}", tmp_path, head.env, *where) as (announcement, _, _):
                stderr = cli("serve", "random", "--port", "0", *where, env=head.env, code=3).stderr
                assert "runs on this cluster already (it serves vlmsweep)" in stderr
                with client(announcement) as asking:
                    assert [item.id for item in asking.models.list()] == [NAME]


def test_occupied_port_and_unknown_model_exit_with_2(cli: Cli) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "cannot listen there" in cli("serve", "random", "--port", port, code=2).stderr
    assert "unknown model" in cli("serve", "nobody", code=2).stderr
