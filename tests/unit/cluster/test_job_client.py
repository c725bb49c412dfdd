"""Requests to a head that accepts no jobs yet, scripted by a server on loopback."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster import job_client as jobs
from cluster.errors import ClusterError
from cluster.job_client import JobClient, JobRequest
from cluster.ray_private import forget_token

REFUSED = "No available agent to submit job, please try again later."


class Head(BaseHTTPRequestHandler):
    """Answers what Ray's client asks on its way to a submission."""

    refusals = 0
    refusal = REFUSED
    orders: list[dict[str, object]]
    states: list[str]
    """Status of the job `night` at each question, '' for a head that does not know it."""

    def log_message(self, *args: object) -> None:
        """Silence."""

    def do_GET(self) -> None:
        if self.states and "/jobs/night" in self.path:
            return self._say_state()
        version = {"version": "4", "ray_version": "2.60.0", "ray_commit": "x", "session_name": "s"}
        return self._say(200, json.dumps(version if self.path.endswith("/version") else []))

    def _say_state(self) -> None:
        """Answer about the job: the last state is that of all further questions, and its log is never served."""
        if "/logs" in self.path:
            return self._say(404, "Job night does not exist")
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        details = {"type": "SUBMISSION", "submission_id": "night", "status": state, "entrypoint": "true"}
        return self._say(*((200, json.dumps(details)) if state else (404, "Job night does not exist")))

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.orders.append(order)
        if len(self.orders) <= self.refusals:
            self._say(500, self.refusal)
        else:
            self._say(200, json.dumps({"job_id": order["submission_id"], "submission_id": order["submission_id"]}))

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(200, "")

    def _say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Head]]]:
    monkeypatch.setattr(jobs, "AGENT_PAUSE_S", 0.01)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    forget_token()  # Ray remembers the mode of an embedded cluster that this process had before
    kind = type("One", (Head,), {"orders": [], "states": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", kind
    server.shutdown()
    thread.join()
    server.server_close()


def order(folder: Path) -> JobRequest:
    (folder / "code.py").write_text("")
    return JobRequest(
        entrypoint="true", folder=folder, env={"SEEN": "1"}, submission_id="night", once=False, worker_setup="a.b"
    )


def test_starting_head_is_retried(
    head: tuple[str, type[Head]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, kind = head
    kind.refusals = 3
    assert JobClient(url).submit(order(tmp_path)) == ("night", True)
    assert [order["submission_id"] for order in kind.orders] == ["night"] * 4
    assert kind.orders[-1]["runtime_env"]["env_vars"] == {"SEEN": "1"}
    assert kind.orders[-1]["runtime_env"]["worker_process_setup_hook"] == "a.b"
    assert "accepts no jobs yet" in caplog.text


@pytest.mark.parametrize(("level", "is_shown"), [(logging.WARNING, False), (logging.INFO, True)])
def test_lines_of_rays_client_are_shown_with_verbose_alone(
    head: tuple[str, type[Head]], tmp_path: Path, caplog: pytest.LogCaptureFixture, level: int, is_shown: bool
) -> None:
    caplog.set_level(level)
    caplog.handler.setLevel(logging.NOTSET)  # as a terminal's handler, which shows all that a logger lets through
    logger = logging.getLogger("ray")  # whose records reach no handler of the root
    logger.addHandler(caplog.handler)
    try:
        JobClient(head[0]).submit(order(tmp_path))
    finally:
        logger.removeHandler(caplog.handler)
    assert any(record.name.startswith("ray.") for record in caplog.records) is is_shown


def test_head_without_jobs(head: tuple[str, type[Head]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, kind = head
    kind.refusals = 10**9
    clock = SimpleNamespace(monotonic=count(0.0, 100.0).__next__, sleep=lambda _: None)
    monkeypatch.setattr(jobs, "time", clock)
    with pytest.raises(ClusterError, match=r"No available agent.*accepted no job for 180 s: see dashboard_agent.log"):
        JobClient(url).submit(order(tmp_path))
    assert len(kind.orders) > 1


def test_other_refusals_are_reported_at_once(head: tuple[str, type[Head]], tmp_path: Path) -> None:
    url, kind = head
    kind.refusals, kind.refusal = 1, "the disk is full"
    with pytest.raises(ClusterError, match="the disk is full"):
        JobClient(url).submit(order(tmp_path))
    assert len(kind.orders) == 1


def test_job_that_a_restarted_head_does_not_know_is_reported_at_once(head: tuple[str, type[Head]]) -> None:
    url, kind = head
    kind.states = ["RUNNING", "RUNNING", ""]
    with pytest.raises(ClusterError, match=r"no longer knows job night: .* rerun the command to resume"):
        JobClient(url).follow("night", pending_s=5, write=print)
    assert kind.states == [""]


def test_follower_outlives_a_log_that_is_not_served(
    head: tuple[str, type[Head]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url, kind = head
    kind.states = ["RUNNING", "RUNNING", "FAILED"]
    caplog.set_level("INFO", logger=jobs.log.name)
    monkeypatch.setattr(jobs, "POLL_S", 0.01)
    client = JobClient(url)
    monkeypatch.setattr(client._client, "get_job_logs", lambda job: f"log of {job}")
    seen: list[str] = []
    assert client.follow("night", pending_s=5, write=seen.append).status == "FAILED"
    assert seen == ["log of night"]
    assert "following night: 404" in caplog.text
