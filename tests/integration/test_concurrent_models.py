"""Two models on a cluster with two GPUs run concurrently, each on its own replica, and a judge after the first."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.chaos.processes import ending
from tests.integration.conftest import Cli
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import always
from tests.support.ray_head import ray_head

FLAGS = ("--benchmarks", "maia", "--tasks", "vsv,oevqa", "--settings", "black-video,1-frame", "--limit", "4")

RUN = """
import sys
from pathlib import Path
from jobs.cli.__main__ import main
from pipelines.predict import concurrent_judges, executor
from pipelines.score import judge

concurrent_judges.SLICE_UNITS, judge.UNIT_QUESTIONS = 1, 2
start, pools = executor._start_job_actor, Path(sys.argv.pop(1))
def noted(replicas):
    with pools.open("a") as file:
        file.write("started\\n")
    return start(replicas)
executor._start_job_actor = noted
main()
"""
"""The command line with small parts of a judge's questions; each start of a pool of replicas is noted."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_concurrent_models_share_the_gpus(maia_data: str, tmp_path: Path) -> None:
    """Ray only counts these GPUs: the models guess."""
    models, out = tmp_path / "models.yaml", tmp_path / "out"
    common = "engine: scripted, parameters_b: 1, replicas: {max: 1}, fault_injection: {on_gpu: true, call_s: 0.1}"
    entries = {"one": common, "two": common.replace("0.1", "1.2"), "judge": common}
    models.write_text("".join(f"{name}: {{{entry}}}\n" for name, entry in entries.items()))
    observed, judged = set[frozenset[str]](), set[Path]()
    with ray_head("--num-cpus=6", "--num-gpus=2") as head:
        pools = tmp_path / "pools"
        command = [sys.executable, "-c", RUN, str(pools), "run", "--models", "one,two", "--models-file", str(models)]
        common_flags = ["--data", maia_data, "--out", str(out), "--address", f"127.0.0.1:{head.gcs}"]
        dry = [*command, *FLAGS, *common_flags, "--dry-run", "--json"]
        schedule = json.loads(subprocess.run(dry, env=head.env, capture_output=True, check=True).stdout)["schedule"]
        assert (schedule["gpus"], [model["begins_s"] for model in schedule["models"]]) == (2, [0.0, 0.0])
        with (tmp_path / "log").open("wb") as log:
            judge = ("--judge", "judge")
            process = subprocess.Popen([*command, *FLAGS, *common_flags, *judge], env=head.env, stdout=log, stderr=log)
        with ending(process):
            deadline = time.monotonic() + 900
            while process.poll() is None:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                if (out / "status.json").exists():
                    cells = json.loads((out / "status.json").read_text())["cells"]
                    observed.add(frozenset(cell["model"] for cell in cells if cell["running"]))
                    if any(cell["model"] == "two" and cell["running"] for cell in cells):
                        judged |= set(out.glob("judgements/*/*/*.parquet"))
                time.sleep(0.1)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    assert max(len(models) for models in observed) == 2, observed
    assert len(judged) > 1
    # One for each model, and one for the judge beside them: both guess alike, so that nothing is left to ask.
    assert pools.read_text().split() == ["started"] * 3
    rows, verdicts = (
        [row for part in out.glob(f"{stage}/*/*/*.parquet") for row in pq.ParquetFile(part).read().to_pylist()]
        for stage in ("predictions", "judgements")
    )
    assert set(Counter(row["request_id"] for row in [*rows, *verdicts]).values()) == {1}
    assert Counter((row["model"], row["status"]) for row in rows) == {(name, "ok"): 72 for name in ("one", "two")}


@pytest.mark.full
def test_cost_limit_ends_the_run_and_a_higher_one_resumes_it(inline_cli: Cli, maia_data: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with ScriptedEndpoint(always("A")) as endpoint:
        models = tmp_path / "models.yaml"
        price = "{input_per_million: 100.0, output_per_million: 100.0}"
        models.write_text(
            f"paid: {{engine: openai, model: m, base_url: '{endpoint.base_url}', price: {price}}}\n"
            f"unpriced: {{engine: openai, model: m, base_url: '{endpoint.base_url}'}}\n"
        )
        flags = ("--models-file", str(models), "--benchmarks", "maia", "--data", maia_data, "--out", str(out))
        cells = ("--tasks", "vsv", "--settings", "1-frame")
        refused = inline_cli("run", "--models", "unpriced", *flags, *cells, "--cost-limit", "1", code=2)
        assert "set `price` in its entry" in refused.stderr
        stopped = inline_cli("run", "--models", "paid", *flags, *cells, "--cost-limit", "1.5", code=3)
        assert "the cost limit of $1.50 for this run is reached" in stopped.stderr
        first = len(endpoint.requests)
        assert 0 < first < 384
        line = json.loads((out / "run.json").read_text())["spending"][0]
        assert 1.4 < line["models"]["paid"]["dollars"] <= 1.55
        result = inline_cli("run", "--models", "paid", *flags, *cells, "--json")
        texts = Counter(request.text for request in endpoint.requests)
    payload = json.loads(result.stdout)
    assert (payload["requests"], payload["failed"]) == (384, 0)
    assert len(texts) == 384
    assert set(texts.values()) == {1}  # what was paid for was kept
    lines = json.loads((out / "run.json").read_text())["spending"]
    assert [item["limit"] for item in lines] == [1.5, None]
    report = (out / "report" / "index.html").read_text()
    assert "tokens read" in report
