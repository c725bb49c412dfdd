"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.durations import Durations, read_records
from tests.support.environment import remove_library_settings, remove_process_settings
from tests.support.paths import SHARED_DATA

# Before a test imports the libraries that read them.
remove_library_settings(os.environ)

# Tests share the cores, here and in the processes that they start: threads that wait for others must not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The same examples every time: a red test is then red for everybody. `--hypothesis-profile default` explores.
# Speed is measured by `make bench` alone, and a busy machine is no fault of a strategy.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# A shell's background job ignores Ctrl-C, one of `nohup` a closed terminal, and so would all that is started here,
# tests of these signals among it.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

SLICES = 8

REAL_MAIA = SHARED_DATA / "maia"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let CI, which has a limited time on machines of any speed, say when to begin no further test."""
    parser.addoption("--skip-after", type=float, help="skip what has not begun by this time, in seconds since 1970")
    parser.addoption(
        "--slice", metavar="COMMIT", help=f"of the tests marked `full`, run one in {SLICES}, by the commit's hash"
    )
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.csv")


def pytest_configure(config: pytest.Config) -> None:
    """Compare the times of test files with their records, in the process that sees all reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other slices, and begin with the files that take longest, so that no worker ends alone.

    About three times as many commits as there are slices run every test.
    """
    if commit := config.getoption("--slice"):
        full = sorted((item for item in items if {"full", "fuzz"} & {*item.keywords}), key=lambda item: item.nodeid)
        left_out = {*full} - {*full[int(commit[:8], 16) % SLICES :: SLICES]}
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    seconds: Counter[str] = Counter()
    for (name, _), took in read_records().items():
        seconds[name] += took
    items.sort(key=lambda item: -seconds[item.nodeid.partition("::")[0]])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test for which no time is left, with the command that runs it."""
    deadline = item.config.getoption("--skip-after")
    if deadline is not None and time.time() > deadline:
        pytest.skip("no time left on this slow machine: run `make test-slow`")


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> None:
    """Leave no variable that users set to the tests and their processes, whatever this process started with."""
    remove_process_settings(os.environ)
    sys.warnoptions.clear()  # multiprocessing passes them on to processes that it starts


@pytest.fixture(scope="module", autouse=True)
def unknown_tables() -> Iterator[None]:
    """Forget the table benchmarks that a module made known to this process."""
    from pipelines.benchmarks.known_tables import _KNOWN

    before = dict(_KNOWN)
    yield
    _KNOWN.clear()
    _KNOWN.update(before)


@pytest.fixture(scope="module", autouse=True)
def no_keys_left() -> Iterator[None]:
    """Fail a module whose fixtures leave keys of an object store to the tests that happen to follow."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    yield
    assert {name: value for name, value in os.environ.items() if name.startswith("AWS_")} == before


@pytest.fixture(scope="session")
def maia_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips of 40 numbered frames, 48 questions; from a process of their own.

    Where a process has decoded other media, the encoder may write other bytes: ids differ then, and so do guesses.
    """
    folder = tmp_path_factory.mktemp("maia")
    code = "import sys; from tests.support.maia_source import *; write_source(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, folder], cwd=Path(__file__).parents[1], check=True)
    return folder


@pytest.fixture(scope="session")
def maia_data(maia_source: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The two clips and their questions, ingested."""
    from pipelines.benchmarks import benchmark
    from pipelines.ingest.ingest import ingest_benchmark
    from pipelines.ingest.source_folder import Folder
    from pipelines.storage.store import Store

    data = tmp_path_factory.mktemp("data")
    ingest_benchmark(benchmark("maia"), Folder(str(maia_source)), Store(str(data)))
    return str(data)


@pytest.fixture(scope="session")
def vague_data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small VAGUE data set, ingested."""
    from pipelines.benchmarks import benchmark
    from pipelines.ingest.ingest import ingest_benchmark
    from pipelines.ingest.source_folder import Folder
    from pipelines.storage.store import Store
    from tests.support import vague_source

    folder = tmp_path_factory.mktemp("vague")
    source = Folder(str(vague_source.write_drive(folder / "source")))
    ingest_benchmark(benchmark("vague"), source, Store(str(folder / "data")))
    return str(folder / "data")


@pytest.fixture(scope="session")
def real_maia() -> Path:
    """Clips and questions as published, where this machine has them."""
    if not REAL_MAIA.is_dir():
        pytest.skip(f"the published MAIA clips are not at {REAL_MAIA}")
    return REAL_MAIA
