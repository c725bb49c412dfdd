from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from models.engines.endpoints.budget import Budget, estimate_tokens
from models.engines.endpoints.first_requests import Prefix, PrefixCache, shared_prefix
from models.engines.openai.engine import cache_fields
from models.entry_fields import Price
from models.messages import Answer, Call, Frames, Generation, Media, Text, Turn, user
from models.spec import ModelSpec
from tests.support.calls import MEDIA, OTHER_PICTURE, PICTURE, call, noise
from tests.support.endpoint_script import Action, EndpointRequest, Status, always
from tests.support.prompt_cache import CachingProvider
from tests.unit.models.engines.endpoints.rig import Rig, kinds, rig

PRICE = {"input_per_million": 10.0, "cached_input_per_million": 1.0, "output_per_million": 10.0}
CLIP = Media("video", "9" * 64, 32)
FRAMES = {**MEDIA, CLIP: noise(9, frames=32, height=8, width=8)}


def about(medium: Media, count: int, name: str = "q") -> list[Call]:
    return [call(f"{name}{index}/0", medium, f"question {name} {index}?") for index in range(count)]


def ask(at: Rig, calls: Sequence[Call], media: dict[Media, Frames] = FRAMES) -> list[Any]:
    return list(at.engine.generate(calls, media))


class TestProvider:
    """A provider's rules: 1,024 tokens in steps of 128, once the first reply has ended."""

    def test_all_shareable_tokens_of_216_questions_are_cached(self) -> None:
        provider = CachingProvider(always("A"))
        with rig(provider) as at:
            replies = ask(at, about(CLIP, 216))
        assert kinds(replies) == ["answer"] * 216
        assert provider.shareable == 215 * 3200 == provider.cached
        assert provider.bill(1.0) >= 4 * provider.bill(0.1)
        assert sum(reply.outcome.cached_tokens for reply in replies) == provider.cached

    def test_another_unit_about_a_medium_needs_no_leader_while_its_prefix_is_kept(self) -> None:
        provider = CachingProvider(always("A"))
        with rig(provider, price=PRICE) as at:
            ask(at, about(CLIP, 20))
            at.endpoint.requests.clear()
            assert sent_at_once(at.engine._cache, about(CLIP, 20, "b")) == 20
            at.time.time += 290.0  # the provider may have dropped it
            assert sent_at_once(at.engine._cache, about(CLIP, 20, "c")) == 1

    def test_two_units_about_a_medium_at_once_have_one_leader(self) -> None:
        provider = CachingProvider(always("A"))
        with rig(provider, price=PRICE, concurrency=64) as at, ThreadPoolExecutor(2) as threads:
            units = [threads.submit(ask, at, about(CLIP, 30, name)) for name in "ab"]
            assert [kinds(unit.result()) for unit in units] == [["answer"] * 30] * 2
        assert provider.cached == 59 * 3200

    def test_group_that_forms_while_its_calls_back_off_ends(self) -> None:
        """Calls that keep their places, and wait for a first request of a later unit, leave it one."""
        failed, second = threading.Event(), threading.Event()

        def script(request: EndpointRequest) -> Action | str:
            if "question a" in request.text and not failed.is_set():
                failed.set()
                assert second.wait(30)
                return Status(status=500)
            return "A"

        with rig(script, price=PRICE, concurrency=1) as at, ThreadPoolExecutor(2) as threads:
            ask(at, about(PICTURE, 1, "first"))
            first = threads.submit(ask, at, about(CLIP, 1, "a"))
            assert failed.wait(30)
            later = threads.submit(ask, at, about(CLIP, 4, "b"))
            while at.engine._cache.group(prefixes_of(about(CLIP, 1, "b"))[0]) is None:
                threading.Event().wait(0.01)
            second.set()
            assert kinds(first.result(30)) == ["answer"]
            assert kinds(later.result(30)) == ["answer"] * 4

    def test_leader_that_is_refused_hands_on_and_no_row_is_lost(self) -> None:
        def script(request: EndpointRequest) -> Action | str:
            return Status(status=400, message="I will not") if "q 0?" in request.text else "A"

        provider = CachingProvider(script)
        with rig(provider, price=PRICE) as at:
            replies = ask(at, about(CLIP, 40))
        assert kinds(replies) == ["answer"] * 39 + ["http_400"]
        assert provider.cached == 38 * 3200

    def test_leader_that_fails_for_a_while_holds_nobody_up(self) -> None:
        def script(request: EndpointRequest) -> Action | str:
            return Status(status=500) if "q 0?" in request.text else "A"

        with rig(script, price=PRICE, retries=1) as at:
            ask(at, about(PICTURE, 1, "first"))
            at.endpoint.requests.clear()
            replies = ask(at, about(CLIP, 20))
            texts = [request.text for request in at.endpoint.requests]
        assert kinds(replies) == ["answer"] * 19 + ["http_500"]
        assert texts[:2] == ["question q 0?", "question q 1?"]

    def test_group_whose_calls_all_fail_ends(self) -> None:
        with rig([{"status": 400, "message": "no. 1"}], price=PRICE, retries=0) as at:
            assert kinds(ask(at, about(CLIP, 12))) == ["http_400"] * 12

    def test_cost_limit_ends_a_group(self) -> None:
        price = {"input_per_million": 1e6, "output_per_million": 0.0, "cached_input_per_million": 1e5}
        with rig(always("A"), price=price, cost_limit=1.0) as at:
            outcomes = kinds(ask(at, about(CLIP, 12)))
        assert outcomes[0] == "answer"
        assert set(outcomes[1:]) == {"cost_limit"}

    def test_off_sends_all_at_once(self) -> None:
        spec = ModelSpec(engine="openai", model="m", base_url="http://x/v1", prompt_cache="off", price=Price(**PRICE))
        assert sent_at_once(PrefixCache(spec, lambda: 0.0), about(CLIP, 216)) == 216

    def test_steps_and_conversations_have_leaders_too(self) -> None:
        provider = CachingProvider(always("A"))
        dialogues = [
            Call(
                call_id=f"{index}/0",
                turns=(user(CLIP, "Look."), Turn("assistant", (Text("Yes"),)), user(f"question {index}?")),
                generation=Generation(max_new_tokens=4),
            )
            for index in range(30)
        ]
        with rig(provider, price=PRICE) as at:
            assert kinds(ask(at, dialogues)) == ["answer"] * 30
        assert provider.cached == provider.shareable == 29 * 3200


