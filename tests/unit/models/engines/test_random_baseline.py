from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.conversation import answer_requests
from models.engines.random_baseline import RandomEngine
from models.entry_fields import FaultInjection
from models.errors import EngineContractError
from models.messages import Answer, Call, Failure, Generation, Request, Step, Text, Turn, user
from models.spec import ModelSpec
from tests.support.calls import PICTURE, call


class DiedError(Exception):
    """Replaces the end of the process."""


def die() -> None:
    raise DiedError


def build(seed: int = 42, slept: list[float] | None = None, **faults: Any) -> RandomEngine:
    spec = ModelSpec(engine="random", seed=seed, fault_injection=FaultInjection(**faults))
    return RandomEngine(spec, sleep=(slept if slept is not None else []).append, die=die)


def outcomes_of(engine: RandomEngine, calls: list[Call]) -> dict[str, Answer | Failure]:
    return {reply.call_id: reply.outcome for reply in engine.generate(calls, {})}


def text(outcome: Answer | Failure) -> str:
    assert isinstance(outcome, Answer)
    return outcome.text


MANY = [call(f"{index}/0", "A or B?", choices=("A", "B", "B", "B")) for index in range(4000)]


def test_choices_are_drawn_evenly_counting_repeats() -> None:
    shares = Counter(text(outcome) for outcome in outcomes_of(build(), MANY).values())
    # Four standard deviations of a share of 1/4 in 4,000 draws are 110.
    assert abs(shares["A"] - 1000) < 110
    assert shares["A"] + shares["B"] == 4000


def test_draw_depends_on_id_and_seed_only() -> None:
    forwards, backwards = outcomes_of(build(), MANY), outcomes_of(build(), MANY[::-1])
    assert forwards == backwards
    assert outcomes_of(build(seed=7), MANY) != forwards


def test_draws_are_pinned() -> None:
    calls = [call(f"r{index}/0", "?", choices=("A", "B", "C", "D")) for index in range(12)]
    assert "".join(text(outcome) for outcome in outcomes_of(build(), calls).values()) == "DCDCBABBABCA"


def test_guess_without_choices_quotes_the_last_text() -> None:
    request_call = Call(
        call_id="a/0",
        turns=(user("not from here"), user(PICTURE, "the quick brown fox jumps"), user("  \n")),
        generation=Generation(),
    )
    answer = text(outcomes_of(build(), [request_call])["a/0"])
    assert answer
    assert answer in "the quick brown fox jumps"


def test_shared_early_step_has_one_answer() -> None:
    prompt = "Describe what you see here in some words"
    first, second = outcomes_of(build(), [call("a/0", prompt), call("b/0", prompt)]).values()
    assert first == second


def test_empty_prompt_gives_an_empty_answer() -> None:
    assert outcomes_of(build(), [call("a/0", PICTURE)]) == {"a/0": Answer(text="")}


@settings(deadline=None)
@given(st.text(), st.integers(1, 12), st.lists(st.text(), max_size=4))
def test_any_call_is_answered_within_the_limit(words: str, limit: int, choices: list[str]) -> None:
    request_call = call("a/0", words, choices=tuple(choices), max_new_tokens=limit)
    answer = outcomes_of(build(), [request_call])["a/0"]
    assert isinstance(answer, Answer)
    assert answer.output_tokens == len(answer.text.split()) <= limit
    assert answer.finish_reason in ("stop", "length")
    if answer.finish_reason == "stop" and choices:
        assert answer.text in choices


def test_long_choice_is_cut_with_finish_reason_length() -> None:
    request_call = call("a/0", "?", choices=("one two three",), max_new_tokens=2)
    assert outcomes_of(build(), [request_call])["a/0"] == Answer(
        text="one two", finish_reason="length", input_tokens=1, output_tokens=2
    )


def test_tokens_are_counted_as_words() -> None:
    turns = (Turn("system", (Text("be brief"),)), user(PICTURE, "a b c"))
    request_call = Call(call_id="a/0", turns=turns, generation=Generation(), choices=("yes sir",))
    assert outcomes_of(build(), [request_call])["a/0"] == Answer(text="yes sir", input_tokens=5, output_tokens=2)


