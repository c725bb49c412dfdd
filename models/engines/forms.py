"""How a conversation is written for models that were published without a chat template: BLIP-2 and InstructBLIP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.messages import Media, Text, Turn

__all__ = ["FORMS", "Form"]


@dataclass(frozen=True, slots=True)
class Form:
    """Words around each turn; the one picture of a prompt always stands before all words."""

    user: str
    """A format with `{}` for the words."""
    assistant: str
    between: str

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
        turned = [self._turn(role, words.strip()) for role, words in said if role != "system"]
        return rules + self.between.join(turned)

    def _turn(self, role: str, words: str) -> str:
        return (self.assistant if role == "assistant" else self.user).format(words)


FORMS = {
    "blip-2": Form("Question: {} Answer:", "{}", " "),
    "instructblip": Form("{}", "{}", "\n"),
}
"""Model type -> form. BLIP-2's is the one of its paper (Li et al. 2023, section 4.1); InstructBLIP takes bare words."""
