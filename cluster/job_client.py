"""Ray's job API: submit, follow and stop jobs."""

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

from cluster.connection import check_reachable
from cluster.errors import AddressError, ClusterError
from models.shell.connections import REQUESTS, check_connection

log = logging.getLogger(__name__)

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
POLL_S = 0.5
STOP_S = 30.0  # a stopped driver writes its status and closes its pools before it ends
PENDING_STOP_S = 2.0
AGENT_S, AGENT_PAUSE_S = 180.0, 2.0
NO_AGENT = "No available agent to submit job"
"""Reply of Ray's head, with status 500, until its node's agent has registered."""
NO_JOB = "does not exist"  # part of the head's reply, with status 404, about a job it does not know
MAX_UNREACHABLE_S = 300.0
"""A head that restarts behind a proxy is back within this time; the job does not depend on its followers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to submit."""

    entrypoint: str  # shell command line of the driver
    folder: Path  # sent unchanged; becomes the job's working directory
    env: Mapping[str, str]  # Variables of driver and workers. Ray shows them in logs and process arguments: no secrets.
    submission_id: str
    once: bool  # do not run a job of this name again that succeeded
    cpus: float = 0.0  # reserved for the driver; 0 keeps it on the head, which outlives the workers
    memory_bytes: int = 0
    worker_setup: str = ""  # dotted name of a function that each worker calls when it starts; '' for none


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The end of a job."""

    submission_id: str
    status: str  # SUCCEEDED, FAILED or STOPPED
    exit_code: int | None  # the driver's; None if it never started or was killed
    message: str


class _UnknownJobError(ClusterError):
    """The head does not know the job."""


class JobClient:
    """The jobs of one cluster, given its dashboard's address `http://HEAD:8265`.

    Raises:
        AddressError: the address has another form.
        ClusterError: nothing answers there, or the token is refused.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AddressError(f"--address {address}: give the head's dashboard, such as http://127.0.0.1:8265")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        check_reachable(f"{parts.hostname}:{port}")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            log.warning(
                "%s is not encrypted: token, variables and code can be read on the way; use a tunnel "
                "(ssh -L 8265:127.0.0.1:8265 HEAD) or https",
                address,
            )
        check_connection(REQUESTS, address)
        from ray.job_submission import JobSubmissionClient

        for module in ("dashboard_sdk", "job.sdk"):  # which show INFO lines of their own, such as of each upload
            logging.getLogger(f"ray.dashboard.modules.{module}").setLevel(logging.getLogger().getEffectiveLevel())
        self._address = address
        self._client = self._call(lambda: JobSubmissionClient(address))

    def submit(self, request: JobRequest) -> tuple[str, bool]:
        """Submit unless a job of this name runs or, with `once`, has succeeded; return the id and whether it is new.

        Ray accepts a name once; attempts after the first are called `NAME-2`, `NAME-3` and so on.
        """
        earlier = self.attempts(request.submission_id)
        if earlier and (earlier[-1][1] not in ENDED or (request.once and earlier[-1][1] == "SUCCEEDED")):
            return earlier[-1][0], False
        name = request.submission_id if not earlier else f"{request.submission_id}-{len(earlier) + 1}"
        runtime_env: dict[str, Any] = {"working_dir": str(request.folder), "env_vars": dict(request.env)}
        if request.worker_setup:
            runtime_env["worker_process_setup_hook"] = request.worker_setup
        resources: dict[str, Any] = {"entrypoint_num_cpus": request.cpus} if request.cpus else {}
        if request.memory_bytes:
            resources["entrypoint_memory"] = request.memory_bytes
        self._submit_with_retries(
            lambda: self._client.submit_job(
                entrypoint=request.entrypoint, submission_id=name, runtime_env=runtime_env, **resources
            )
        )
        return name, True

    def _submit_with_retries(self, submit: Callable[[], Any]) -> None:
        """Submit; a head that has just started answers before it has an agent that accepts jobs."""
        deadline = time.monotonic() + AGENT_S
        while True:
            try:
                self._call(submit)
            except ClusterError as error:
                if NO_AGENT not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"{error} It accepted no job for {AGENT_S:g} s: see dashboard_agent.log on the head"
                    ) from error
                log.warning("%s accepts no jobs yet, as right after a start; retrying", self._address)
                time.sleep(AGENT_PAUSE_S)
            else:
                return

    def attempts(self, name: str) -> list[tuple[str, str]]:
        """Return all attempts of a name as (submission id, status), first to last."""
        pattern = re.compile(re.escape(name) + r"(?:-(\d+))?")
        attempts = []
        for job in self._call(self._client.list_jobs):
            match = pattern.fullmatch(job.submission_id or "")
            if match:
                attempts.append((int(match[1] or 1), str(job.submission_id), str(job.status)))
        return [(submission_id, status) for _, submission_id, status in sorted(attempts)]

    def stop(self, name: str) -> list[str]:
        """Stop the jobs of a name, wait until they have ended, and return their submission ids.

        A pending job cannot be reached: Ray remembers the request and ends it once it has started.
        """
        running = [job for job, status in self.attempts(name) if status not in ENDED]
        for job in running:
            self._stop(job)
        return running

    def _stop(self, job: str) -> None:
        self._call(lambda: self._client.stop_job(job))
        deadline = time.monotonic() + STOP_S
        while (status := str(self._info(job).status)) not in ENDED:
            if status == "PENDING" and time.monotonic() > deadline - STOP_S + PENDING_STOP_S:
                return
            if time.monotonic() > deadline:
                raise ClusterError(f"job {job} does not stop; see the cluster's dashboard at {self._address}")
            time.sleep(POLL_S)

    def follow(self, job: str, *, pending_s: float, write: Callable[[str], None]) -> JobResult:
        """Write the job's log as it grows, until the job ends.

        A job that is pending for more than `pending_s` is stopped.

        Raises:
            ClusterError: it did not start in time, the head no longer knows it, or is unreachable for minutes.
        """
        from aiohttp import ClientError

        self._wait_for_start(job, pending_s)
        shown, lost_since = 0, 0.0
        while True:
            try:
                info = self._info(job)
                if str(info.status) in ENDED:
                    break
                shown = asyncio.run(self._tail(job, shown, write))
            except _UnknownJobError:
                raise
            except (ClusterError, OSError, RuntimeError, ClientError) as error:
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > MAX_UNREACHABLE_S:
                    raise ClusterError(
                        f"{error}; the job may still run. Run the same command again to follow it"
                    ) from error
                log.info("following %s: %s", job, error)
            else:
                lost_since = 0.0
            time.sleep(POLL_S)
        remaining = str(self._call(lambda: self._client.get_job_logs(job)))[shown:]
        if remaining:
            write(remaining)
        return JobResult(
            submission_id=job, status=str(info.status), exit_code=info.driver_exit_code, message=info.message or ""
        )

    def _wait_for_start(self, job: str, pending_s: float) -> None:
        deadline = time.monotonic() + pending_s
        while str((info := self._info(job)).status) == "PENDING":
            if time.monotonic() > deadline:
                self._stop(job)
                raise ClusterError(
                    f"job {job} did not start within {pending_s:g} s and will be stopped as soon "
                    f"as it does ({' '.join((info.message or '').split())[:200]}); request fewer "
                    "entrypoint resources, add a node, or give a longer --pending-timeout"
                )
            time.sleep(POLL_S)

    async def _tail(self, job: str, shown: int, write: Callable[[str], None]) -> int:
        """Write the log after its first `shown` characters; return the new length."""
        seen = 0
        async with aclosing(self._client.tail_job_logs(job)) as chunks:
            async for chunk in chunks:
                new_text = chunk[max(0, shown - seen) :]
                seen += len(chunk)
                if new_text:
                    write(new_text)
        return max(seen, shown)

    def _info(self, job: str) -> Any:
        """Return what the head knows of a job; _UnknownJobError if it knows none of this name."""
        try:
            return self._call(lambda: self._client.get_job_info(job))
        except ClusterError as error:
            if NO_JOB not in str(error):
                raise
            raise _UnknownJobError(
                f"{self._address} no longer knows job {job}: the head was restarted or replaced, and the job ended; "
                "rerun the command to resume"
            ) from error

    def _call(self, request: Callable[[], Any]) -> Any:
        """Send a request to the head; errors of the client library become a `ClusterError` with a remedy."""
        from ray.exceptions import AuthenticationError

        try:
            return request()
        except AuthenticationError as error:
            raise ClusterError(
                f"{self._address} does not accept the token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH (or "
                "RAY_AUTH_TOKEN) to the token that the head was started with"
            ) from error
        except (OSError, RuntimeError) as error:  # requests' errors are OSErrors
            raise ClusterError(f"{self._address}: {' '.join(str(error).split())[:400]}") from error
