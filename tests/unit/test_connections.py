"""Modules of the product that may open connections: a short list, none of which a data set controls.

Addresses that come with a data set are asked by `unpie.download` alone, at ingest, and only public ones
(tests/unit/pipelines/benchmarks/unpie/test_pictures.py: names, redirects, DNS). Endpoints are a user's own choice.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.paths import ROOT

REACHES = {
    *("aiohttp", "boto3", "ftplib", "http", "httpx", "httpx2", "huggingface_hub", "openai", "requests", "s3fs"),
    *("smtplib", "socket", "urllib", "urllib3", "websockets"),
}
PURE = {"urllib.parse"}
ALLOWED = {
    "cluster/job_client.py": {"aiohttp"},  # names errors of Ray's client, at --address
    "cluster/connection.py": {"socket"},  # whether --address answers
    "jobs/serve/run.py": {"socket"},  # the socket at which it listens
    "jobs/view/run.py": {"socket"},  # listens at 127.0.0.1
    "jobs/shared/web.py": {"socket"},  # listens for `serve` and `view`
    "models/engines/endpoints/batch_api.py": {"httpx2"},  # as the engines
    "models/engines/endpoints/engine.py": {"httpx2"},  # base_url of the user's models file
    "models/engines/tensor_parallel/engine.py": {"socket"},  # the ranks' meeting point, on 127.0.0.1
    "models/engines/weight_store.py": {"huggingface_hub"},  # looks into its cache
    "models/engines/transformers/model_config.py": {"huggingface_hub"},  # names its errors and looks into its cache
    "models/scratch.py": {"socket"},  # this machine's name
    "models/engines/transformers/fetch.py": {"boto3"},  # s3:// of the user's models file
    "models/engines/hub.py": {"httpx2", "huggingface_hub"},  # commits of hub ids in the user's models file
    "pipelines/benchmarks/unpie/download.py": {"http", "socket"},  # pictures by address, at ingest, public hosts only
    "pipelines/ingest/table.py": {"huggingface_hub"},  # hf://datasets/... that a user ingests
    "pipelines/storage/lock.py": {"socket"},  # this machine's name
    "pipelines/score/text_scorers.py": {"requests"},  # whether the hub is there, for scorers by name
    "pipelines/storage/s3_store.py": {"s3fs"},  # --data, --out
}


def reaching(path: Path) -> set[str]:
    """Return the modules by which a file could open connections."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names if name not in PURE} & REACHES


def test_only_listed_modules_use_the_network() -> None:
    modules = {
        path.relative_to(ROOT).as_posix(): reaching(path)
        for room in ("cluster", "jobs", "models", "pipelines")
        for path in (ROOT / room).rglob("*.py")
    }
    assert len(modules) > 100
    assert {path: names for path, names in modules.items() if names} == ALLOWED


def test_pictures_are_downloaded_only_at_ingest() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for room in ("cluster", "jobs", "models", "pipelines")
        for path in (ROOT / room).rglob("*.py")
        if "unpie.download" in path.read_text() and path.name != "download.py"
    }
    assert users == {"pipelines/benchmarks/unpie/pictures.py", "pipelines/benchmarks/unpie/source.py"}
