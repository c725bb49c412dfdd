"""An endpoint of a model: its key, and how its failures are read."""

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from models.engines.endpoints.failures import (
    FailedAttempt,
    classify_status,
    clip,
    is_content_filter,
    reply_text,
    reported_failure,
    transient_failure,
    wrong_server,
)
from models.engines.endpoints.replies import NoCompletionError, ReplyReader
from models.environment import secret
from models.guards.redaction import Redactor, address_secrets, shown_address
from models.messages import Answer
from models.spec import ModelSpec


class Endpoint:
    """The endpoint of one model."""

    def __init__(self, spec: ModelSpec, read_reply: ReplyReader, *, now: Callable[[], float] = time.time) -> None:
        """Read the key (`MissingSecretError` without one); `now` is Unix time, for Retry-After."""
        self.spec, self._read_reply, self._now = spec, read_reply, now
        self.remarks = ReplyRemarks(spec.model)
        self._key = secret(spec.api_key_env, model=spec.model) if spec.api_key_env else None
        keys, hidden = [self.key or ""], address_secrets(str(spec.base_url))
        self._answers = Redactor(keys)
        # What a message quotes of the address is no secret where the model is named so, as deployments are.
        self.redact = Redactor([*keys, *(part for part in hidden if part not in spec.model)])

    @property
    def key(self) -> str | None:
        """The key; None where the entry names none."""
        return self._key.get_secret_value() if self._key else None

    def read_completion(self, content: bytes) -> Answer | FailedAttempt:
        """Return the answer in the body of a reply; `bad_reply` or `wrong_server` where it is no completion.

        A failure that the body tells is one, whatever the status was.
        """
        try:
            reply = self._read_reply(content)
        except NoCompletionError as error:
            if wrong := wrong_server(self.redact(content.decode("utf-8", "replace"))):
                return wrong
            start = clip(reply_text(self.redact(content.decode("utf-8", "replace"))), 200) or "it is empty"
            return transient_failure("bad_reply", f"the reply is not a valid completion ({error}): {start}")
        if isinstance(reply, Answer):
            quoted = (reply.text, reply.finish_reason, reply.served_model or "", reply.system_fingerprint or "")
            if any(map(self._answers.is_quoted_in, quoted)):
                return transient_failure("bad_reply", "the reply quotes the key, so it is not kept")
            is_blocked = reply.finish_reason == "content_filter" and not reply.text
            if "usage" in reply.repairs or not (reply.input_tokens or is_blocked):
                reply = replace(reply, is_counted=False)
            self.remarks.note(reply)
            return reply
        if is_content_filter(reply.error):
            return Answer(text="", finish_reason="content_filter")
        return reported_failure(reply.error, reply.reason, self.redact)

    def failed_status(
        self, status: int, error: object, text: str, headers: Mapping[str, str] | None = None
    ) -> Answer | FailedAttempt:
        """Return the outcome of an error status; `error` is the error object of the reply, `text` the raw reply."""
        if is_content_filter(error):
            return Answer(text="", finish_reason="content_filter")
        names = {name.lower(): value for name, value in (headers or {}).items()}
        return classify_status(status, names, body=error, text=text, now=self._now(), redact=self.redact)

    def unreachable_message(self, reason: str) -> str:
        """Return a sentence that names the model, the address, the reason and what to check."""
        address = shown_address(str(self.spec.base_url)).partition("?")[0]
        key = (
            f"that {self.spec.api_key_env} holds a valid key with quota left"
            if self.spec.api_key_env
            else "whether it needs a key (api_key_env)"
        )
        return (
            f"model {self.spec.model!r} at {address} is unavailable: {reason}. "
            "Check that base_url is right and the endpoint runs and is reachable from here, that it serves a model of "
            f"this name, and {key}"
        )


log = logging.getLogger(__name__)

_VERSION = r"(?:[-@:](?:v?\d{3,}[\d.-]*|latest|preview|exp)\b.*)?"
"""Ending of a name that a provider adds or resolves, such as a date."""


class ReplyRemarks:
    """What is odd about the replies to requests for one model: whom they name, and where their text is."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._names: list[str] = []
        self._thoughts_alone = self._uncounted = 0

    def note(self, answer: Answer) -> None:
        """Remember a reply's name and whether it thinks and says nothing; log the name where it is another model's."""
        name = answer.served_model
        self._thoughts_alone += bool(answer.finish_reason == "stop" and not answer.text and answer.reasoning)
        self._uncounted += not answer.is_counted
        if name and name not in self._names:
            self._names.append(name)
            if not _is_same(self._model, name):
                log.warning("%s", self._other(name))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each name of another model, for versions that differ, thoughts alone, and no counts."""
        same = [name for name in self._names if _is_same(self._model, name)]
        changes = f"{self._model}: replies come from several versions: {', '.join(sorted(same))}"
        others = [self._other(name) for name in self._names if name not in same]
        thoughts = f"{self._model}: replies hold reasoning and no answer; look at the reasoning parser of its server"
        uncounted = f"{self._model}: replies have no readable counts of tokens; with a price, their cost is estimated"
        return (
            *others,
            *[changes] * (len(same) > 1),
            *[thoughts] * (self._thoughts_alone > 0),
            *[uncounted] * (self._uncounted > 0),
        )

    def _other(self, name: str) -> str:
        return f"{self._model}: the endpoint answers as {name!r}, which is another model; see `served_model`"


def _is_same(first: str, second: str) -> bool:
    """Return whether two names differ in a provider's prefix, in case or in a version alone."""
    short, long = sorted((_bare(first), _bare(second)), key=len)
    return re.fullmatch(re.escape(short) + _VERSION, long) is not None


def _bare(name: str) -> str:
    return name.rpartition("/")[2].lower().removesuffix("-latest")
