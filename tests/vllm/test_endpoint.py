"""A real endpoint: vLLM's server with SmolLM2 answers one sweep, judges another, and is killed in each."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from models.engines.gguf_conversion import converted_folder
from models.engines.openai.engine import OpenAIEngine
from models.messages import Answer, Call, Failure, Generation, user
from models.spec import ModelSpec
from tests.bench.group import group
from tests.support.calls import MEDIA, PICTURE, call
from tests.support.small_data import ingest_all
from tests.support.vllm_server import MODEL, VLLMServer, smollm2_file, unavailable_reason, vllm_server
from tests.unit.models.engines.conftest import Checkpoints

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason() or "-"),
]

CONCURRENCY = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMServer]:
    root = tmp_path_factory.mktemp("endpoint")
    file = smollm2_file()
    assert file
    with vllm_server(converted_folder(file, "float32", root), root / "server") as running:
        yield running


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ingest_all(tmp_path_factory.mktemp("sources"))


def entry(server: VLLMServer, **more: Any) -> ModelSpec:
    return ModelSpec(engine="openai", model=MODEL, base_url=server.base_url, **more)


def ask(spec: ModelSpec, *calls: Call) -> dict[str, Answer | Failure]:
    engine = OpenAIEngine(spec)
    try:
        return {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA)}
    finally:
        engine.close()


def test_request_options_reach_the_server(server: VLLMServer) -> None:
    question = call("q/0", "What is the capital of France? Answer in one short sentence.", max_new_tokens=12)
    sampled = replace(question, generation=Generation(max_new_tokens=12, temperature=2.0, seed=7))
    first = ask(entry(server, logprobs=True), question)["q/0"]
    assert isinstance(first, Answer)
    assert "Paris" in first.text
    assert first.mean_logprob is not None
    assert first.mean_logprob < 0
    assert first.output_tokens > 0
    # At this temperature the answer is noise unless only the best token may be drawn.
    wild = ask(entry(server), sampled)["q/0"]
    for options in ({"top_p": 1e-6}, {"extra_body": {"top_k": 1}}):
        tamed = ask(entry(server, **options), sampled)["q/0"]
        assert isinstance(tamed, Answer), tamed
        assert isinstance(wild, Answer)
        assert tamed.text == first.text != wild.text


def test_what_the_server_refuses_fails_alone_and_by_its_kind(server: VLLMServer) -> None:
    calls = [
        call("fine/0", "Hi", max_new_tokens=2),
        call("long/0", "word " * 3_000, max_new_tokens=2),
        call("answer/0", "Hi", max_new_tokens=4_000),
        call("picture/0", PICTURE, "What is this?", max_new_tokens=2),
    ]
    outcomes = ask(entry(server, retries=0, detail="low"), *calls)
    assert isinstance(outcomes["fine/0"], Answer)
    kinds = {name: outcome.type for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
    assert kinds == {"long/0": "context_length", "answer/0": "context_length", "picture/0": "http_400"}
    late = ask(entry(server, retries=0, timeout_s=0.001), calls[0])["fine/0"]
    assert isinstance(late, Failure)
    assert late.type in ("timeout", "connection")
    wrong = ask(entry(server, retries=0).model_copy(update={"model": "other"}), calls[0])["fine/0"]
    assert isinstance(wrong, Failure)
    assert wrong.type == "http_404"


def test_web_server_in_place_of_the_api_is_named() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        spec = ModelSpec(engine="openai", model="m", base_url=f"http://127.0.0.1:{pages.server_port}", retries=0)
        outcome = ask(spec, Call(call_id="a/0", turns=(user("Hi"),), generation=Generation(max_new_tokens=2)))["a/0"]
        pages.shutdown()
    assert isinstance(outcome, Failure)
    assert outcome.type == "http_501"
    assert outcome.message.startswith("the server answered with a web page titled 'Error response'")


def test_leader_of_a_clip_lets_vllm_keep_its_prefix(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    calls, clip, decode = group(tmp_path / "data", 20_000)
    flags = ("--limit-mm-per-prompt", '{"image": 32}', "--max-model-len", "4096", "--enable-prompt-tokens-details")
    with vllm_server(checkpoint_of("qwen2_5_vl"), tmp_path / "server", *flags) as running:
        engine = OpenAIEngine(entry(running, concurrency=64))
        replies = [reply.outcome for reply in engine.generate(calls, {clip: decode()})]
        engine.close()
    answers = [reply for reply in replies if isinstance(reply, Answer)]
    assert len(answers) == len(calls) == 216, [reply for reply in replies if not isinstance(reply, Answer)][:2]
    # At most the shortest prompt is shared, by all but the leader.
    shareable = 215 * min(answer.input_tokens for answer in answers)
    cached = sum(answer.cached_tokens for answer in answers)
    print(f"{cached / shareable:.1%} of {shareable} shareable tokens")
    assert cached >= 0.95 * shareable


@pytest.mark.parametrize(
    ("models", "flags", "part", "after"),
    [
        (MODEL, ("--benchmarks", "unpie", "--tasks", "reconstruction", "--settings", "lm"), "predictions", 8),
        (
            "random",
            ("--judge", MODEL, "--benchmarks", "maia", "--tasks", "oevqa", "--settings", "1-frame"),
            "judgements",
            8,
        ),
    ],
    ids=["model", "judge"],
)
def test_killed_server_loses_and_doubles_nothing(
    models: str, flags: tuple[str, ...], part: str, after: int, server: VLLMServer, data: Path, tmp_path: Path
) -> None:
    file, out = tmp_path / "models.yaml", tmp_path / "out"
    settings = {
        "engine": "openai",
        "model": MODEL,
        "base_url": server.base_url,
        "concurrency": CONCURRENCY,
        "retries": 1_000,
        "generation": {"max_new_tokens": 8},
    }
    file.write_text(json.dumps({MODEL: settings}))
    command = [
        *(sys.executable, "-m", "jobs.cli", "run", "--models", models, "--models-file", str(file), *flags),
        *("--data", str(data), "--out", str(out), "--limit", "12"),
    ]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HF_HUB_OFFLINE": "1"}
    before = server.answers
    with (tmp_path / "log").open("wb") as log:
        sweep = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        while server.answers < before + after:
            assert sweep.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.2)
        server.kill()
        at_kill = server.answers - before
        server.launch()
        server.wait_until_up()
        assert sweep.wait(3_000) == 0, (tmp_path / "log").read_text()
    finally:
        if sweep.poll() is None:
            sweep.kill()
    rows = [row for path in sorted((out / part).rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    counts = json.loads((out / "status.json").read_text())["cells"]
    assert all(cell["done"] == cell["requests"] and not cell["failed"] for cell in counts), counts
    calls = server.answers - before
    print(f"{part}: {len(rows)} rows, {calls} answers of the server, {at_kill} before it was killed")
    if part == "predictions":
        assert len({row["request_id"] for row in rows}) == len(rows) == sum(cell["requests"] for cell in counts)
        assert {row["status"] for row in rows} == {"ok"}
        # An answer may be on its way when the server dies.
        assert len(rows) <= calls <= len(rows) + CONCURRENCY
    else:
        assert rows
