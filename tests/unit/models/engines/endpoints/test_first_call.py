"""The first call is sent alone, and the others end with its failure if none of them can pass."""

from __future__ import annotations

import pytest

from models.engines.endpoints.failures import classify_status
from models.engines.endpoints.health import REFUSAL_LIMIT
from models.errors import EngineUnreachableError
from tests.support.calls import PICTURE, call
from tests.support.endpoint_script import Action, EndpointRequest, Raw, Say, Status
from tests.unit.models.engines.endpoints.rig import ENGINES, kinds, many, rig

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
