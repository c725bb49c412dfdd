from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.endpoints.texts import MARK, marked_messages
from models.engines.openai.engine import chat_messages
from models.entry_fields import Limits
from models.messages import Call, Generation, Text, Turn, user
from tests.support.calls import CLIP, OTHER_PICTURE, PICTURE

NO_LIMITS = Limits()


def make_call(*turns: Turn) -> Call:
    return Call(call_id="a/0", turns=turns, generation=Generation())


SENT = {PICTURE: ["p"], OTHER_PICTURE: ["o"], CLIP: ["c0", "c1"]}


class TestMessages:
    def content(self, *parts: Any) -> Any:
        (message,) = chat_messages(make_call(user(*parts)), SENT)
        assert message["role"] == "user"
        return message["content"]

    def test_text_alone_is_a_string(self) -> None:
        assert self.content("How ", "man", "y?") == "How many?"

    def test_pictures_and_texts_are_in_the_order_of_the_parts(self) -> None:
        content = self.content("Look", ": ", CLIP, PICTURE, "which?", OTHER_PICTURE, "")
        assert [part.get("text") or part["image_url"]["url"] for part in content] == [
            *("Look: ", "c0", "c1", "p", "which?", "o")
        ]
        assert self.content(CLIP, PICTURE, "Which", "?")[-1] == {"type": "text", "text": "Which?"}

    def test_mark_is_on_a_picture_wherever_it_is(self) -> None:
        messages = chat_messages(make_call(user("Look: ", CLIP, "which?", PICTURE)), SENT)
        (marked,) = marked_messages(messages, 2)
        assert [MARK in part for part in marked["content"]] == [False, False, True, False, False]

    def test_picture_without_text(self) -> None:
        assert self.content(PICTURE) == [{"type": "image_url", "image_url": {"url": "p"}}]

    def test_repeated_picture_is_sent_twice(self) -> None:
        assert len(self.content(PICTURE, "and", PICTURE)) == 3

    def test_system_prompt_is_optional(self) -> None:
        call = make_call(user("Hi"))
        assert [message["role"] for message in chat_messages(call, {})] == ["user"]
        assert chat_messages(call, {}, "Be brief.")[0] == {"role": "system", "content": "Be brief."}

    def test_system_turn_of_the_call_follows_the_one_of_the_spec(self) -> None:
        call = make_call(Turn("system", (Text("You judge."),)), user("Hi"))
        assert chat_messages(call, {})[0]["content"] == "You judge."
        both = chat_messages(call, {}, "Be brief.")
        assert [message["role"] for message in both] == ["system", "user"]
        assert both[0]["content"] == "Be brief.\n\nYou judge."

    def test_turns_are_preserved(self) -> None:
        call = make_call(user(PICTURE, "Which?"), Turn("assistant", (Text("A"),)), user(OTHER_PICTURE, "And now?"))
        first, second, third = chat_messages(call, SENT)
        assert (first["role"], second, third["role"]) == (
            "user",
            {"role": "assistant", "content": "A"},
            "user",
        )
        assert third["content"][0]["image_url"]["url"] == "o"

    @settings(deadline=None)
    @given(st.text())
    def test_text_is_never_changed(self, words: str) -> None:
        (message,) = chat_messages(make_call(user(words)), {})
        assert message["content"] == words

    def test_half_a_surrogate_pair_is_replaced(self) -> None:
        (message,) = chat_messages(make_call(user("a\ud83db")), {})
        assert message["content"] == "a?b"
