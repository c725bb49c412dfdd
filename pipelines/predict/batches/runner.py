"""Run a job's units through batches: replay each, send the calls that lack a result, commit what is complete."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import closing
from functools import partial

from cluster.threads import run_in_thread
from models.engines import open_batch_api
from models.errors import BatchApiError, EngineUnreachableError
from models.messages import Media
from pipelines.errors import ModelUnavailableError
from pipelines.logging_context import log_context
from pipelines.plan.units import WorkUnit, count_requests
from pipelines.predict.batches.queue import BatchQueue
from pipelines.predict.batches.records import BatchRecords
from pipelines.predict.batches.replay import Replayed, Replayer
from pipelines.predict.records import Job, Receipt
from pipelines.storage.lock import check_lock
from pipelines.storage.store import Store

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
PAUSE_GROWTH = 1.5
MAX_FAILED_POLLS = 20
"""Consecutive looks at the batches in flight without a reply, after which the provider counts as unreachable."""
CANCEL_S = 15.0  # how long an interrupted run waits for the results of the batches that it cancels
COMMIT_S = 10.0  # how long it may then take to commit them


class BatchRunner:
    """Answers the units of one job, in the order in which their calls are answered.

    A unit whose calls are not all answered waits, with nothing of it in memory but their ids. It is replayed when they
    are: then it is complete, or lacks its next steps, or calls whose batch ended without them.
    """

    def __init__(
        self, job: Job, on_receipt: Callable[[Receipt], None], *, note: Callable[[str], None], stop: threading.Event
    ) -> None:
        """Open output and provider; `note` gets sentences about the wait, `stop` ends the run early."""
        out = Store(job.out)
        self._job, self._on_receipt, self._note, self._stop = job, on_receipt, note, stop
        self._api = open_batch_api(job.spec)
        self._records = BatchRecords(out, job.model)
        check_owner = partial(check_lock, out, job.lock_token)
        self._queue = BatchQueue(job.spec, self._api, self._records, check_owner=check_owner, sleep=stop.wait)
        self._replayer = Replayer(job.work, self._queue.decoding)
        self._ready = deque(range(len(job.units)))
        self._waiting: dict[int, set[str]] = {}
        self._waiting_for: dict[str, list[int]] = {}

    def run(self) -> None:
        """Run all units, or end early once `stop` is set: batches in flight are cancelled, what is finished is kept.

        Raises:
            BatchApiError: the provider cannot be reached, or refuses or has lost a batch.
            EngineUnreachableError: the provider refuses the account or the entry.
            StoreError: the store failed after retries.
        """
        self._queue.restore()
        while (self._ready or self._waiting) and not self._stop.is_set():
            has_room = self._visit_ready()
            if not self._ready or not has_room:
                self._queue.flush()
            if self._waiting or not has_room:
                self._wait()
        if self._stop.is_set():
            self._end_early()
        else:
            self._queue.close()

    def close(self) -> None:
        """End connections and processes."""
        self._replayer.close()
        self._api.close()

    def _visit_ready(self) -> bool:
        """Visit the units that wait for nothing; return False where one of them must wait for a batch in flight."""
        while self._ready and len(self._queue.followed) < self._queue.capacity and not self._stop.is_set():
            index = self._ready.popleft()
            if not self._visit(index):
                self._ready.appendleft(index)
                return False
        return not self._ready or self._stop.is_set()

    def _visit(self, index: int) -> bool:
        unit, queue = self._job.units[index], self._queue
        replayed = self._replayer.replay(unit, queue.outcomes, with_pixels=False)
        if not all(queue.holds(custom_id) for custom_id in replayed.missing):
            replayed = self._replayer.replay(unit, queue.outcomes, with_pixels=True)
        is_sent = self._send_missing(unit, replayed)
        if not is_sent:
            return False
        missing = {custom_id for custom_id in replayed.missing if custom_id not in queue.outcomes}
        if missing:
            self._waiting[index] = missing
            for custom_id in missing:
                self._waiting_for.setdefault(custom_id, []).append(index)
        elif replayed.missing:  # some calls could not be sent, and have failures by now
            self._ready.appendleft(index)
        else:
            self._commit(unit, replayed)
        return True

    def _send_missing(self, unit: WorkUnit, replayed: Replayed) -> bool:
        pictures: dict[Media, list[str]] = {}
        folder = unit.part.rpartition("/")[0]
        return all(
            self._queue.holds(custom_id) or self._queue.add(custom_id, call, replayed.media, pictures, folder)
            for custom_id, call in replayed.missing.items()
        )

    def _commit(self, unit: WorkUnit, replayed: Replayed) -> None:
        with log_context(part=unit.part):
            receipt = self._replayer.commit(unit, replayed, self._api.warnings)
            self._queue.forget({row["request_id"] for row in replayed.rows})
            self._on_receipt(receipt)

    def _wait(self) -> None:
        """Poll, ever less often, until a batch has ended or the run is to stop."""
        pause, failures = FIRST_PAUSE_S, 0
        while not self._stop.is_set():
            if not self._queue.followed:
                self._explain_loss()
                return
            self._note(self._progress())
            self._stop.wait(min(pause, self._job.spec.batch_poll_s))
            try:
                released = self._queue.poll()
            except BatchApiError as error:
                failures += 1
                if not error.is_transient or failures >= MAX_FAILED_POLLS:
                    raise
                log.warning("%s; %d of %d attempts", error, failures, MAX_FAILED_POLLS)
                released = set()
            else:
                failures = 0
            self._release(released)
            if released:
                return
            pause *= PAUSE_GROWTH

    def _release(self, custom_ids: set[str]) -> None:
        """Make units ready whose calls are all released."""
        for custom_id in custom_ids:
            for index in self._waiting_for.pop(custom_id, ()):
                self._waiting[index].discard(custom_id)
                if not self._waiting[index]:
                    del self._waiting[index]
                    self._ready.append(index)

    def _progress(self) -> str:
        followed = self._queue.followed
        total = sum(len(record.custom_ids) for record in followed)
        done = sum(self._queue.done.get(record.key, 0) for record in followed)
        minutes = (time.time() - min(record.created for record in followed)) / 60
        batches = "1 batch" if len(followed) == 1 else f"{len(followed)} batches"
        return f"{done:,} of {total:,} requests in {batches} answered, {minutes:.0f} min after sending"

    def _explain_loss(self) -> None:
        """Raise where units wait for batches that the provider has lost; nothing else is in flight by then."""
        if not self._waiting or not self._queue.lost or self._ready:
            return
        records = self._queue.lost
        names = ", ".join(record.batch_id for record in records)
        requests = sum(len(record.custom_ids) for record in records)
        paths = " ".join(self._records.address(record.key) for record in records)
        raise BatchApiError(
            f"the provider has no record of batch {names} ({requests:,} requests): check that the key belongs to the "
            f"project that sent it; if it is gone for good, delete {paths} and run the same command again, which sends "
            "and pays these requests again; all other answers are kept"
        )

    def _end_early(self) -> None:
        """Cancel batches in flight, and commit what they have answered."""
        if not self._queue.followed:
            return
        self._ready.clear()
        self._note("the batches in flight are cancelled; finished answers are collected")
        self._queue.cancel()
        deadline = time.monotonic() + CANCEL_S
        while self._queue.followed and time.monotonic() < deadline:
            try:
                self._release(self._queue.poll())
            except BatchApiError as error:
                log.warning("%s", error)
                break
            time.sleep(min(FIRST_PAUSE_S, self._job.spec.batch_poll_s))
        for index in self._ready:
            unit = self._job.units[index]
            replayed = self._replayer.replay(unit, self._queue.outcomes, with_pixels=False)
            if not replayed.missing:
                self._commit(unit, replayed)
        left = sum(len(record.custom_ids) for record in self._queue.followed)
        if left:
            log.warning("%d requests are being cancelled; the same command collects their answers", left)


def run_in_batches(job: Job, on_receipt: Callable[[Receipt], None], note: Callable[[str], None]) -> None:
    """Run a job through its provider's batch endpoint; Ctrl-C cancels what is in flight and keeps what is finished.

    The work is done in a thread, so that an interrupt cannot fall between a batch and its record.

    Raises:
        ModelUnavailableError: the provider cannot be reached, or refuses or has lost a batch.
        StoreError: the store failed after retries.
    """
    log.info("%d requests are sent in batches", count_requests(job.units))
    stop = threading.Event()

    def run() -> None:
        with closing(BatchRunner(job, on_receipt, note=note, stop=stop)) as runner:
            runner.run()

    running = run_in_thread(f"batches-{job.model}", run)
    try:
        while not wait([running], timeout=0.2).done:
            if job.is_stopped():
                stop.set()
    finally:
        stop.set()
        wait([running], timeout=CANCEL_S + COMMIT_S)
    try:
        running.result()
    except EngineUnreachableError as error:
        raise ModelUnavailableError(f"model {job.model!r}: {error}") from error


def warn_of_batches(job: Job) -> None:
    """Warn where a run that is not in batches may pay for requests that batches hold."""
    records = [record for record in BatchRecords(Store(job.out), job.model).load() if not record.is_ended]
    if records:
        log.warning(
            "model %r: %d requests are in batches at the provider; this run resends and pays the ones it needs. "
            "Use --batch to collect them instead",
            *(job.model, sum(len(record.custom_ids) for record in records)),
        )
