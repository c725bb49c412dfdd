"""An endpoint of a model: its key, and how its failures are read."""

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
from models.engines.endpoints.remarks import ReplyRemarks
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
