"""Sweeps that are submitted from outside the containers, and what they left in the store."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.containers.services import Services
from tests.support.paths import ROOT

__all__ = ["BUCKET", "REQUESTS", "Sweep"]

BUCKET = "vlmsweep"
REQUESTS = 1152
"""Statements of the sample data about a black picture and one frame."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep over the demo's data, by its name in the store."""

    services: Services
    name: str
    call_s: float = 0.0
    """Seconds that the model takes for each call."""

    def command(self, folder: Path) -> list[str]:
        """Return the command line of `vlmsweep submit`; the models file lies in `folder`."""
        models = folder / "models.yaml"
        models.write_text(
            f"slow: {{engine: scripted, replicas: {{max: 2}}, fault_injection: {{call_s: {self.call_s}}}}}\n"
        )
        return [
            *(sys.executable, "-m", "jobs.cli", "submit", "--models", "slow", "--models-file", str(models)),
            *("--benchmarks", "maia", "--tasks", "vsv", "--settings", "black-video,1-frame"),
            *("--address", "http://127.0.0.1:8265", "--code", "image"),
            *("--data", f"s3://{BUCKET}/data", "--out", f"s3://{BUCKET}/{self.name}"),
        ]

    def submit(self, env: Mapping[str, str], *, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Submit the sweep and follow it to its end; the environment's HOME takes the models file."""
        command = self.command(Path(env["HOME"]))
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout)

    def start(self, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Submit the sweep and follow it in the background."""
        with log.open("wb") as out:
            return subprocess.Popen(self.command(Path(env["HOME"])), cwd=ROOT, env=env, stdout=out, stderr=out)

    def keys(self) -> list[str]:
        """List the sweep's objects, without the sweep's name."""
        pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.name}/")
        return [item["Key"].removeprefix(f"{self.name}/") for page in pages for item in page.get("Contents", [])]

    def get(self, key: str) -> bytes:
        """Return the content of an object of the sweep."""
        return bytes(self._client().get_object(Bucket=BUCKET, Key=f"{self.name}/{key}")["Body"].read())

    def parts(self) -> list[str]:
        """List the committed parts."""
        return [key for key in self.keys() if key.startswith("predictions/") and key.endswith(".parquet")]

    def lost_or_doubled(self) -> list[str]:
        """Return what is wrong with the rows: requests that are missing, failed or there more than once."""
        tables = [pq.ParquetFile(io.BytesIO(self.get(key))).read(["request_id", "status"]) for key in self.parts()]
        rows = [row for table in tables for row in table.to_pylist()]
        counts = Counter(row["request_id"] for row in rows)
        wrong = [f"{name}: {count} times" for name, count in counts.items() if count != 1]
        wrong += [f"{row['request_id']}: {row['status']}" for row in rows if row["status"] != "ok"]
        return wrong + ([f"{len(counts)} of {REQUESTS}"] if len(counts) != REQUESTS else [])

    def _client(self) -> Any:
        """Return a client that retries, since the store may have just been restarted."""
        import boto3
        from botocore.config import Config

        values = self.services.secret_values()
        return boto3.client(
            "s3",
            endpoint_url="http://127.0.0.1:8333",
            aws_access_key_id=values["access key"],
            aws_secret_access_key=values["secret key"],
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 8, "mode": "standard"}),
        )