def prefixes_of(calls: Sequence[Call]) -> list[Prefix | None]:
    return [shared_prefix(item, lambda medium: max(1, medium.frames)) for item in calls]


def sent_at_once(cache: PrefixCache, calls: Sequence[Call]) -> int:
    """Add calls, and return how many of them need not wait for another."""
    prefixes = prefixes_of(calls)
    cache.add(prefixes)
    waiting = Counter(prefix for prefix in prefixes if cache.group(prefix))
    return len(calls) - sum(waiting.values()) + len(waiting)


def rounds(cache: PrefixCache, calls: Sequence[Call], concurrency: int, *, cached: int = 0) -> int:
    """Count the rounds of calls in flight together that answering all takes."""

    async def scene() -> int:
        prefixes, count = prefixes_of(calls), 0
        ready: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

        async def send(prefix: Prefix | None) -> None:
            group, answer = cache.group(prefix), Answer(text="A", input_tokens=4000, cached_tokens=cached)
            async with group.turn() if group else nullcontext():
                ready.put_nowait(asyncio.get_running_loop().create_future())
                await ready._queue[-1]  # type: ignore[attr-defined]
                if group:
                    group.record(answer)
            cache.record(prefix, answer)
            cache.remove([prefix])

        order = cache.add(prefixes, width=concurrency)
        tasks = [asyncio.create_task(send(prefixes[number])) for number in order]
        while not all(task.done() for task in tasks):
            for _ in range(3 * len(tasks)):
                await asyncio.sleep(0)
            flying = [ready.get_nowait() for _ in range(min(concurrency, ready.qsize()))]
            count += bool(flying)
            for future in flying:
                future.set_result(None)
        return count

    return asyncio.run(scene())


