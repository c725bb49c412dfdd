from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.random_baseline import RandomEngine
from models.messages import Answer, Call, Failure, Generation, Text, Turn, user
from models.spec import ModelSpec
from tests.support.calls import PICTURE, call


def build(seed: int = 42, answer: str | None = None) -> RandomEngine:
    return RandomEngine(ModelSpec(engine="random", seed=seed, answer=answer))


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


def test_fixed_answer_is_returned() -> None:
    request_call = call("a/0", "?", choices=("A",), max_new_tokens=1)
    assert text(outcomes_of(build(answer="Sure,  A it is"), [request_call])["a/0"]) == "Sure,  A it is"
