"""Planted secrets are looked for everywhere: arguments of processes, Ray's logs, the store, home, what is printed.

One sweep on S3, whose endpoint quotes the key in some of its refusals, and one whose store refuses its credentials.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import S3, s3_server
from tests.support.endpoint import Action, Asked, Say, ScriptedEndpoint, Status

KEY = "sk-planted-4f1c-of-the-model"


def quoting(asked: Asked) -> Action:
    """Refuses every third question and says with which key it was asked."""
    if asked.number % 3 == 0:
        return Status(status=400, message=f"no luck with {asked.headers['authorization']}")
    return Say(text="A", delay_s=0.05)


def leaks(content: bytes, secrets: dict[str, bytes]) -> list[str]:
    return [name for name, secret in secrets.items() if secret in content]


def in_files(folder: Path, secrets: dict[str, bytes]) -> set[str]:
    found = set()
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                found |= {f"{path}: {name}" for name in leaks(path.read_bytes(), secrets)}
        except OSError:  # gone since it was listed
            continue
    return found


def in_arguments(root: int, secrets: dict[str, bytes]) -> set[str]:
    found = set()
    for process in (psutil.Process(root), *psutil.Process(root).children(recursive=True)):
        try:
            words = " ".join(process.cmdline()).encode()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        found |= {f"arguments of {words[:80]!r}: {name}" for name in leaks(words, secrets)}
    return found


def in_store(s3: S3, secrets: dict[str, bytes]) -> set[str]:
    client = s3.client()
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="bench").get("Contents", [])]
    assert any("predictions/" in key for key in keys)
    assert any(key.endswith("index.html") for key in keys)
    read = {key: client.get_object(Bucket="bench", Key=key)["Body"].read() for key in keys}
    return {f"s3 {key}: {name}" for key, content in read.items() for name in leaks(content, secrets)}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_planted_secrets_are_nowhere(command_env: dict[str, str], maia_data: str, tmp_path: Path) -> None:
    models, log, short = tmp_path / "models.yaml", tmp_path / "log", Path("/tmp")
    seen: set[str] = set()
    logs = 0
    with ScriptedEndpoint(quoting) as endpoint, s3_server(tmp_path / "moto") as s3:
        models.write_text(f"m: {{engine: openai, model: m, base_url: '{endpoint.base_url}', api_key_env: PLANTED}}\n")
        env = {**command_env, **s3.env, "PLANTED": KEY}
        secrets = {"model key": KEY.encode(), "store secret": s3.env["AWS_SECRET_ACCESS_KEY"].encode()}
        flags = ("--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--tasks", "vsv")
        place = ("--settings", "1-frame", "--limit", "12", "--data", maia_data, "--out", "s3://bench/out", "--verbose")
        command = [sys.executable, "-m", "jobs.cli", "run", *flags, *place, "--log-format", "json"]
        with log.open("wb") as out:
            process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
        try:
            while process.poll() is None:
                seen |= in_arguments(process.pid, secrets)
                for folder in short.glob(f"vlmsweep-{process.pid}-*"):  # Ray's own files, removed at the end
                    seen |= in_files(folder / "session_latest" / "logs", secrets)
                    logs += 1
                time.sleep(1)
        finally:
            process.kill()
            process.wait()
        told = log.read_text()
        assert process.returncode == 1, told  # refused rows are errors
        seen |= in_store(s3, secrets)
    assert logs > 3, "Ray's logs were never looked at"
    seen |= in_files(tmp_path, secrets) | in_files(Path(command_env["HOME"]), secrets)
    assert seen == set()
