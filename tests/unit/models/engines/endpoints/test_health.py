from __future__ import annotations

import logging
import socket

import pytest

from models.engines.endpoints.failures import classify_status
from models.engines.endpoints.health import REFUSAL_LIMIT, STREAK_LIMIT
from models.engines.openai.engine import OpenAIEngine
from models.errors import EngineUnreachableError
from models.messages import Answer, CallReply, Failure
from models.spec import ModelSpec
from tests.support.calls import PICTURE, call
from tests.support.endpoint_script import Action, EndpointRequest, Raw, Say, Status, always, by_rules
from tests.unit.models.engines.endpoints.rig import ENGINES, KEY, kinds, many, rig


class TestUnreachable:
    def test_refused_connection_is_reported(self) -> None:
        with socket.socket() as unserved:
            unserved.bind(("127.0.0.1", 0))  # bound and not listening: no other process listens there
            address = f"http://127.0.0.1:{unserved.getsockname()[1]}/v1"
            self.check_refused_connection(address)

    def check_refused_connection(self, address: str) -> None:
        with rig(always("A"), base_url=address, retries=3, concurrency=2) as at:
            with pytest.raises(EngineUnreachableError) as caught:
                at.ask(*many(40))
            message = str(caught.value)
            assert address in message
            assert "no connection in 4 attempts" in message
            assert "'scripted'" in message
            # The first call to use up its tries ended it.
            assert 3 <= len(at.time.slept) <= 2 * 3

    def test_endpoint_that_stops_is_reported(self) -> None:
        with rig(always("A"), retries=1) as at:
            assert kinds(at.ask(*many(3))) == ["answer"] * 3
            at.endpoint.stop()
            with pytest.raises(EngineUnreachableError, match="no connection in 2 attempts"):
                at.ask(*many(3))

    @pytest.mark.parametrize(("status", "retries"), [(500, 0), (429, 0)])
    def test_streak_without_answers_ends_the_run(self, status: int, retries: int) -> None:
        with rig([{"status": status, "message": "no"}], retries=retries) as at:
            replies = at.engine.generate(many(STREAK_LIMIT * 3), {})
            got: list[CallReply] = []
            with pytest.raises(EngineUnreachableError, match=f"consecutive calls, the last time http_{status}: no"):
                got.extend(replies)
            assert kinds(got) == [f"http_{status}"] * (STREAK_LIMIT - 1)
            assert len(at.endpoint.requests) <= STREAK_LIMIT + 16

    def test_few_rejected_calls_are_failed_rows(self) -> None:
        with rig([{"status": 401}]) as at:
            assert kinds(at.ask(*many(10))) == ["http_401"] * 10

    def test_403_after_an_answer_never_ends_the_run(self) -> None:
        with rig([{"when": "question 0", "say": "A"}, {"status": 403}], concurrency=1) as at:
            assert kinds(at.ask(*many(2 * STREAK_LIMIT))).count("http_403") == 2 * STREAK_LIMIT - 1

    @pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
    def test_equal_refusals_before_the_first_answer_end_the_run(self, status: int) -> None:
        rules = [{"status": status, "message": "Your credit balance is too low (request 7f3a)"}]
        with rig(rules, concurrency=2) as at:
            with pytest.raises(EngineUnreachableError, match=f"http_{status}: Your credit balance is too low"):
                at.ask(*many(576))
            assert len(at.endpoint.requests) <= REFUSAL_LIMIT + 2

    def test_400_after_an_answer_never_ends_the_run(self) -> None:
        with rig([{"when": "question 0", "say": "A"}, {"status": 400}], concurrency=1) as at:
            assert kinds(at.ask(*many(2 * STREAK_LIMIT))).count("http_400") == 2 * STREAK_LIMIT - 1

    def test_prompts_that_are_too_long_never_end_the_run(self) -> None:
        with rig([{"status": 400, "message": "prompt is too long: 9 tokens > 8 maximum"}]) as at:
            assert kinds(at.ask(*many(2 * REFUSAL_LIMIT))) == ["context_length"] * (2 * REFUSAL_LIMIT)

    def test_answers_before_the_end_are_yielded(self) -> None:
        with rig([{"when": "question 0", "say": "A"}, {"status": 401}], concurrency=1) as at:
            replies = at.engine.generate(many(2 * STREAK_LIMIT), {})
            assert isinstance(next(replies).outcome, Answer)
            with pytest.raises(EngineUnreachableError):
                list(replies)


