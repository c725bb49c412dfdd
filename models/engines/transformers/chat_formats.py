"""How a conversation is written for models without a chat template: BLIP-2, InstructBLIP, Vicuna."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.messages import Media, Text, Turn


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Words around each turn; the one picture of a prompt always stands before all words."""

    user: str
    """A format with `{}` for the words."""
    assistant: str
    between: str
    opening: str = ""
    """Words before all turns, where no system prompt stands there."""
    closed: str = ""
    """What ends an answer that another turn follows."""

    def write(self, turns: Sequence[Turn]) -> str:
        """The prompt's words; an answer that has begun, as the last turn, is left open.

        Raises:
            ValueError: more than one picture or a clip: the model takes a single picture.
        """
        shown = [part for turn in turns for part in turn.parts if isinstance(part, Media)]
        if len(shown) > 1 or any(media.kind != "image" and media.frames > 1 for media in shown):
            raise ValueError("the model takes one picture a prompt, and this one has more, or a clip")
        said = [(turn.role, "".join(part.text for part in turn.parts if isinstance(part, Text))) for turn in turns]
        rules = "".join(f"{words.strip()}\n" for role, words in said if role == "system")
        spoken = [(role, words.strip()) for role, words in said if role != "system"]
        last = len(spoken) - 1
        turned = [self._turn(role, words, last=place == last) for place, (role, words) in enumerate(spoken)]
        return (rules or self.opening) + self.between.join(turned)

    def _turn(self, role: str, words: str, *, last: bool) -> str:
        if role != "assistant":
            return self.user.format(words)
        return self.assistant.format(words) + ("" if last else self.closed)


FORMS = {
    "blip-2": ChatFormat("Question: {} Answer:", "{}", " "),
    "instructblip": ChatFormat("{}", "{}", "\n"),
    "plain": ChatFormat("{}", "{}", "\n"),
    "vicuna": ChatFormat(
        "USER: {} ASSISTANT:",
        " {}",
        "",
        opening=(
            "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
            "detailed, and polite answers to the user's questions. "
        ),
        closed="</s>",
    ),
}
"""Model type, or `form` of a spec -> form. BLIP-2's is the one of its paper (Li et al. 2023, section 4.1); InstructBLIP
takes bare words; Vicuna's is that of version 1.1 and later in FastChat's `conversation.py`."""
