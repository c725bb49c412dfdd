"""Run these tests on a CUDA device; with `--device cpu` their logic runs without one."""

from collections.abc import Iterator

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cuda", choices=("cuda", "cpu"), help="where the tests of tests/gpu run")


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
