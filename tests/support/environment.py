"""Keep what users set in their shells out of tests, and out of the processes that tests start."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import MutableMapping

from tests.support.paths import ENGINES_PATH

_READ_BY_LIBRARIES = re.compile(
    r"(HF_|HUGGING|TRANSFORMERS_|RAY_|AWS_|OPENAI_|VLLM_|XDG_|SSL_CERT_).*|.*_PROXY|.*_CA_BUNDLE|CUDA_VISIBLE_DEVICES|OMP_NUM_THREADS",
    re.IGNORECASE,
)
"""Most are read once, where a library is imported."""
_READ_BY_THE_PROCESS = re.compile(
    r"(?!PYTHONHASHSEED|LC_ALL)(PYTHON|LC_).*|LANG|LANGUAGE|NO_COLOR|FORCE_COLOR|PY_COLORS|CLICOLOR.*|COLUMNS|LINES|TERMINAL_WIDTH|GITHUB_ACTIONS"
)
"""Python's start and the terminal's size, colours and language; `make test` draws the language and the time zone."""


def remove_library_settings(environment: MutableMapping[str, str]) -> None:
    """Remove the settings of libraries, before any of them is imported, and give the process an empty home."""
    _remove(environment, _READ_BY_LIBRARIES)
    environment["HOME"] = tempfile.mkdtemp(prefix="vlmsweep-home-")
    atexit.register(shutil.rmtree, environment["HOME"], ignore_errors=True)


def remove_process_settings(environment: MutableMapping[str, str]) -> None:
    """Remove the settings of Python and the terminal: this process has started with them, its children do not."""
    _remove(environment, _READ_BY_THE_PROCESS)
    environment["PYTHONPATH"] = ENGINES_PATH


def _remove(environment: MutableMapping[str, str], names: re.Pattern[str]) -> None:
    for name in [*filter(names.fullmatch, environment)]:
        del environment[name]
