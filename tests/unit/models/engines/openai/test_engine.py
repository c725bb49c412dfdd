from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from models.engines.endpoints.pictures import data_uris
from models.engines.openai.engine import OpenAIEngine
from models.entry_fields import Limits
from models.errors import MissingSecretError
from models.messages import Answer, Failure, Frames, Media
from models.spec import ModelSpec
from tests.support.calls import CLIP, PICTURE, call
from tests.support.endpoint_script import Action, EndpointRequest, Raw, Say, Status, always
from tests.unit.models.engines.endpoints.rig import KEY, kinds, many, rig


class TestRequests:
    def test_request_body_holds_only_known_parameters(self) -> None:
        with rig(always("A")) as at:
            at.ask(call("a/0", "Hi", max_new_tokens=5, seed=43))
            assert at.sent == {
                "model": "scripted",
                "messages": [{"role": "user", "content": "Hi"}],
                "max_tokens": 5,
                "temperature": 0.0,
                "seed": 43,
            }

    def test_pictures_are_in_their_place(self) -> None:
        with rig(always("A")) as at:
            at.ask_one(CLIP, "Look: ", PICTURE)
            (message,) = at.sent["messages"]
            assert [part["type"] for part in message["content"]] == [*["image_url"] * 4, "text", "image_url"]
            assert all(uri.startswith("data:image/jpeg;base64,") for uri in at.endpoint.requests[0].pictures)

    def test_media_limits_are_applied(self) -> None:
        with rig(always("A"), limits={"max_frames": 2}) as at:
            at.ask_one(CLIP, "What happens?")
            assert len(at.endpoint.requests[0].pictures) == 2

    def test_clip_is_encoded_once_per_group(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoded: list[Media] = []

        def counting(media: Media, frames: Frames, limits: Limits) -> list[str]:
            encoded.append(media)
            return data_uris(media, frames, limits)

        monkeypatch.setattr("models.engines.endpoints.engine.data_uris", counting)
        with rig(always("A")) as at:
            at.ask(*(call(f"{index}/0", CLIP, PICTURE, f"{index}?") for index in range(5)))
            assert sorted(encoded, key=repr) == [PICTURE, CLIP]
            assert len({tuple(request.pictures) for request in at.endpoint.requests}) == 1

    def test_system_prompt_of_the_spec_is_sent(self) -> None:
        with rig(always("A"), system="Be brief.") as at:
            at.ask_one("Hi")
            assert at.sent["messages"][0] == {"role": "system", "content": "Be brief."}

    def test_omitted_parameters_are_not_sent(self) -> None:
        with rig(always("A"), omit_parameters=["temperature", "seed"]) as at:
            at.ask_one("Hi")
            assert set(at.sent) == {"model", "messages", "max_tokens"}

    def test_request_options_of_the_entry_are_sent(self) -> None:
        options = {"top_p": 0.9, "reasoning_effort": "low", "logprobs": True}
        further = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1}
        with rig(always("A"), **options, detail="low", extra_body=further) as at:
            at.ask_one(PICTURE, "Hi")
            assert {name: at.sent[name] for name in (*options, *further)} == {**options, **further}
            assert "extra_body" not in at.sent
            picture, _ = at.sent["messages"][0]["content"]
            assert picture["image_url"]["detail"] == "low"

    def test_max_completion_tokens_is_learned_once(self) -> None:
        def script(request: EndpointRequest) -> Action | str:
            if "max_tokens" in request.body:
                return Status(status=400, message="Unsupported 'max_tokens'; use 'max_completion_tokens' instead.")
            return "A"

        with rig(script, retries=0, concurrency=1) as at:
            assert kinds(at.ask(*many(3))) == ["answer"] * 3
            assert [
                set(request.body) & {"max_tokens", "max_completion_tokens"} for request in at.endpoint.requests
            ] == [
                {"max_tokens"},
                *[{"max_completion_tokens"}] * 3,
            ]
            assert at.time.slept == []

    def test_rejected_token_limits_are_not_retried_forever(self) -> None:
        with rig([{"status": 400, "message": "neither max_tokens nor max_completion_tokens"}]) as at:
            assert isinstance(at.ask_one("Hi"), Failure)
            assert len(at.endpoint.requests) == 2

    def test_key_is_sent_in_the_header(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SCRIPTED_KEY", KEY)
        with rig(always("A"), api_key_env="SCRIPTED_KEY") as at:
            at.ask_one("Hi")
            assert at.endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"

    def test_environment_does_not_change_requests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
            monkeypatch.setenv(name, KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
        with rig(always("A")) as at:
            at.ask_one("Hi")
            assert KEY not in str(at.endpoint.requests[0].headers)

    def test_missing_key_is_reported_before_any_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SCRIPTED_KEY", raising=False)
        spec = ModelSpec(engine="openai", model="m", base_url="http://x/v1", api_key_env="SCRIPTED_KEY")
        before = set(threading.enumerate())
        with pytest.raises(MissingSecretError, match="SCRIPTED_KEY"):
            OpenAIEngine(spec)
        assert set(threading.enumerate()) <= before  # those of earlier endpoints may end meanwhile


class TestReplies:
    def test_reply_gives_text_tokens_and_finish_reason(self) -> None:
        with rig(lambda _: Say(text=" A) è vero ", cached_tokens=3)) as at:
            assert at.ask_one("four words in all") == Answer(
                text=" A) è vero ",
                input_tokens=4,
                output_tokens=3,
                cached_tokens=3,
                decoding="greedy",
                served_model="scripted",
            )

    @pytest.mark.parametrize(
        ("logprobs", "mean"),
        [
            ({"content": [{"token": "A", "logprob": -0.5}, {"token": "!", "logprob": -1.5}]}, -1.0),
            ({"content": [{"token": "A", "logprob": None}]}, None),
            ({"content": []}, None),
            ({"tokens": ["A"], "token_logprobs": [-0.5]}, None),
            ([], None),
            (None, None),
        ],
    )
    def test_mean_logprob_is_that_of_the_tokens_where_the_reply_has_them(
        self, logprobs: object, mean: float | None
    ) -> None:
        body = json.dumps({"choices": [{"message": {"content": "A!"}, "logprobs": logprobs}]})
        with rig(lambda _: Raw(body=body.encode()), logprobs=True) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Answer)
            assert (outcome.text, outcome.mean_logprob) == ("A!", mean)

    def test_finish_reason_length_is_kept(self) -> None:
        with rig(always("one two three")) as at:
            (reply,) = at.ask(call("a/0", "Hi", max_new_tokens=2))
            assert isinstance(reply.outcome, Answer)
            assert (reply.outcome.text, reply.outcome.finish_reason) == ("one two", "length")

    @pytest.mark.parametrize(("temperature", "decoding"), [(0.0, "greedy"), (0.5, "sampled")])
    def test_beams_are_reported_as_greedy(self, temperature: float, decoding: str) -> None:
        with rig([{"say": "A"}]) as at:
            greedy_call = call("a/0", "Hi")
            beams = replace(greedy_call.generation, num_beams=3, temperature=temperature)
            (reply,) = at.ask(replace(greedy_call, generation=beams))
            assert isinstance(reply.outcome, Answer)
            assert reply.outcome.decoding == decoding
            assert "beams" not in repr(at.endpoint.requests)

    def test_content_filter_is_an_answer(self) -> None:
        with rig([{"empty": True, "finish_reason": "content_filter"}]) as at:
            answer = at.ask_one("Hi")
            assert isinstance(answer, Answer)
            assert (answer.text, answer.finish_reason) == ("", "content_filter")

    @pytest.mark.parametrize(
        ("reply", "answer"),
        [
            ('{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}', Answer(text="")),
            ('{"choices": [{"message": {}}], "usage": null}', Answer(text="")),
            ('{"choices": [{"message": {"content": null, "refusal": "No."}}]}', Answer(text="No.")),
            ('{"choices": [{"message": {"content": [{"type": "text", "text": "A"}]}}]}', Answer(text="A")),
            (
                '{"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}',
                Answer(text="A", input_tokens=5, output_tokens=1),
            ),
            (
                '{"choices": [{"message": {"content": "A", "reasoning": "B"}, "finish_reason": "eos"}], "x": 1}',
                Answer(text="A", finish_reason="eos", reasoning="B"),
            ),
            (
                '{"choices": [{"message": {"content": "A", "reasoning_content": "B", "reasoning": [1]}}]}',
                Answer(text="A", reasoning="B"),
            ),
            ('{"choices": [{"message": {"content": "A", "reasoning_content": null}}]}', Answer(text="A")),
            (
                (
                    '{"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens": 9, '
                    '"prompt_tokens_details": {"cached_tokens": 0}, '
                    '"cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}}'
                ),
                Answer(text="A", input_tokens=9, cached_tokens=5, cache_write_tokens=3),
            ),
            (
                (
                    '{"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens": 9, '
                    '"prompt_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 30}}}'
                ),
                Answer(text="A", input_tokens=89, cached_tokens=50, cache_write_tokens=30),
            ),
            (
                (
                    '{"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens": 9, '
                    '"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 4}}'
                ),
                Answer(text="A", input_tokens=9, cached_tokens=5),
            ),
            (
                '{"choices": [{"message": {"content": "A"}}], "usage": {"prompt_tokens_details": null}}',
                Answer(text="A"),
            ),
        ],
    )
    def test_replies_of_compatible_servers_are_read(self, reply: str, answer: Answer) -> None:
        with rig(lambda _: Raw(reply.encode())) as at:
            counted = answer.input_tokens > 0 and "usage" not in answer.repairs
            is_blocked = answer.finish_reason == "content_filter" and not answer.text
            assert at.ask_one("Hi") == replace(answer, decoding="greedy", is_counted=counted or is_blocked)

    @pytest.mark.parametrize(
        "reply",
        [b"", b"{", b"<p>", b"[]", b"null", b'{"choices": []}', b"\xff\xfe"],
    )
    def test_invalid_reply_is_retried_and_then_a_failure(self, reply: bytes) -> None:
        with rig(lambda _: Raw(reply), retries=2) as at:
            outcome = at.ask_one("Hi")
            assert isinstance(outcome, Failure)
            assert outcome.type == "bad_reply"
            assert len(at.endpoint.requests) == 3

    def test_latency_is_that_of_the_last_attempt(self) -> None:
        with rig([{"status": 500, "times": 2}, {"say": "A"}]) as at:
            (reply,) = at.ask(call("a/0", "Hi"))
            assert reply.latency_s == 0.0
            assert sum(at.time.slept) > 1
