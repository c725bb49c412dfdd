"""Questions of `txt2txt` about scenes as text, with the tokens that each token of an answer is copied from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb

from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.scene import Question, Scene, unique_values
from tests.tools.demo_model.lookup import ANSWER_END, LOOKUP_HEAD, VALUE_END
from tests.tools.demo_model.questions import IGNORED, Chat, Tokens

_PAIRS: Final = tuple(permutations(("name", "size", "rotation", "3d_coords"), 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTurn:
    """A question with its answer, and whose and which field holds it."""

    question: str
    answer: str
    object_name: str
    field: str


@dataclass(slots=True)
class TextChat:
    """Tokens of a chat about a scene as text."""

    tokens: Tokens
    sources: list[int] = field(default_factory=list)
    """Of each learned token, the place of the token in the scene that it repeats, or `IGNORED`."""
    weights: list[float] = field(default_factory=list)
    """Of each learned token; those of an answer are one together."""


def draw_question(rng: np.random.Generator, scene: Scene) -> Question:
    """Draw a question; all pairs of a pointer and a target are alike often where the scene allows them."""
    pairs = [(pointer, target, unique_values(scene, pointer)) for pointer, target in _PAIRS]
    possible = [pair for pair in pairs if pair[2]]
    pointer, target, values = possible[rng.integers(len(possible))]
    value = values[rng.integers(len(values))]
    return Question(task="txt2txt", pointer_attribute=pointer, pointer_value=value, target_attribute=target)


def draw_text_turns(rng: np.random.Generator, scene: Scene, *, objects: int, most: int) -> list[TextTurn]:
    """Draw questions about some of the objects in any order: a whole prompt, then bare questions."""
    drawn = rng.permutation(len(scene.objects))[:objects]
    shown = (replace(scene.objects[place], name=f"Object_{number}") for number, place in enumerate(drawn))
    scene = replace(scene, objects=tuple(shown))
    turns: dict[str, TextTurn] = {}
    for _ in range(most):
        question = draw_question(rng, scene)
        prompt = build_prompt(scene, question)
        text = prompt.splitlines()[-1] if turns else prompt
        name = str(replace(question, target_attribute="name").gold(scene))
        turns[text] = TextTurn(
            question=text, answer=gold_json(question.gold(scene)), object_name=name, field=question.target_attribute
        )
    return list(turns.values())


def write_chat(chat: Chat, tokenizer: Any, turns: Sequence[TextTurn], medium: str = "text") -> TextChat:
    """Write turns with the sources of their answers, which are in the first turn's prompt."""
    written = TextChat(chat.about(medium, [(turn.question, turn.answer) for turn in turns]))
    prompt = turns[0].question
    offsets = tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    first = written.tokens.labels.index(next(label for label in written.tokens.labels if label != IGNORED))
    before = _find(written.tokens.ids, chat.encode(prompt))
    assert before < first
    ends = tuple(tokenizer.convert_tokens_to_ids([VALUE_END, ANSWER_END]))
    for turn in turns:
        answer = [*chat.encode(turn.answer), *chat.encode("<|im_end|>")]
        start = before + _token_at(offsets, _value_start(prompt, turn))
        sources = [IGNORED] * len(answer)
        for number, token in enumerate(answer[1:], start=1):
            source = written.tokens.ids[start + number - 1]
            if source == token or (source, token) == ends:  # the answer's end is predicted from the value's
                sources[number] = start + number - 1
            if source != token:
                break
        written.sources += sources
        written.weights += [1 / len(answer)] * len(answer)
    return written


def lookup_loss(
    attention: Any, inputs: Tensor, rotary: tuple[Tensor, Tensor], labels: Tensor, sources: Tensor
) -> Tensor:
    """Return how far a head is from attending to the source of the token that comes next.

    Args:
        attention: of the last layer.
        inputs: what it got, [batch, tokens, hidden].
        rotary: cosine and sine of the positions.
        labels: [batch, tokens].
        sources: of the learned tokens.
    """
    width = attention.head_dim
    shape = (*inputs.shape[:2], -1, width)
    query = attention.q_proj(inputs).view(shape).transpose(1, 2)[:, LOOKUP_HEAD : LOOKUP_HEAD + 1]
    key = attention.k_proj(inputs).view(shape).transpose(1, 2)[:, LOOKUP_HEAD // 2 : LOOKUP_HEAD // 2 + 1]
    query, key = apply_rotary_pos_emb(query, key, *rotary)
    scores = (query[:, 0] @ key[:, 0].transpose(1, 2)).float() * attention.scaling
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return nn.functional.cross_entropy(scores[:, :-1][labels[:, 1:] != IGNORED], sources, ignore_index=IGNORED)


def _value_start(prompt: str, turn: TextTurn) -> int:
    name = prompt.index(f'"name": "{turn.object_name}"')
    key = f'"{turn.field}": '
    return prompt.index(key, name) + len(key)


def _token_at(offsets: Sequence[tuple[int, int]], character: int) -> int:
    return next(number for number, (start, end) in enumerate(offsets) if start <= character < end)


def _find(ids: Sequence[int], part: Sequence[int]) -> int:
    return next(start for start in range(len(ids)) if list(ids[start : start + len(part)]) == list(part))
