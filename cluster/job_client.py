"""Ray's job API: submit, follow, stop. Knows nothing of what a job does."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cluster.connect import check_reachable
from cluster.errors import AddressError, ClusterError

log = logging.getLogger(__name__)

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
POLL_S = 0.5
STOP_S = 30.0
"""A driver that is stopped writes its status and shuts its pools before it ends."""
PENDING_STOP_S = 2.0
AGENT_S, AGENT_PAUSE_S = 180.0, 2.0
NO_AGENT = "No available agent to submit job"
"""What Ray's head answers with status 500 until its node's agent has told it of itself."""
OUT_OF_REACH_S = 300.0
"""A head that restarts behind a proxy is back within this; the job itself does not hang on who watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What to run, and under which name."""

    entrypoint: str
    """Shell command line of the driver."""
    folder: Path
    """Is sent as it is and becomes the job's working directory."""
    env: Mapping[str, str]
    """Variables of driver and workers. Ray shows them in its logs and in arguments of processes: nothing secret."""
    submission_id: str
    once: bool
    """A job of this name that succeeded is not run again."""
    cpus: float = 0.0
    """Reserved for the driver; 0 keeps it on the head, which outlives workers that come and go."""
    memory_bytes: int = 0
    worker_setup: str = ""
    """Dotted name of a function that each worker calls when it starts; '' for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """How a job ended."""

    submission_id: str
    status: str
    """SUCCEEDED, FAILED or STOPPED."""
    exit_code: int | None
    """The driver's; None where it never began or was killed."""
    message: str


