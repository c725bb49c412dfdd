"""vLLM in processes of its own: two ranks, and an engine that is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from models.errors import EngineDiedError
from models.messages import Answer
from pipelines.benchmarks import benchmark
from pipelines.ingest.ingest import ingest_benchmark
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store
from tests.support import maia_source
from tests.support.ranked import predictions
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import MEDIA, PICTURE, calls_about
from tests.vllm.conftest import OpenEngine

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed here: `make test-vllm`"),
]


def engine_core(process: psutil.Process) -> psutil.Process:
    """Return vLLM's engine process: the oldest, since a child of it has its name until it calls exec."""
    cores = [child for child in process.children(recursive=True) if "EngineCore" in child.name()]
    return min(cores, key=psutil.Process.create_time)


def test_engine_process_killed_while_it_answers_is_reported_and_a_new_engine_answers(open_vllm: OpenEngine) -> None:
    engine = open_vllm("qwen2_5_vl")
    calls = calls_about((PICTURE,), limits=(4,))
    before = {reply.call_id: reply.outcome for reply in engine.generate(calls, MEDIA)}
    core = engine_core(psutil.Process())
    core.suspend()  # so that it has not answered when it is killed
    killer = threading.Timer(2.0, core.kill)
    killer.start()
    with pytest.raises(EngineDiedError):
        list(engine.generate(calls, MEDIA))
    killer.join()
    with pytest.raises(EngineDiedError):
        list(engine.generate(calls, MEDIA))
    after = {reply.call_id: reply.outcome for reply in open_vllm("qwen2_5_vl").generate(calls, MEDIA)}
    assert [o.text for o in after.values() if isinstance(o, Answer)] == [
        o.text for o in before.values() if isinstance(o, Answer)
    ]
    assert len(after) == len(calls)


def test_sweep_goes_on_after_its_engine_process_is_killed(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    data = tmp_path / "data"
    source = Folder(str(maia_source.write_source(tmp_path / "maia")))
    assert not ingest_benchmark(benchmark("maia"), source, Store(str(data))).rejections
    models, out, log = tmp_path / "models.yaml", tmp_path / "out", tmp_path / "log"
    settings = {"engine": "vllm", "model": str(checkpoint_of("qwen2_5_vl")), "dtype": "float32", "device": "cpu"}
    limits = {"max_frames": 4, "max_model_len": 1024, "max_pixels": 112 * 112}
    entry = {**settings, "limits": limits, "generation": {"max_new_tokens": 32}}
    models.write_text(json.dumps({"tiny": entry}))
    command = [
        *(sys.executable, "-m", "jobs.cli", "predict", "--models", "tiny", "--models-file", str(models)),
        *("--benchmarks", "maia", "--tasks", "vsv", "--data", str(data), "--out", str(out)),
    ]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HF_HUB_OFFLINE": "1"}
    with log.open("wb") as file:
        sweep = subprocess.Popen(command, env=env, stdout=file, stderr=file)
    try:
        while not predictions(out, "tiny"):
            assert sweep.poll() is None, log.read_text()
            time.sleep(0.1)
        core = engine_core(psutil.Process(sweep.pid))
        core.kill()
        done = len(predictions(out, "tiny"))
        assert sweep.wait(3_000) == 0, log.read_text()
    finally:
        if sweep.poll() is None:
            sweep.kill()
            sweep.wait()
    rows = predictions(out, "tiny")
    (cells,) = [json.loads((out / "status.json").read_text())["cells"]]
    assert done < len(rows) == sum(cell["requests"] for cell in cells)
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert json.loads((out / "run.json").read_text())["models"]["tiny"]["engine"] == "vllm"


def test_two_ranks_answer_as_one(open_vllm: OpenEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    # By default vLLM binds each rank to a separate NUMA node, and refuses to start where there are fewer nodes.
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    calls = calls_about((PICTURE,), limits=(4,))
    answers = []
    for ranks in (1, 2):
        engine = open_vllm("qwen2_5_vl", tensor_parallel=ranks)
        replies = list(engine.generate(calls, MEDIA))
        answers.append({reply.call_id: reply.outcome.text for reply in replies if isinstance(reply.outcome, Answer)})
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(calls)


def test_no_process_of_vllm_outlives_a_killed_replica(checkpoint_of: Checkpoints) -> None:
    code = (
        "import sys, time\n"
        "from models.engines.vllm.engine import VLLMEngine\n"
        "from models.entry_fields import Limits\n"
        "from models.spec import ModelSpec\n"
        "if __name__ == '__main__':\n"
        "    limits = Limits(max_model_len=1024)\n"
        "    spec = ModelSpec(engine='vllm', model=sys.argv[1], device='cpu', dtype='float32', limits=limits)\n"
        "    engine = VLLMEngine(spec)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(3600)\n"
    )
    command = [sys.executable, "-c", code, str(checkpoint_of("qwen2_5_vl"))]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as replica:
        assert replica.stdout
        assert any(line == "ready\n" for line in replica.stdout)
        children = psutil.Process(replica.pid).children(recursive=True)
        assert any("EngineCore" in child.name() for child in children)
        replica.kill()
    _, alive = psutil.wait_procs(children, timeout=60)
    for process in alive:
        process.kill()
    assert [process.pid for process in alive] == []
