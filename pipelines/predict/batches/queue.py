"""The batches of one model at its provider: sent, followed, collected; none is paid twice, whatever dies when."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import IO, Any

from models.engines.endpoints.batch_api import BatchApi, BatchState, SentBatch, describe
from models.engines.endpoints.budget import cost_limit_failure, estimate_tokens
from models.engines.endpoints.failures import FailedAttempt, backoff_s
from models.engines.endpoints.health import Health
from models.engines.endpoints.pictures import data_uris
from models.errors import BatchApiError, UnlistedBatchError
from models.messages import Answer, Call, Failure, Frames, Media
from models.spec import ModelSpec
from pipelines.errors import DamagedPartError
from pipelines.hashing import stable_id
from pipelines.predict.batches.batch_file import BatchFile
from pipelines.predict.batches.records import BatchRecord, BatchRecords
from pipelines.predict.batches.replay import EARLY, Outcome

log = logging.getLogger(__name__)

MAX_SENDS = 3  # how often a request is sent in a run whose batches end without a result for it
LISTS_NONE = frozenset({404, 405, 501})  # statuses of providers that do not list batches
FIND_PAUSE_S = 10.0  # before a provider is searched again for a batch that may just have been created


class BatchQueue:
    """Calls that are sent in batches, by custom id, and their outcomes.

    A record is written before a batch is created, and names it in the batch's metadata. So a run that died between the
    creation and the second write finds the batch in the provider's list, and does not pay for it again.
    """

    def __init__(
        self,
        spec: ModelSpec,
        api: BatchApi,
        records: BatchRecords,
        *,
        check_owner: Callable[[], None],
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        """`check_owner` raises where this run may not write the output, and so must not send; `now` is Unix time."""
        self._spec, self._api, self._records = spec, api, records
        self._check_owner, self._now, self._sleep = check_owner, now, sleep
        self.capacity = spec.batch_max_in_flight  # batches that may be at the provider at one time
        self._file = BatchFile(max_requests=spec.batch_max_requests, max_bytes=spec.batch_max_bytes)
        self._health = Health(api.endpoint.unreachable_message)
        self._omitted: dict[str, tuple[str, ...]] = {}  # parameters that were left out of answered calls, if any
        self._holders: dict[str, str] = {}  # key of the batch that holds a call, '' while its file is filled
        self._ended: dict[str, BatchRecord] = {}
        self._sends: Counter[str] = Counter()
        self._spent = 0.0  # dollars, in this run
        self._released: set[str] = set()  # by polls that failed half-way
        self.outcomes: dict[str, Outcome] = {}
        self.in_flight: dict[str, BatchRecord] = {}
        """At the provider and not collected, by key; batches of requests that this run does not plan among them."""
        self.used: set[str] = set()  # keys of the batches that this run waits for
        self.lost: list[BatchRecord] = []
        """Batches that the provider does not know any more, or whose results it has deleted."""
        self.done: dict[str, int] = {}  # requests of each batch that the provider has answered, as of the last look

    def restore(self) -> None:
        """Read what earlier runs have sent, and find batches whose id they could not record any more."""
        for record in self._records.load():
            if record.is_ended:
                self._restore_results(record)
            elif record.batch_id:
                self._follow(record)
            else:
                self._adopt(record)

    def _restore_results(self, record: BatchRecord) -> None:
        try:
            content = self._records.results(record)
        except DamagedPartError as error:
            log.warning("%s; they are fetched from the provider again", error)
            self._follow(replace(record, is_ended=False, results=""))
            return
        self._ended[record.key] = record
        for custom_id, outcome in self._api.read_results(content):
            if isinstance(outcome, Answer):
                self._keep(custom_id, outcome, record)
            else:  # it was not billed, and may be retried
                self._api.dialect.learn(outcome.failure, record.omitted)

    def decoding(self, custom_id: str, call: Call) -> str:
        """Return how the answer of a custom id to a call was decoded."""
        return self._api.dialect.decoding(call, self._omitted.get(custom_id, ()))

    def holds(self, custom_id: str) -> bool:
        """Return whether a call is in a batch that has not ended, or in the next one; this run will wait for it."""
        key = self._holders.get(custom_id)
        if key:
            self.used.add(key)
        return key is not None

    @property
    def followed(self) -> list[BatchRecord]:
        """Return the batches in flight that this run waits for."""
        return [record for key, record in self.in_flight.items() if key in self.used]

    def add(
        self, custom_id: str, call: Call, media: Mapping[Media, Frames], pictures: dict[Media, list[str]], folder: str
    ) -> bool:
        """Add a call to the next batch; False if it must wait until a batch in flight has ended.

        Either there are as many as may be, or what they cost decides whether the limit allows more. What cannot be
        sent gets a failure at once.
        """
        try:
            for part in dict.fromkeys(call.media):
                pictures[part] = pictures.get(part) or data_uris(part, media[part], self._spec.limits)
        except (OSError, ValueError) as error:  # of Pillow: the picture cannot be encoded
            self.outcomes[custom_id] = Failure(type=type(error).__name__, message=str(error))
            return True
        omitted = tuple(self._api.dialect.omitted)
        line = self._api.line(custom_id, self._api.dialect.body(call, pictures, omitted))
        if len(line) > self._spec.batch_max_bytes:
            text = f"a request of {len(line):,} bytes exceeds batch_max_bytes; lower max_pixels or max_frames"
            self.outcomes[custom_id] = Failure(type="too_large", message=text)
            return True
        price, limit = self._spec.billed_price, self._spec.cost_limit
        tokens = estimate_tokens(self._spec, call, pictures)
        dollars = price.dollars(tokens, call.generation.max_new_tokens) if price else 0.0
        if limit is not None and self._spent + self._reserved() + dollars > limit:
            if self._reserved():
                return False
            self.outcomes[custom_id] = cost_limit_failure(self._spent, limit)
            return True
        if not self._file.has_room(line, omitted):
            self.flush()
            if self._file:
                return False
        request_id = call.call_id.rpartition("/")[0]
        self._file.add(custom_id, line, omitted=omitted, request_id=request_id, folder=folder, dollars=dollars)
        self._holders[custom_id] = ""
        return True

    def flush(self) -> None:
        """Send what was added since the last batch, unless as many batches are in flight as may be.

        Raises:
            BatchApiError: the provider refuses the batch or cannot be reached.
        """
        if self._file and len(self.followed) < self.capacity:
            created = self._now()
            key = stable_id({"records": self._records.address(""), "created": created, "model": self._spec.model})
            self._file.send(created, key, self._send)

    def poll(self) -> set[str]:
        """Look at the batches in flight; collect those that have ended, and return their calls."""
        for record in self.followed:
            state = self._api.retrieve(record.batch_id) if record.batch_id else self._find(record)
            if state is None and not record.batch_id:
                self._released |= self._drop(record)
                continue
            results = self._api.results(state) if state and state.is_ended else b""
            if state is None or results is None:
                self.lost.append(self.in_flight.pop(record.key))
                continue
            record = self._identify(record, state)  # noqa: PLW2901  its id may just have been found
            self.done[record.key] = state.done
            if state.is_ended:
                log.info("batch %s has ended: %s, %d requests done", record.batch_id, state.status, state.done)
                self._released |= self._collect(record, state, results)
        released, self._released = self._released, set()
        return released

    def cancel(self) -> None:
        """Cancel the batches that this run waits for; what is answered by then can still be collected."""
        for record in self.followed:
            if not record.batch_id:
                continue  # which of the provider's batches it is, if any, is seen when they have ended
            try:
                self._api.cancel(record.batch_id)
            except BatchApiError as error:
                log.warning("batch %s was not cancelled: %s", record.batch_id, error)

    def forget(self, request_ids: Collection[str]) -> None:
        """Drop what is stored of committed requests: the records of batches that serve no others."""
        for key, record in list(self._ended.items()):
            if not any(name.startswith(EARLY) for name in record.custom_ids):
                self._shrink(key, record, request_ids)

    def close(self) -> None:
        """Delete the records of batches whose requests are all committed, by this run or earlier ones."""
        for key, record in list(self._ended.items()):
            self._shrink(key, record, set(record.request_ids) - self._records.unfinished(record))

    def _shrink(self, key: str, record: BatchRecord, request_ids: Collection[str]) -> None:
        left = tuple(request_id for request_id in record.request_ids if request_id not in request_ids)
        self._ended[key] = replace(record, request_ids=left)
        if not left:
            del self._ended[key]
            self._records.delete(key)
            for custom_id in record.custom_ids:
                self.outcomes.pop(custom_id, None)
                self._omitted.pop(custom_id, None)

    def _reserved(self) -> float:
        return self._file.dollars + sum(record.dollars for record in self.followed)

    def _follow(self, record: BatchRecord) -> None:
        self.in_flight[record.key] = record
        self._holders |= dict.fromkeys(record.custom_ids, record.key)

    def _adopt(self, record: BatchRecord) -> None:
        """Find a batch that may have been created just before a run died; drop its record if it was not."""
        state = self._find(record)
        if state is None:
            self._records.delete(record.key)
            return
        if state.batch_id:
            log.info("batch %s was created by a run that died; its results are used", state.batch_id)
        self._follow(self._identify(record, state))

    def _identify(self, record: BatchRecord, state: BatchState) -> BatchRecord:
        """Return a record with the id of its batch, as soon as that is known."""
        if record.batch_id == state.batch_id:
            return record
        record = replace(record, batch_id=state.batch_id)
        self._records.put(record)
        return record

    def _drop(self, record: BatchRecord) -> set[str]:
        """Delete the record of a batch that was not created; return its calls."""
        del self.in_flight[record.key]
        self._records.delete(record.key)
        for custom_id in record.custom_ids:
            self._holders.pop(custom_id, None)
        return set(record.custom_ids)

    def _find(self, record: BatchRecord) -> BatchState | None:
        others = {each.batch_id for each in (*self.in_flight.values(), *self._ended.values())}
        sent = SentBatch(key=record.key, created=record.created, custom_ids=record.custom_ids, other_ids=others)
        try:
            state = self._api.find(sent)
            if state is None:
                self._sleep(min(FIND_PAUSE_S, self._spec.batch_poll_s))
                state = self._api.find(sent)
        except BatchApiError as error:
            if error.status in LISTS_NONE:
                raise UnlistedBatchError(self._records.unlisted(record, error.status), status=error.status) from error
            raise
        return state

    def _send(self, record: BatchRecord, content: IO[bytes]) -> None:
        self._check_owner()
        self._records.put(record)
        uploaded = self._unless_refused(record, partial(self._api.upload, f"vlmsweep-{record.key}.jsonl", content))
        state = self._unless_refused(record, partial(self._create, record, uploaded))
        record = self._identify(record, state)
        log.info("batch %s is sent: %d requests", state.batch_id, len(record.custom_ids))
        self._follow(record)
        self.used.add(record.key)

    def _unless_refused(self, record: BatchRecord, action: Callable[[], Any]) -> Any:
        """Run an action of a batch; delete its record if the provider certainly did not accept it."""
        try:
            return action()
        except BatchApiError as error:
            if not (error.is_transient or isinstance(error, UnlistedBatchError)):
                self._records.delete(record.key)
            raise

    def _create(self, record: BatchRecord, uploaded: str | IO[bytes]) -> BatchState:
        """Create a batch; after a failure it is looked for before it is created again.

        Once an attempt may have succeeded unnoticed, its transient error is the one raised, or that of a provider that
        lists no batches: the batch's record stays.
        """
        unsure: BatchApiError | None = None
        for attempt in range(self._spec.retries + 1):
            try:
                return self._api.create(uploaded, record.key)
            except BatchApiError as error:
                if unsure is None and not error.is_transient:
                    raise
                unsure = unsure or error
            self._sleep(backoff_s(record.key, attempt))
            try:
                if state := self._find(record):
                    return state
            except UnlistedBatchError:
                log.warning("%s", unsure)
                raise
            except BatchApiError as error:
                raise unsure from error
        assert unsure is not None
        raise unsure

    def _collect(self, record: BatchRecord, state: BatchState, results: bytes) -> set[str]:
        """Store the results of an ended batch; return its calls, of which those without a result are sent again."""
        if state.status == "failed":
            ids = self._drop(record)
            self._explain_refusal(record, state)
            return ids
        del self.in_flight[record.key]
        for custom_id in record.custom_ids:
            self._holders.pop(custom_id, None)
        record = replace(record, is_ended=True, results=self._records.put_results(record.key, results))
        self._records.put(record)
        self._ended[record.key] = record
        ids = set(record.custom_ids)
        changed = self._take(record, ids, results)
        self._count_unanswered(ids - self.outcomes.keys() - changed, state)
        return ids

    def _take(self, record: BatchRecord, ids: Collection[str], results: bytes) -> set[str]:
        """Take over the outcomes of a batch; return the calls that are sent again without a refused parameter.

        Raises:
            EngineUnreachableError: nothing was answered, because of the account or the entry (see `Health`).
        """
        failures: dict[str, FailedAttempt] = {}
        answers = 0
        for custom_id, outcome in self._api.read_results(results):
            if custom_id not in ids:
                continue
            if isinstance(outcome, FailedAttempt):
                failures[custom_id] = outcome
                continue
            answers += 1
            kept = self._keep(custom_id, outcome, record)
            if price := self._spec.billed_price:
                self._spent += price.of(kept) if kept.reserved_dollars is None else kept.reserved_dollars
        if answers:
            self._health.record_answer()
        changed = {name for name, each in failures.items() if self._api.dialect.learn(each.failure, record.omitted)}
        for custom_id, failed in failures.items():
            if custom_id in changed:
                continue
            if not answers:
                self._health.record_failure(failed, self._health.answers, 1)
            self.outcomes[custom_id] = failed.failure
        return changed

    def _keep(self, custom_id: str, answer: Answer, record: BatchRecord) -> Answer:
        """Keep an answer; without counts of tokens it costs its share of what its batch may cost."""
        if not answer.is_counted and self._spec.price:
            answer = replace(answer, reserved_dollars=record.dollars / len(record.custom_ids))
        self.outcomes[custom_id] = answer
        if record.omitted:
            self._omitted[custom_id] = record.omitted
        return answer

    def _count_unanswered(self, custom_ids: Collection[str], state: BatchState) -> None:
        if custom_ids:
            log.warning(
                "batch %s ended (%s) without a result for %d requests; they are sent again",
                *(state.batch_id, state.status, len(custom_ids)),
            )
        for custom_id in custom_ids:
            self._sends[custom_id] += 1
            if self._sends[custom_id] >= MAX_SENDS:
                text = f"its batch ended {MAX_SENDS} times without a result for it, the last time as {state.status}"
                self.outcomes[custom_id] = Failure(type="batch_unanswered", message=text)

    def _explain_refusal(self, record: BatchRecord, state: BatchState) -> None:
        """Fail the lines that the provider refused; raise where it refused the batch as a whole."""
        lines = [problem for problem in state.problems if problem.line and problem.line <= len(record.custom_ids)]
        for problem in lines:
            failure = Failure(type="batch_request", message=f"{problem.code}: {problem.message}")
            self.outcomes[record.custom_ids[problem.line - 1]] = failure  # type: ignore[operator]  # not None in `lines`
        if lines:
            return
        reason = describe(state.problems)
        if any(problem.code == "token_limit_exceeded" for problem in state.problems):
            if self.followed:
                log.warning("%s; its requests are sent again when another batch has ended", reason)
                self.capacity = len(self.followed)
                return
            reason += "; lower batch_max_requests of its entry, so that a batch fits the provider's limit"
        raise BatchApiError(f"the provider refused batch {record.batch_id}: {reason}")