class JobClient:
    """The jobs of one cluster.

    Args:
        address: `http://HEAD:8265`, the dashboard.

    Raises:
        AddressError: the address has another form.
        ClusterError: nobody answers there, or the token is not accepted.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AddressError(f"--address {address}: give the head's dashboard, such as http://127.0.0.1:8265")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        check_reachable(f"{parts.hostname}:{port}")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            log.warning(
                "%s is not encrypted: token, variables and code can be read on the way; better a tunnel "
                "(ssh -L 8265:127.0.0.1:8265 HEAD) or https",
                address,
            )
        from ray.job_submission import JobSubmissionClient

        self._address = address
        self._client = self._asked(lambda: JobSubmissionClient(address))

    def submit(self, order: JobRequest) -> tuple[str, bool]:
        """Submit, unless a job of this name is on its way or, with `once`, has succeeded.

        A name is used once by Ray; tries after the first are called `NAME-2`, `NAME-3` and so on.

        Returns:
            The submission id, and whether it is a new job.
        """
        earlier = self.tries(order.submission_id)
        if earlier and (earlier[-1][1] not in ENDED or (order.once and earlier[-1][1] == "SUCCEEDED")):
            return earlier[-1][0], False
        name = order.submission_id if not earlier else f"{order.submission_id}-{len(earlier) + 1}"
        runtime_env: dict[str, Any] = {"working_dir": str(order.folder), "env_vars": dict(order.env)}
        if order.worker_setup:
            runtime_env["worker_process_setup_hook"] = order.worker_setup
        resources: dict[str, Any] = {"entrypoint_num_cpus": order.cpus} if order.cpus else {}
        if order.memory_bytes:
            resources["entrypoint_memory"] = order.memory_bytes
        self._handed_in(
            lambda: self._client.submit_job(
                entrypoint=order.entrypoint, submission_id=name, runtime_env=runtime_env, **resources
            )
        )
        return name, True

    def _handed_in(self, hand_in: Callable[[], Any]) -> None:
        """Submit; a head that has just started answers before it has an agent that takes jobs."""
        deadline = time.monotonic() + AGENT_S
        while True:
            try:
                self._asked(hand_in)
            except ClusterError as error:
                if NO_AGENT not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"{error} It took no job for {AGENT_S:g} s: see dashboard_agent.log on the head"
                    ) from error
                log.warning("%s takes no jobs yet, as a head does that has just started; trying again", self._address)
                time.sleep(AGENT_PAUSE_S)
            else:
                return

    def tries(self, name: str) -> list[tuple[str, str]]:
        """All tries of a name as (submission id, status), first to last."""
        pattern = re.compile(re.escape(name) + r"(?:-(\d+))?")
        found = []
        for job in self._asked(self._client.list_jobs):
            match = pattern.fullmatch(job.submission_id or "")
            if match:
                found.append((int(match[1] or 1), str(job.submission_id), str(job.status)))
        return [(one, status) for _, one, status in sorted(found)]

    def stop(self, name: str) -> list[str]:
        """Stop what runs under a name and wait until it has ended; returns the submission ids.

        A job that waits for a place cannot be reached before it has one: Ray keeps the word and ends it then.
        """
        open_ = [one for one, status in self.tries(name) if status not in ENDED]
        for one in open_:
            self._stop(one)
        return open_

    def _stop(self, job: str) -> None:
        self._asked(lambda: self._client.stop_job(job))
        deadline = time.monotonic() + STOP_S
        while (status := str(self._info(job).status)) not in ENDED:
            if status == "PENDING" and time.monotonic() > deadline - STOP_S + PENDING_STOP_S:
                return
            if time.monotonic() > deadline:
                raise ClusterError(f"job {job} does not stop; see the cluster's dashboard at {self._address}")
            time.sleep(POLL_S)

    def follow(self, job: str, *, pending_s: float, write: Callable[[str], None]) -> JobResult:
        """Hand the job's log on as it grows, until the job ends.

        Args:
            job: submission id.
            pending_s: seconds it may wait for a place; then it is stopped.
            write: takes text.

        Raises:
            ClusterError: it found no place in time, or the cluster is out of reach for minutes.
        """
        self._wait_for_start(job, pending_s)
        shown, lost_since = 0, 0.0
        while True:
            try:
                shown = asyncio.run(self._tail(job, shown, write))
                info = self._info(job)
            except (ClusterError, OSError, RuntimeError) as error:
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > OUT_OF_REACH_S:
                    raise ClusterError(f"{error}; the job may still run: the same command follows it again") from error
                log.info("following %s: %s", job, error)
                time.sleep(POLL_S)
                continue
            lost_since = 0.0
            if str(info.status) in ENDED:
                break
            time.sleep(POLL_S)
        rest = str(self._asked(lambda: self._client.get_job_logs(job)))[shown:]
        if rest:
            write(rest)
        return JobResult(
            submission_id=job, status=str(info.status), exit_code=info.driver_exit_code, message=info.message or ""
        )

    def _wait_for_start(self, job: str, pending_s: float) -> None:
        deadline = time.monotonic() + pending_s
        while str((info := self._info(job)).status) == "PENDING":
            if time.monotonic() > deadline:
                self._stop(job)
                raise ClusterError(
                    f"job {job} found no place within {pending_s:g} s and was told to stop: it ends as soon "
                    f"as it has one ({' '.join((info.message or '').split())[:200]}); ask for fewer "
                    "entrypoint resources, add a node, or give a longer --pending-timeout"
                )
            time.sleep(POLL_S)

    async def _tail(self, job: str, shown: int, write: Callable[[str], None]) -> int:
        """Hand on what comes after the first `shown` characters; returns how many there are now."""
        seen = 0
        async with aclosing(self._client.tail_job_logs(job)) as chunks:
            async for chunk in chunks:
                fresh = chunk[max(0, shown - seen) :]
                seen += len(chunk)
                if fresh:
                    write(fresh)
        return max(seen, shown)

    def _info(self, job: str) -> Any:
        return self._asked(lambda: self._client.get_job_info(job))

    def _asked(self, question: Callable[[], Any]) -> Any:
        """Ask the head; what the client library raises becomes a sentence with a remedy."""
        from ray.exceptions import AuthenticationError

        try:
            return question()
        except AuthenticationError as error:
            raise ClusterError(
                f"{self._address} does not accept the token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH (or "
                "RAY_AUTH_TOKEN) to what the head was started with"
            ) from error
        except (OSError, RuntimeError) as error:  # requests' errors are OSErrors
            raise ClusterError(f"{self._address}: {' '.join(str(error).split())[:400]}") from error