class TestSecrets:
    """The key is in the header and nowhere else, even where the endpoint quotes it."""

    @pytest.fixture(autouse=True)
    def key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SCRIPTED_KEY", KEY)

    @pytest.mark.parametrize(
        "action",
        [
            Status(status=401, message=f"Incorrect API key provided: {KEY}"),
            Status(status=500, message="x" * 490 + KEY),
            Raw(f"<html>{KEY}</html>".encode()),
            Raw(b"x" * 190 + KEY.encode()),
        ],
    )
    def test_key_is_absent_from_failures(self, action: Action) -> None:
        with rig(lambda _: action, api_key_env="SCRIPTED_KEY", retries=0) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Failure)
            assert KEY[:8] not in outcome.message

    def test_key_is_absent_from_errors_and_logs(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        script = by_rules([{"status": 401, "message": f"bad key {KEY}"}])
        with (
            rig(script, api_key_env="SCRIPTED_KEY") as at,
            pytest.raises(EngineUnreachableError) as caught,
        ):
            at.ask(*many(STREAK_LIMIT))
        assert KEY not in str(caught.value)
        assert "SCRIPTED_KEY" in str(caught.value)
        assert KEY not in caplog.text
        assert KEY not in repr(vars(at.engine))

    def test_reported_address_has_no_query(self) -> None:
        spec = ModelSpec(engine="openai", model="m", base_url="http://127.0.0.1:1/v1?project=hidden", retries=0)
        engine = OpenAIEngine(spec)
        with pytest.raises(EngineUnreachableError) as caught:
            list(engine.generate([call("a/0", "Hi")], {}))
        engine.close()
        assert "hidden" not in str(caught.value)


NO_VISION = "image input is not supported - hint: you may need to provide the mmproj"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (Status(status=401, message="no such key"), "http_401"),
        (Status(status=404, message="no such model"), "http_404"),
        (Raw(body=b'data: {"choices": []}\n\ndata: [DONE]\n'), "wrong_server"),
        (Raw(body=b"<!doctype html><title>Open WebUI</title>"), "wrong_server"),
    ],
)
def test_failure_that_does_not_pass_by_itself_is_asked_for_once(engine: str, action: Action, kind: str) -> None:
    with rig(lambda _: action, engine=engine) as at:
        assert kinds(at.ask(*many(6))) == [kind] * 6
        assert kinds(at.ask(*many(2))) == [kind] * 2
        assert len(at.endpoint.requests) == 1
        assert at.time.slept == []


@pytest.mark.parametrize("status", [400, 500, 501])
def test_model_without_vision_is_asked_for_one_picture_and_for_all_text(status: int) -> None:
    def script(request: EndpointRequest) -> Action:
        return Status(status=status, message=NO_VISION) if "image_url" in str(request.body) else Say(text="A")

    with rig(script) as at:
        pictures = [call(f"p{number}/0", PICTURE, "?") for number in range(3)]
        assert kinds(at.ask(*pictures, *many(4))) == ["answer"] * 4 + ["no_pictures"] * 3
        assert kinds(at.ask(pictures[0])) == ["no_pictures"]
        assert len(at.endpoint.requests) == 5
    with rig(script, concurrency=1) as at:
        assert kinds(at.ask(*many(1), *pictures)) == ["answer"] + ["no_pictures"] * 3
        assert len(at.endpoint.requests) == 2


@pytest.mark.parametrize("second", [Status(status=404, message="gone"), Raw(body=b"<html>")])
def test_failure_after_the_first_answer_is_of_its_own_call(second: Action) -> None:
    def script(request: EndpointRequest) -> Action:
        return second if request.number == 1 else Say(text="A")

    with rig(script, concurrency=1, retries=0) as at:
        assert kinds(at.ask(*many(4))) in (["answer"] * 3 + ["http_404"], ["answer"] * 3 + ["wrong_server"])
        assert len(at.endpoint.requests) == 4


@pytest.mark.parametrize(
    ("action", "message"),
    [(Status(status=404, message="no such model"), "no such model"), (Raw(body=b"<html>"), "web page")],
)
def test_many_unsent_calls_end_the_run_as_many_refusals_do(action: Action, message: str) -> None:
    with rig(lambda _: action) as at:
        with pytest.raises(EngineUnreachableError, match=message):
            at.ask(*many(REFUSAL_LIMIT))
        assert len(at.endpoint.requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        *("temperature is not supported", "the image is too large", "vision tower crashed"),
        *("Images larger than 20 MB are not supported", "image format webp is not supported"),
        *("This model does not support image/gif", "The model does not support images with more than 8000 pixels"),
        "Multiple images of different sizes are not supported",
    ],
)
def test_other_refusals_are_of_their_prompts(message: str) -> None:
    failed = classify_status(400, {}, body={"message": message}, text="", now=0.0)
    assert (failed.failure.type, failed.is_of_setup) == ("http_400", False)