class TestFaultInjection:
    def test_fixed_answer_is_returned(self) -> None:
        request_call = call("a/0", "?", choices=("A",), max_new_tokens=1)
        assert text(outcomes_of(build(answer="Sure,  A it is"), [request_call])["a/0"]) == "Sure,  A it is"

    def test_fail_share_is_drawn_by_id(self) -> None:
        outcomes = outcomes_of(build(fail_share=0.1), MANY)
        failed = {name for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
        assert abs(len(failed) - 400) < 76  # four standard deviations
        again = outcomes_of(build(fail_share=0.1), MANY[::-1])
        assert failed == {name for name, outcome in again.items() if isinstance(outcome, Failure)}

    def test_fail_share_of_all(self) -> None:
        assert all(isinstance(outcome, Failure) for outcome in outcomes_of(build(fail_share=1.0), MANY[:50]).values())

    def test_fail_ids_are_request_ids(self) -> None:
        calls = [call("a/0", "?"), call("a/1", "?"), call("ab/0", "?"), call("x/y/0", "?"), call("plain", "?")]
        outcomes = outcomes_of(build(fail_ids=("a", "x/y", "plain")), calls)
        assert [name for name, outcome in outcomes.items() if isinstance(outcome, Failure)] == [
            "a/0",
            "a/1",
            "x/y/0",
            "plain",
        ]

    @pytest.mark.parametrize("after", [0, 3, 5])
    def test_die_after(self, after: int) -> None:
        engine = build(die_after=after)
        answered: list[str] = []

        def ask() -> None:
            for group in (MANY[:4], MANY[4:8]):
                answered.extend(reply.call_id for reply in engine.generate(group, {}))

        with pytest.raises(DiedError):
            ask()
        assert len(answered) == after

    def test_die_after_the_last_call_does_not_exit(self) -> None:
        assert len(outcomes_of(build(die_after=4), MANY[:4])) == 4

    def test_die_on(self) -> None:
        engine = build(die_on="poison")
        assert set(outcomes_of(engine, [call("a/0", "harmless")])) == {"a/0"}
        with pytest.raises(DiedError):
            outcomes_of(engine, [call("b/0", PICTURE, "some poison here")])

    def test_exit_is_a_kill(self) -> None:
        code = (
            "from models.engines.random_baseline import RandomEngine\n"
            "from models.spec import ModelSpec\n"
            "from tests.support.calls import call\n"
            "import atexit\n"
            "atexit.register(print, 'a handler ran', flush=True)\n"
            "engine = RandomEngine(ModelSpec(engine='random', fault_injection={'die_after': 1}))\n"
            "for reply in engine.generate([call('a/0', '?'), call('b/0', '?')], {}):\n"
            "    print(reply.call_id, flush=True)\n"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
        assert run.stdout == "a/0\n"
        assert run.returncode == -9, run.stderr

    def test_stall_applies_once_per_nonempty_group(self) -> None:
        slept: list[float] = []
        engine = build(slept=slept, stall_s=2.0)
        for group in (MANY[:3], [], MANY[3:5]):
            outcomes_of(engine, group)
        assert slept == [2.0, 2.0]

    def test_call_s_applies_to_every_call(self) -> None:
        slept: list[float] = []
        outcomes_of(build(slept=slept, call_s=0.25), MANY[:3])
        assert slept == [0.25, 0.25, 0.25]

    def test_reverse(self) -> None:
        assert list(outcomes_of(build(reverse=True), MANY[:3])) == ["2/0", "1/0", "0/0"]

    def test_drop_every_counts_over_groups(self) -> None:
        engine = build(drop_every=3)
        assert list(outcomes_of(engine, MANY[:4])) == ["0/0", "1/0", "3/0"]
        assert list(outcomes_of(engine, MANY[4:8])) == ["4/0", "6/0", "7/0"]

    def test_dropped_call_violates_the_contract(self) -> None:
        requests = [Request(request_id=str(index), steps=(Step(turns=(user("?"),)),)) for index in range(3)]
        with pytest.raises(EngineContractError, match="1 of 3"):
            list(answer_requests(build(drop_every=2), requests, {}))
