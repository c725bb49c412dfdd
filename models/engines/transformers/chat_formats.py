"""A conversation as text: by the model's chat template, or a format for models without one (BLIP-2, Vicuna)."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.messages import Media, Text, Turn


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Text around each turn; the one picture of a prompt always precedes all text."""

    user: str  # a format with `{}` for the text
    assistant: str
    separator: str
    default_system: str = ""  # text before all turns where there is no system prompt
    answer_end: str = ""  # end of an answer that another turn follows

    def render(self, turns: Sequence[Turn]) -> str:
        """Return the prompt's text, a last assistant turn left open; more than one picture is a `ValueError`."""
        media = [part for turn in turns for part in turn.parts if isinstance(part, Media)]
        if len(media) > 1 or any(part.kind != "image" and part.frames > 1 for part in media):
            raise ValueError("the model takes one picture per prompt, and this one has more, or a clip")
        texts = [(turn.role, "".join(part.text for part in turn.parts if isinstance(part, Text))) for turn in turns]
        system = "".join(f"{text.strip()}\n" for role, text in texts if role == "system")
        dialogue = [(role, text.strip()) for role, text in texts if role != "system"]
        last = len(dialogue) - 1
        rendered = [self._turn(role, text, is_last=index == last) for index, (role, text) in enumerate(dialogue)]
        text = (system or self.default_system) + self.separator.join(rendered)
        text.encode()  # as in `render_template`
        return text

    def _turn(self, role: str, text: str, *, is_last: bool) -> str:
        if role != "assistant":
            return self.user.format(text)
        return self.assistant.format(text) + ("" if is_last else self.answer_end)


def render_template(template: Any, messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the prompt's text, a last assistant turn left open; an error of the template is a `ValueError`.

    A chat template is a program that comes with the checkpoint: its errors are no bugs of the product.
    """
    continues = messages[-1]["role"] == "assistant"
    try:
        text = template.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=not continues, continue_final_message=continues
        )
    except (TypeError, LookupError, AttributeError) as error:
        if all(frame.filename != "<template>" for frame in traceback.extract_tb(error.__traceback__)):
            raise
        raise ValueError(f"the chat template failed: {type(error).__name__}: {error}") from error
    text.encode()  # names half a surrogate pair; tokenizers would only report a wrong type
    return str(text)


CHAT_FORMATS = {
    "blip-2": ChatFormat("Question: {} Answer:", "{}", " "),
    "instructblip": ChatFormat("{}", "{}", "\n"),
    "plain": ChatFormat("{}", "{}", "\n"),
    "vicuna": ChatFormat(
        "USER: {} ASSISTANT:",
        " {}",
        "",
        default_system=(
            "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
            "detailed, and polite answers to the user's questions. "
        ),
        answer_end="</s>",
    ),
}
"""Model type, or `chat_format` of a spec -> format. BLIP-2's is from its paper (Li et al. 2023, section 4.1);
InstructBLIP takes plain text; Vicuna's is that of version 1.1 and later in FastChat's `conversation.py`."""
