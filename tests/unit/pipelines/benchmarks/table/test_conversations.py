"""A conversation is a question with its answer, in every layout; what has no place in one is refused by its row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.benchmarks.table.columns_file import ColumnsFile
from pipelines.benchmarks.table.conversations import Conversations, conversations_of


def flat(turns: Any, **row: Any) -> dict[str, Any]:
    talk = Conversations(column="messages", media=("image",) if "image" in row else ())
    return talk.flattened({"id": 7, "messages": turns, **row})


def turn(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def user(content: Any) -> dict[str, Any]:
    return turn("user", content)


def reply(content: Any) -> dict[str, Any]:
    return turn("assistant", content)


def human(value: str) -> dict[str, Any]:
    return {"from": "human", "value": value}


def gpt(value: str) -> dict[str, Any]:
    return {"from": "gpt", "value": value}


TEXT = {"type": "text", "text": "Which colour?"}
URI = "data:image/png;base64,AAAA"
ASKED = [user("Which colour?"), reply("red")]
RED = {"id": 7, "question": "Which colour?", "answer": "red"}


@pytest.mark.parametrize(
    ("turns", "own", "expected"),
    [
        (ASKED, {}, RED),
        ([human("Which colour?"), gpt("red")], {}, RED),
        ([user([TEXT]), reply([{"type": "text", "text": "red"}])], {}, RED),
        ([user(["Which colour?"]), reply("red\n")], {}, RED),
        ([turn("system", "Be short."), *ASKED], {}, {**RED, "hint": "Be short."}),
        ([turn("developer", "A"), turn("system", "B"), *ASKED], {}, {**RED, "hint": "A\nB"}),
        ([user("Look."), *ASKED], {}, {**RED, "question": "Look.\nWhich colour?"}),
        ([human("<image>\nWhich colour?"), gpt("red")], {"image": "a.png"}, RED),
        ([human("Which colour?\n<image>"), gpt("red")], {"image": "a.png"}, RED),
        ([human("<image>\n<image> Which colour? <image>"), gpt("red")], {"image": ["a", "b", "c"]}, RED),
        ([human("<video>Which colour?"), gpt("red")], {"image": "a.mp4"}, RED),
        (
            [human("<image> In <image>, <image>?"), gpt("red")],
            {"image": '["a.png", "b.png", "c.png"]'},
            {**RED, "question": "In <image 2>, <image 3>?"},
        ),
        ([user("Is <b> or <image 1> a tag?"), reply("red")], {}, {**RED, "question": "Is <b> or <image 1> a tag?"}),
        ([user([{"type": "image", "text": None}, TEXT]), reply("red")], {"image": "a.png"}, RED),
        ([user([{"type": "image", "image": "a.png"}, TEXT]), reply("red")], {}, {**RED, "images": ["a.png"]}),
        ([user([{"image": "a.png"}, {"text": "Which colour?"}]), reply("red")], {}, {**RED, "images": ["a.png"]}),
        ([user([TEXT, {"type": "image_url", "image_url": {"url": URI}}]), reply("red")], {}, {**RED, "images": [URI]}),
        ([user([TEXT, {"type": "input_image", "image_url": URI}]), reply("red")], {}, {**RED, "images": [URI]}),
        (
            [user([TEXT, {"type": "image", "source": {"type": "base64", "data": "QUJD"}}]), reply("red")],
            {},
            {**RED, "images": ["QUJD"]},
        ),
        ([user([TEXT, {"type": "video", "video": "a.mp4"}]), reply("red")], {}, {**RED, "images": ["a.mp4"]}),
        (
            [user(["Is", {"image": "a"}, "in", {"image": "b"}, "?"]), reply("yes")],
            {},
            {"id": 7, "question": "Is\n<image 1>\nin\n<image 2>\n?", "answer": "yes", "images": ["a", "b"]},
        ),
        (
            [human("<image>\nWho?"), gpt("Ann <image>"), human("Which colour?"), gpt("red")],
            {"image": "a.png"},
            {**RED, "question": "User: Who?\nAssistant: Ann <image>\nUser: Which colour?"},
        ),
        (
            [human("<image>\nWho?"), gpt("Ann"), human("<image>And here?"), gpt("red")],
            {"image": ["a", "b"]},
            {**RED, "question": "User: <image 1>\nWho?\nAssistant: Ann\nUser: <image 2>And here?"},
        ),
        ('[{"role": "user", "content": "Which colour?"}, {"role": "assistant", "content": "red"}]', {}, RED),
    ],
)
def test_turns_become_question_answer_hint_and_pictures(
    turns: Any, own: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert flat(turns, **own) == {**own, **expected}


@pytest.mark.parametrize(
    ("turns", "own", "reason"),
    [
        (None, {}, "no turns in messages"),
        ([], {}, "no turns in messages"),
        ("red?", {}, "messages is no list of turns: red?"),
        (["red"], {}, "turn 1 of messages is no object"),
        (ASKED[:1], {}, "the last turn of messages is the user's; it must be the answer"),
        (ASKED[1:], {}, "messages has no turn of the user"),
        ([*ASKED, user("And?")], {}, "the last turn of messages is the user's"),
        ([*ASKED, turn("tool", "7")], {}, "turn 3 of messages has the role 'tool'; user,"),
        ([ASKED[0], reply("")], {}, "the last turn of messages holds no text"),
        ([ASKED[0], reply([{"type": "image", "image": "a"}])], {}, "the last turn of messages holds a picture"),
        ([ASKED[0], {**reply("x"), "tool_calls": [{}]}], {}, "turn 2 of messages calls tools"),
        ([user(None), ASKED[1]], {}, "turn 1 of messages has no content"),
        ([user(7), ASKED[1]], {}, "turn 1 of messages has no content"),
        ([user([7]), ASKED[1]], {}, "a part is text or an object, not int"),
        ([user([{"type": "input_audio", "audio": "x"}]), ASKED[1]], {}, "a part of type 'input_audio'"),
        ([user([{"type": ["image"]}]), ASKED[1]], {}, "a part of type"),
        ([user([{"type": "text", "text": 7}]), ASKED[1]], {}, "a part of type 'text'"),
        ([turn("system", [{"type": "image"}]), *ASKED], {}, "is the system's and holds a picture"),
        ([user("<image> Who?"), ASKED[1]], {}, "and the row has no picture"),
        ([user("<image> Who?"), ASKED[1]], {"image": ""}, "the row has no picture"),
        ([user([{"type": "image"}, TEXT]), ASKED[1]], {}, "the row has no picture"),
        ([user("<image> Who?"), ASKED[1]], {"image": ["a", "b"]}, "1 marks <image> or <video> in the question for 2"),
        ([user([{"image": "a"}]), ASKED[1]], {"image": "b"}, "pictures or clips in messages and in image"),
        ([turn("system", "Short."), *ASKED], {"hint": "x"}, "column 'hint' and messages both give it"),
        (ASKED, {"question": "x"}, "column 'question' and messages both give it"),
    ],
)
def test_what_is_no_question_with_an_answer_says_why(turns: Any, own: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError) as error:
        flat(turns, **own)
    assert reason in str(error.value)


KEYS = ["type", "text", "image", "image_url", "role", "content", "from", "value"]
NOTHING = ColumnsFile()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["<image>", "user"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=8,
)


@given(
    st.lists(
        VALUES
        | st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": VALUES})
        | st.fixed_dictionaries({"from": st.sampled_from(["human", "gpt"]), "value": VALUES})
    )
    | VALUES
)
def test_any_value_gives_texts_or_a_reason(turns: Any) -> None:
    try:
        row = flat(turns, image="a.png")
    except ValueError as error:
        assert str(error)
    else:
        assert isinstance(row["question"], str)
        assert row["answer"]
        assert "messages" not in row


def test_the_column_is_found_by_its_name() -> None:
    def column(*names: str, given: ColumnsFile = NOTHING) -> Conversations | None:
        return conversations_of(names, given, "t.csv")

    assert column("id", "Messages") == Conversations(column="Messages")
    assert column("image", "conversations") == Conversations(column="conversations", media=("image",))
    assert column("question", "answer", "messages") is None
    assert column("messages", given=ColumnsFile(ignore=("messages",))) is None
    assert column("messages", "reply", given=ColumnsFile(columns={"answer": ("reply",)})) is None
    both = ColumnsFile(columns={"media": ("image", "images")})
    assert column("messages", "image", given=both) == Conversations(column="messages", media=("image",))
