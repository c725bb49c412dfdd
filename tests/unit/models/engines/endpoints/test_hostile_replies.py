"""Replies that are too long, or that quote the key: neither memory nor files hold them."""

from __future__ import annotations

import base64
import json

import pytest

from models.engines.endpoints.bounded import MAX_REPLY
from models.engines.endpoints.endpoint import Endpoint
from models.engines.endpoints.failures import FailedAttempt
from models.guards.redaction import WITHHELD
from models.messages import Answer, Failure
from models.spec import ModelSpec
from tests.support.endpoint_script import Say, Status, always
from tests.unit.models.engines.endpoints.rig import KEY, rig

ENTRY = {"api_key_env": "SCRIPTED_KEY", "retries": 0}
BEARER = f"Bearer {KEY}"
QUOTED = [
    BEARER,
    json.dumps({"headers": {"authorization": BEARER}}),
    BEARER.upper(),
    base64.b64encode(BEARER.encode()).decode(),
    " ".join(BEARER[start : start + 6] for start in range(0, len(BEARER), 6)),
]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)


@pytest.mark.parametrize("engine", ["openai", "anthropic", "gemini"])
def test_reply_above_the_limit_is_not_read_to_its_end(engine: str) -> None:
    with rig(always(Say(text="A" * (MAX_REPLY + 1))), engine=engine, retries=0) as at:
        outcome = at.ask_one("Hi")
    message = "the reply is longer than 8 MiB and was not read to its end"
    assert outcome == Failure(type="bad_reply", message=message)


def test_error_above_the_limit_is_not_read_either() -> None:
    with rig(always(Status(status=500, message="A" * (MAX_REPLY + 1))), retries=0) as at:
        outcome = at.ask_one("Hi")
    assert isinstance(outcome, Failure)
    assert outcome.type == "bad_reply"


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize("quoted", QUOTED)
def test_refusal_that_quotes_the_key_keeps_nothing_of_it(quoted: str, status: int) -> None:
    with rig(always(Status(status=status, message=f"refused: {quoted}")), **ENTRY) as at:
        outcome = at.ask_one("Hi")
    assert isinstance(outcome, Failure)
    assert outcome.message in (WITHHELD, "refused: Bearer ***", 'refused: {"headers": {"authorization": "Bearer ***"}}')


@pytest.mark.parametrize("quoted", QUOTED)
def test_answer_that_quotes_the_key_is_not_kept(quoted: str) -> None:
    with rig(always(Say(text=f"Your header was {quoted}")), **ENTRY) as at:
        assert at.ask_one("Hi") == Failure(type="bad_reply", message="the reply quotes the key, so it is not kept")
    with rig(always(Say(text="Your key begins with sk-test")), **ENTRY) as at:
        assert isinstance(at.ask_one("Hi"), Answer)


def test_message_shows_no_part_of_the_address_that_may_be_a_key() -> None:
    spec = ModelSpec(engine="openai", model="m", base_url="http://h/t/tok-planted-91/v1")
    endpoint = Endpoint(spec, lambda _: Answer(text=""))
    outcome = endpoint.failed_status(400, {"message": "no route /t/tok-planted-91/v1"}, "")
    assert isinstance(outcome, FailedAttempt)
    assert outcome.failure.message == "no route /t/***/v1"
    assert "tok-planted-91" not in endpoint.unreachable_message("x")
