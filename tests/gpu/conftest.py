"""Run these tests on a CUDA device; with `--device cpu` their logic runs without one. Outcomes are recorded at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.bench.results import FILE, record

_OUTCOMES: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cuda", choices=("cuda", "cpu"), help="where the tests of tests/gpu run")
    parser.addoption("--results", default=str(FILE), help="results file, written on a CUDA device")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]  # what the wrapped hook returns
    if report.when == "call" and item.config.getoption("--device") == "cuda":
        crash = getattr(report.longrepr, "reprcrash", None)  # none where it was skipped
        message = f": {crash.message[:2000]}" if crash else ""
        _OUTCOMES[item.name] = f"{report.outcome} in {report.duration:.1f} s{message}"
        facts = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        record("gpu-tests", {**facts, "tests": _OUTCOMES}, Path(item.config.getoption("--results")))
    return report  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    if request.config.getoption("--device", default="cuda") == "cpu":
        yield torch.device("cpu")
        return
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device on this machine; with --device cpu the logic runs without one")
    yield torch.device("cuda", torch.cuda.current_device())
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()
