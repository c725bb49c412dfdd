"""Outputs that pages are made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.view.run import viewer
from pipelines.plan.stored_plan import PlanRow
from pipelines.samples.outputs import open_outputs
from tests.support.viewer_output import Answer, metric, write_metrics, write_output

KEY = "secret"
Open = Callable[..., TestClient]


def answer(model: str, row: PlanRow) -> Answer:
    """Return answers of which some are wrong, unreadable or failed, differently by model."""
    number = hash_of(row)
    if model == "good":
        return {"output": f"good says {row.sample_id}", "latency_s": number / 10}
    if number % 7 == 0:
        return {"output": None, "status": "error", "error_type": "timeout", "error": "no reply", "right": False}
    if number % 5 == 0:
        return {"output": "mumble", "answer": None, "right": False}
    return {"output": f"poor says {number}", "right": number % 2 == 0}


def hash_of(row: PlanRow) -> int:
    """Return a small number that differs between rows."""
    return sum(map(ord, row.sample_id + row.task + row.variant)) % 97


@pytest.fixture(scope="session")
def out(maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two models on two clips; metrics of one of them."""
    uri = write_output(str(tmp_path_factory.mktemp("view") / "results"), maia_data, ["good", "poor"], answer)
    write_metrics(uri, [metric("good", "black-video", 0.625), metric("good", "black-video", 0.5, "Planning")])
    return uri


def open_all(stack: ExitStack, *uris: str, data: str = "") -> TestClient:
    """Open outputs, and wait until they are read."""
    app = stack.enter_context(viewer(open_outputs(uris, data), KEY))
    client = TestClient(app, base_url=f"http://127.0.0.1/{KEY}/", raise_server_exceptions=False)
    while "Reading the outputs" in client.get("").text:
        time.sleep(0.05)
    return client


@pytest.fixture
def opened() -> Iterator[Open]:
    """Open outputs for one test."""
    with ExitStack() as stack:
        yield partial(open_all, stack)


@pytest.fixture(scope="session")
def client(out: str) -> Iterator[TestClient]:
    """The application over the first output."""
    with ExitStack() as stack:
        yield open_all(stack, out)


@pytest.fixture
def copied(out: str, tmp_path: Path) -> str:
    """A copy of the output that a test may damage."""
    import shutil

    return str(shutil.copytree(out, tmp_path / "copy"))
