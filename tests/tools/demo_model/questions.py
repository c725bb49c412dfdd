"""Token sequences of a chat about a picture or a clip, and which of their tokens are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.scene import Question, Scene, unique_values
from tests.tools.demo_model.scenes import CELL, CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH, HEIGHT, WIDTH

IGNORED: Final = -100
"""Label of a token that is not learned."""
_TARGETS: Final = {"shape": "color", "color": "shape"}
PICTURE_TOKENS: Final = (WIDTH // CELL) * (HEIGHT // CELL)
CLIP_TOKENS: Final = CLIP_FRAMES // 2 * (CLIP_WIDTH // CELL) * (CLIP_HEIGHT // CELL)


def questions_about(scene: Scene) -> tuple[list[Question], ...]:
    """Return all questions of `img2img` by a unique shape, and all by a unique color."""
    return tuple(
        [
            Question(task="img2img", pointer_attribute=pointer, pointer_value=value, target_attribute=target)
            for value in unique_values(scene, pointer)
        ]
        for pointer, target in _TARGETS.items()
    )


def clip_question(place: str) -> str:
    """Return the prompt that asks for the `first` or the `last` color of a clip."""
    return (
        f"The video shows one color and then another. Which color does it show {place}?"
        ' Answer with nothing but {"answer": "COLOR"}.'
    )


@dataclass(slots=True)
class Tokens:
    """A chat as tokens with a label each."""

    ids: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)

    def add(self, ids: Sequence[int], *, learned: bool = False) -> None:
        """Append tokens."""
        self.ids += ids
        self.labels += ids if learned else [IGNORED] * len(ids)


class Chat:
    """Writes chats in the form of the checkpoint's template."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._user = self.encode("<|im_start|>user\n")
        self._reply = self.encode("<|im_end|>\n<|im_start|>assistant\n")
        self._end = self.encode("<|im_end|>")
        self._next = self.encode("\n")

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def about(self, medium: str, turns: Sequence[tuple[str, str]], tokens: int | None = None) -> Tokens:
        """Write (question, answer) turns that follow an `image`, a `video` of so many tokens, or nothing (`text`)."""
        pads = tokens or {"image": PICTURE_TOKENS, "video": CLIP_TOKENS, "text": 0}[medium]
        chat = Tokens()
        chat.add(self._user)
        if pads:
            chat.add(self.encode("<|vision_start|>" + f"<|{medium}_pad|>" * pads + "<|vision_end|>"))
        for number, (question, answer) in enumerate(turns):
            chat.add((self._next + self._user if number else []) + self.encode(question) + self._reply)
            chat.add(self.encode(answer) + self._end, learned=True)
        return chat


def draw_turns(rng: np.random.Generator, scene: Scene, *, full_share: float, most: int) -> list[tuple[str, str]]:
    """Draw one whole prompt with `full_share`, else up to `most` bare questions; both ways of pointing alike often."""
    is_full = rng.random() < full_share
    groups = [group for group in questions_about(scene) if group]
    drawn = {}
    for _ in range(1 if is_full else most):
        group = groups[rng.integers(len(groups))]
        question = group[rng.integers(len(group))]
        prompt = build_prompt(scene, question)
        drawn[prompt if is_full else prompt.splitlines()[-1]] = gold_json(question.gold(scene))
    return list(drawn.items())