def entry(*, priced: bool = True, **changes: Any) -> ModelSpec:
    price = Price(**PRICE) if priced else None
    return ModelSpec(engine="openai", model="m", base_url="http://x/v1", price=price, **changes)


class TestDelay:
    """Where nothing is cached a run takes at most 1.1 times the rounds that it takes without first requests."""

    @pytest.mark.parametrize("priced", [True, False])
    @pytest.mark.parametrize("concurrency", [1, 4, 16])
    def test_clips_of_maia(self, concurrency: int, priced: bool) -> None:
        cache = PrefixCache(entry(priced=priced, concurrency=concurrency), lambda: 0.0)
        units = [about(replace(CLIP, source=f"{number:064d}"), 216) for number in range(6)]
        spent = sum(rounds(cache, unit, concurrency) for unit in units)
        assert spent <= 1.1 * 6 * -(-216 // concurrency)

    @pytest.mark.parametrize("size", [2, 16, 17, 40, 64])
    def test_small_units_of_an_unknown_provider(self, size: int) -> None:
        cache = PrefixCache(entry(priced=False), lambda: 0.0)
        spent = least = 0
        for number in range(60):
            spent += rounds(cache, about(replace(CLIP, source=f"{number:064d}"), size), 16)
            least += -(-size // 16)
            assert spent <= 1.1 * least

    def test_many_small_groups_of_one_unit_delay_nothing(self) -> None:
        calls = [item for number in range(32) for item in about(replace(PICTURE, source=f"{number:064d}"), 2)]
        assert rounds(PrefixCache(entry(priced=False), lambda: 0.0), calls, 16) == 4

    def test_small_units_are_led_once_tokens_were_cached(self) -> None:
        cache = PrefixCache(entry(priced=False), lambda: 0.0)
        assert rounds(cache, about(CLIP, 32), 16, cached=3200) == 2
        assert rounds(cache, about(replace(CLIP, source="8" * 64), 32), 16, cached=3200) == 3


class TestPrefixes:
    def test_prefix_ends_with_the_first_medium(self) -> None:
        first, second = (shared_prefix(item, lambda _: 32) for item in about(CLIP, 2))
        assert first == second
        assert first is not None
        assert len(first.key) == 32

    def test_turns_before_the_medium_belong_to_it(self) -> None:
        plain = call("a/0", CLIP, "Well?")
        other = replace(plain, turns=(Turn("system", (Text("Be brief."),)), *plain.turns))
        assert shared_prefix(plain, lambda _: 32) != shared_prefix(other, lambda _: 32)

    def test_call_without_media_has_none(self) -> None:
        assert shared_prefix(call("a/0", "Well?"), lambda _: 1) is None


class TestFields:
    @pytest.mark.parametrize(
        ("address", "model", "fields"),
        [
            ("https://api.openai.com/v1", "gpt-6.1-sol", ("prompt_cache_key",)),
            ("https://api.mistral.ai/v1", "pixtral", ("prompt_cache_key",)),
            ("https://openrouter.ai/api/v1", "anthropic/claude-haiku-5.5", ("cache_control",)),
            ("https://openrouter.ai/api/v1", "openai/gpt-6.1-sol", ()),
            ("https://api.openai.com.example.org/v1", "m", ()),
            ("http://127.0.0.1:8000/v1", "m", ()),
        ],
    )
    def test_fields_are_those_that_a_provider_documents(self, address: str, model: str, fields: tuple[str]) -> None:
        spec = ModelSpec(engine="openai", model=model, base_url=address)
        assert cache_fields(spec) == fields
        assert cache_fields(spec.model_copy(update={"prompt_cache": "off"})) == ()

    def test_unknown_endpoint_gets_no_field(self) -> None:
        with rig(always("A")) as at:
            ask(at, about(CLIP, 3))
            assert {name for request in at.endpoint.requests for name in request.body} == {
                *("model", "messages", "max_tokens", "temperature", "seed")
            }
            assert "cache" not in repr(at.endpoint.requests)

    def test_key_is_the_groups_and_the_mark_ends_its_medium(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "models.engines.openai.engine.cache_fields", lambda _: ("prompt_cache_key", "cache_control")
        )
        with rig(always("A"), price=PRICE) as at:
            ask(at, [*about(CLIP, 3), *about(PICTURE, 2, "p"), call("x/0", OTHER_PICTURE, "?"), call("y/0", "No.")])
            requests = {request.text: request.body for request in at.endpoint.requests}
        keys = {text: body.get("prompt_cache_key") for text, body in requests.items()}
        assert len({keys[f"question q {index}?"] for index in range(3)}) == 1
        assert keys["question p 0?"] not in (None, keys["question q 0?"])
        assert (keys["?"], keys["No."]) == (None, None)  # nobody else reads what they begin with
        content = requests["question q 0?"]["messages"][0]["content"]
        assert [index for index, part in enumerate(content) if "cache_control" in part] == [31]
        assert content[31]["cache_control"] == {"type": "ephemeral"}

    @pytest.mark.parametrize("field", ["prompt_cache_key", "cache_control"])
    def test_refused_field_is_dropped_for_the_run_and_no_row_is_lost(
        self, field: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("models.engines.openai.engine.cache_fields", lambda _: (field,))

        def script(request: EndpointRequest) -> Action | str:
            if field in repr(request.body):
                return Status(status=400, message=f"messages.0.{field}: Extra inputs are not permitted")
            return "A"

        with rig(script, price=PRICE) as at:
            assert kinds(ask(at, about(CLIP, 40))) == ["answer"] * 40
            assert kinds(ask(at, about(PICTURE, 4, "p"))) == ["answer"] * 4
            assert sum(field in repr(request.body) for request in at.endpoint.requests) == 1
            assert len([text for text in caplog.messages if f"rejects {field}" in text]) == 1
            assert at.engine.warnings == (f"scripted: the endpoint refuses {field}, which is not sent",)


class TestBudget:
    def test_limit_counts_cached_and_written_tokens_at_their_prices(self) -> None:
        price = Price(**PRICE, cache_write_per_million=20.0)
        budget = Budget(price, None)
        answer = Answer(text="", input_tokens=1000, cached_tokens=600, cache_write_tokens=300, output_tokens=50)
        budget.settle(0.0, answer)
        assert budget.spent == pytest.approx((100 * 10 + 600 * 1 + 300 * 20 + 50 * 10) / 1e6)

    def test_without_their_prices_they_cost_as_others(self) -> None:
        price = Price(input_per_million=2.0, output_per_million=0.0)
        answer = Answer(text="", input_tokens=1000, cached_tokens=600, cache_write_tokens=300)
        assert price.of(answer) == pytest.approx(2e-3)

    def test_batches_scale_all_prices(self) -> None:
        assert Price(**PRICE).scaled(0.5).cached_input_per_million == 0.5


@pytest.mark.parametrize(("tokens_per_picture", "tokens"), [(None, 10 + 2 * 1_100), (765, 10 + 2 * 765)])
def test_reservation_counts_pictures_as_the_entry_says(tokens_per_picture: float | None, tokens: int) -> None:
    spec = ModelSpec(engine="openai", model="m", base_url="http://x/v1", tokens_per_picture=tokens_per_picture)
    asked = call("a/0", "x" * 35, PICTURE, OTHER_PICTURE)
    assert estimate_tokens(spec, asked, {PICTURE: ["data"], OTHER_PICTURE: ["data"]}) == tokens
