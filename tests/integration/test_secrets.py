"""Planted secrets appear nowhere: arguments of processes, logs, the store, home, printed output.

One sweep on S3, whose endpoint quotes the key in some of its refusals, and one sent to a cluster that knows neither the
model's key nor the store's, so that all of its processes get them by `--env`.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import requests

from tests.chaos.processes import ending
from tests.integration.conftest import S3, s3_server
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import Action, EndpointRequest, Say, Status
from tests.support.ray_head import RayHead, ray_head

KEY = "sk-planted-4f1c-of-the-model"


QUOTED: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    lambda header: base64.b64encode(header.encode()).decode(),
    lambda header: " ".join(header[start : start + 6] for start in range(0, len(header), 6)),
)
KEY_FORMS = {f"model key, form {number}": quoted(f"Bearer {KEY}").encode() for number, quoted in enumerate(QUOTED)}


def quoting(request: EndpointRequest) -> Action:
    """Refuse every third question with a message that quotes the key, each time in another form."""
    if request.number % 3 == 0:
        quoted = QUOTED[request.number // 3 % len(QUOTED)]
        return Status(status=400, message=f"no luck with {quoted(request.headers['authorization'])}")
    return Say(text="A", delay_s=0.05)


def leaks(content: bytes, secrets: dict[str, bytes]) -> list[str]:
    return [name for name, secret in secrets.items() if secret in content]


def in_files(folder: Path, secrets: dict[str, bytes]) -> set[str]:
    results = set()
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                results |= {f"{path}: {name}" for name in leaks(path.read_bytes(), secrets)}
        except OSError:  # deleted since it was listed
            continue
    return results


def in_arguments(root: int, secrets: dict[str, bytes]) -> set[str]:
    results = set()
    for process in (psutil.Process(root), *psutil.Process(root).children(recursive=True)):
        try:
            arguments = " ".join(process.cmdline()).encode()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        results |= {f"arguments of {arguments[:80]!r}: {name}" for name in leaks(arguments, secrets)}
    return results


def in_store(s3: S3, secrets: dict[str, bytes]) -> set[str]:
    client = s3.client()
    keys = [item["Key"] for item in client.list_objects_v2(Bucket="bench").get("Contents", [])]
    assert any("predictions/" in key for key in keys)
    assert any(key.endswith("index.html") for key in keys)
    read = {key: client.get_object(Bucket="bench", Key=key)["Body"].read() for key in keys}
    return {f"s3 {key}: {name}" for key, content in read.items() for name in leaks(content, secrets)}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_planted_secrets_appear_in_no_output(command_env: dict[str, str], maia_data: str, tmp_path: Path) -> None:
    models, log = tmp_path / "models.yaml", tmp_path / "log"
    observed: set[str] = set()
    with ScriptedEndpoint(quoting) as endpoint, s3_server(tmp_path / "moto") as s3:
        entry = f"engine: openai, model: m, base_url: '{endpoint.base_url}', api_key_env: PLANTED, replicas: {{max: 2}}"
        models.write_text(f"m: {{{entry}}}\n")
        env = {**command_env, **s3.env, "PLANTED": KEY}
        secrets = {"model key": KEY.encode(), "store secret": s3.env["AWS_SECRET_ACCESS_KEY"].encode(), **KEY_FORMS}
        flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
        common_flags = (
            "--settings",
            "1-frame",
            "--limit",
            "12",
            "--data",
            maia_data,
            "--out",
            "s3://bench/out",
            "--verbose",
        )
        command = [sys.executable, "-m", "jobs.cli", "run", *flags, *common_flags, "--log-format", "json"]
        with log.open("wb") as out:
            process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
        with ending(process):
            while process.poll() is None:
                observed |= in_arguments(process.pid, secrets)
                time.sleep(1)
        text = log.read_text()
        assert process.returncode == 1, text  # refused rows are errors
        observed |= in_store(s3, secrets)
    observed |= in_files(tmp_path, secrets) | in_files(Path(command_env["HOME"]), secrets)
    assert observed == set()


def in_anybody_s_arguments(secrets: dict[str, bytes]) -> set[str]:
    """Return leaks in the arguments of all processes: a cluster's are not our children."""
    results = set()
    for process in psutil.process_iter(["cmdline"]):
        arguments = " ".join(process.info["cmdline"] or ()).encode()
        results |= {f"arguments of a process: {name}" for name in leaks(arguments, secrets)}
    return results


def in_answers(head: RayHead, job: str, secrets: dict[str, bytes]) -> set[str]:
    """Return leaks in the cluster's API responses about the job, its runtime environments and its processes."""
    states = [f"/api/v0/{kind}?detail=1" for kind in ("actors", "jobs", "runtime_envs", "tasks", "workers")]

    def answer(path: str) -> requests.Response:
        response = requests.get(head.url + path, headers={"Authorization": f"Bearer {head.token}"}, timeout=60)
        assert response.ok, f"{path}: {response.text[:300]}"
        return response

    summary = "/nodes?view=summary"
    nodes = [f"/nodes/{node['raylet']['nodeId']}" for node in answer(summary).json()["data"]["summary"]]
    assert nodes
    jobs = ("/api/jobs/", f"/api/jobs/{job}", f"/api/jobs/{job}/logs")
    return {
        f"{path}: {name}" for path in (*jobs, *states, summary, *nodes) for name in leaks(answer(path).content, secrets)
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_job_variables_appear_in_no_log_and_reach_all_processes(maia_data: str, tmp_path: Path) -> None:
    key, store_key, marked = (f"planted-{os.urandom(12).hex()}" for _ in range(3))
    secrets = {"model key": key.encode(), "store secret": store_key.encode(), "plain variable": marked.encode()}
    # What travels in their place: a reader of the command line would have seen them.
    sealed = {"sealed": b"VLMSWEEP_SEALED"}

    def with_the_key_alone(request: EndpointRequest) -> Action:
        if request.headers.get("authorization") != f"Bearer {key}":
            return Status(status=401, message="who are you?")
        return Say(text="A", delay_s=0.2)

    models, log = tmp_path / "models.yaml", tmp_path / "log"
    observed: set[str] = set()
    with (
        ScriptedEndpoint(with_the_key_alone) as endpoint,
        s3_server(tmp_path / "moto") as s3,
        ray_head("--num-cpus=2") as head,
    ):
        models.write_text(f"m: {{engine: openai, model: m, base_url: '{endpoint.base_url}', api_key_env: PLANTED}}\n")
        sent = {**s3.env, "AWS_SECRET_ACCESS_KEY": store_key, "PLANTED": key, "MARK": marked}
        flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv", "--verbose")
        common_flags = ("--settings", "1-frame", "--limit", "12", "--data", maia_data, "--out", "s3://bench/out")
        names = [word for name in sent for word in ("--env", name)]
        command = [sys.executable, "-m", "jobs.cli", "submit", *flags, *common_flags, "--address", head.url, *names]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--submission-id", "planted"], env={**head.env, **sent}, stdout=out, stderr=out
            )
        with ending(process):
            while process.poll() is None:
                observed |= in_anybody_s_arguments(secrets | sealed)
                time.sleep(0.1)
        assert process.returncode == 0, log.read_text()
        observed |= in_answers(head, "planted", secrets | sealed) | in_files(head.folder, secrets | sealed)
        observed |= in_store(s3, secrets) | in_files(tmp_path, secrets)
    assert {leak for leak in observed if not leak.endswith("sealed")} == set()
    where = {leak.partition(":")[0].rpartition("/")[2] for leak in observed}
    assert {"arguments of a process", "planted", "runtime_env_agent.log"} <= where
