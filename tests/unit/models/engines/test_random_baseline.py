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
from models.errors import EngineContractError
from models.messages import Answer, Call, Failure, Generation, Request, Step, Text, Turn, user
from models.spec import FaultInjection, ModelSpec
from tests.support.calls import PICTURE, call


class DiedError(Exception):
    """Stands for the end of the process."""


def die() -> None:
    raise DiedError


def build(seed: int = 42, slept: list[float] | None = None, **faults: Any) -> RandomEngine:
    spec = ModelSpec(engine="random", seed=seed, fault_injection=FaultInjection(**faults))
    return RandomEngine(spec, sleep=(slept if slept is not None else []).append, die=die)


def said(engine: RandomEngine, calls: list[Call]) -> dict[str, Answer | Failure]:
    return {reply.call_id: reply.outcome for reply in engine.generate(calls, {})}


def text(outcome: Answer | Failure) -> str:
    assert isinstance(outcome, Answer)
    return outcome.text


MANY = [call(f"{index}/0", "A or B?", choices=("A", "B", "B", "B")) for index in range(4000)]


def test_draws_evenly_from_the_choices_repeats_counted() -> None:
    shares = Counter(text(outcome) for outcome in said(build(), MANY).values())
    # Four standard deviations of a share of 1/4 in 4,000 draws are 110.
    assert abs(shares["A"] - 1000) < 110
    assert shares["A"] + shares["B"] == 4000


def test_depends_on_the_id_and_the_seed_alone() -> None:
    forwards, backwards = said(build(), MANY), said(build(), MANY[::-1])
    assert forwards == backwards
    assert said(build(seed=7), MANY) != forwards


def test_known_draws_stay_as_they_are() -> None:
    calls = [call(f"r{index}/0", "?", choices=("A", "B", "C", "D")) for index in range(12)]
    assert "".join(text(outcome) for outcome in said(build(), calls).values()) == "DCDCBABBABCA"


def test_without_choices_it_quotes_the_last_words_shown() -> None:
    asked = Call(
        call_id="a/0",
        turns=(user("not from here"), user(PICTURE, "the quick brown fox jumps"), user("  \n")),
        generation=Generation(),
    )
    answer = text(said(build(), [asked])["a/0"])
    assert answer
    assert answer in "the quick brown fox jumps"


def test_a_shared_early_step_says_the_same_whoever_asks_it() -> None:
    prompt = "Describe what you see here in some words"
    first, second = said(build(), [call("a/0", prompt), call("b/0", prompt)]).values()
    assert first == second


def test_nothing_shown_nothing_said() -> None:
    assert said(build(), [call("a/0", PICTURE)]) == {"a/0": Answer(text="")}


@settings(deadline=None)
@given(st.text(), st.integers(1, 12), st.lists(st.text(), max_size=4))
def test_whatever_is_asked_it_answers_within_the_limit(words: str, limit: int, choices: list[str]) -> None:
    asked = call("a/0", words, choices=tuple(choices), max_new_tokens=limit)
    answer = said(build(), [asked])["a/0"]
    assert isinstance(answer, Answer)
    assert answer.output_tokens == len(answer.text.split()) <= limit
    assert answer.finish_reason in ("stop", "length")
    if answer.finish_reason == "stop" and choices:
        assert answer.text in choices


def test_a_long_choice_is_cut_and_says_so() -> None:
    asked = call("a/0", "?", choices=("one two three",), max_new_tokens=2)
    assert said(build(), [asked])["a/0"] == Answer(
        text="one two", finish_reason="length", input_tokens=1, output_tokens=2
    )


def test_tokens_are_words() -> None:
    turns = (Turn("system", (Text("be brief"),)), user(PICTURE, "a b c"))
    asked = Call(call_id="a/0", turns=turns, generation=Generation(), choices=("yes sir",))
    assert said(build(), [asked])["a/0"] == Answer(text="yes sir", input_tokens=5, output_tokens=2)


class TestFaults:
    def test_answer_is_said_word_for_word(self) -> None:
        asked = call("a/0", "?", choices=("A",), max_new_tokens=1)
        assert text(said(build(answer="Sure,  A it is"), [asked])["a/0"]) == "Sure,  A it is"

    def test_fail_share_is_drawn_by_id(self) -> None:
        outcomes = said(build(fail_share=0.1), MANY)
        failed = {name for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
        assert abs(len(failed) - 400) < 76  # four standard deviations
        again = said(build(fail_share=0.1), MANY[::-1])
        assert failed == {name for name, outcome in again.items() if isinstance(outcome, Failure)}

    def test_fail_share_of_all(self) -> None:
        assert all(isinstance(one, Failure) for one in said(build(fail_share=1.0), MANY[:50]).values())

    def test_fail_ids_are_request_ids(self) -> None:
        calls = [call("a/0", "?"), call("a/1", "?"), call("ab/0", "?"), call("x/y/0", "?"), call("plain", "?")]
        outcomes = said(build(fail_ids=("a", "x/y", "plain")), calls)
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

    def test_die_after_all_is_no_death(self) -> None:
        assert len(said(build(die_after=4), MANY[:4])) == 4

    def test_die_on(self) -> None:
        engine = build(die_on="poison")
        assert set(said(engine, [call("a/0", "harmless")])) == {"a/0"}
        with pytest.raises(DiedError):
            said(engine, [call("b/0", PICTURE, "some poison here")])

    def test_death_is_sudden(self) -> None:
        code = (
            "from models.engines.random_baseline import RandomEngine\n"
            "from models.spec import ModelSpec\n"
            "from tests.support.calls import call\n"
            "import atexit\n"
            "atexit.register(print, 'a handler ran', flush=True)\n"
            "engine = RandomEngine(ModelSpec(engine='random', faults={'die_after': 1}))\n"
            "for reply in engine.generate([call('a/0', '?'), call('b/0', '?')], {}):\n"
            "    print(reply.call_id, flush=True)\n"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
        assert run.stdout == "a/0\n"
        assert run.returncode == -9, run.stderr

    def test_stall_once_a_group_and_not_for_none(self) -> None:
        slept: list[float] = []
        engine = build(slept=slept, stall_s=2.0)
        for group in (MANY[:3], [], MANY[3:5]):
            said(engine, group)
        assert slept == [2.0, 2.0]

    def test_call_s_for_every_call(self) -> None:
        slept: list[float] = []
        said(build(slept=slept, call_s=0.25), MANY[:3])
        assert slept == [0.25, 0.25, 0.25]

    def test_reverse(self) -> None:
        assert list(said(build(reverse=True), MANY[:3])) == ["2/0", "1/0", "0/0"]

    def test_drop_every_counts_over_groups(self) -> None:
        engine = build(drop_every=3)
        assert list(said(engine, MANY[:4])) == ["0/0", "1/0", "3/0"]
        assert list(said(engine, MANY[4:8])) == ["4/0", "6/0", "7/0"]

    def test_a_dropped_call_is_noticed(self) -> None:
        requests = [Request(request_id=str(index), steps=(Step(turns=(user("?"),)),)) for index in range(3)]
        with pytest.raises(EngineContractError, match="1 of 3"):
            list(answer_requests(build(drop_every=2), requests, {}))
