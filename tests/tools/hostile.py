"""Run tests where the shell holds what breaks those that read it: `make test-hostile`, part of CI."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HOME": "/nonexistent/hub",
    "XDG_CACHE_HOME": "/nonexistent/cache",
    "HOME": "/nonexistent",
    "RAY_ADDRESS": "ray://127.0.0.1:1",
    "AWS_ACCESS_KEY_ID": "half of a pair",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_PROFILE": "absent",
    "OPENAI_API_KEY": "a user's own",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "HTTP_PROXY": "http://127.0.0.1:1",
    "https_proxy": "http://127.0.0.1:1",
    "ALL_PROXY": "socks5://127.0.0.1:1",
    "SSL_CERT_FILE": "/nonexistent/ca.pem",
    "REQUESTS_CA_BUNDLE": "/nonexistent/ca.pem",
    "CUDA_VISIBLE_DEVICES": "7",
    "OMP_NUM_THREADS": "1",
    "NO_COLOR": "1",
    "FORCE_COLOR": "1",
    "COLUMNS": "40",
    "LC_ALL": "tr_TR.UTF-8",  # `i` and `I` are no pair
    "TZ": "America/St_Johns",  # half an hour off, with summer time
    "PYTHONHASHSEED": "4242",
    "PYTHONWARNINGS": "error",
}


def main(arguments: list[str]) -> int:
    """Run pytest with these variables and a tenth of the random inputs; all arguments are pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **VARIABLES, **turkish_locale(Path(folder))}
        command = [sys.executable, "-m", "pytest", "--hypothesis-profile", "few", *arguments]
        return subprocess.run(command, env=environment, check=False).returncode


def turkish_locale(folder: Path) -> dict[str, str]:
    """Compile the locale, which few machines have; without the sources for it the C library uses its default."""
    command = ["localedef", "-i", "tr_TR", "-f", "UTF-8", str(folder / "tr_TR.UTF-8")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"hostile environment without a Turkish locale: {error}", file=sys.stderr)
        return {}
    return {"LOCPATH": str(folder)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
