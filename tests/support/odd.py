"""Odd answers by number, as models rarely give them. Equal numbers give equal texts."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Final

__all__ = ["EMPTY", "REFUSALS", "odd_answer", "odd_answers"]

EMPTY: Final = (
    "",
    " ",
    "\n\n",
    "\t\r\n",
    "\u200b\ufeff",
    "\u00a0",
    "<think>B, yes</think>",
    "<think>B",
    "**``**",
    "</s>",
)
"""Texts that say nothing, by any reader."""
REFUSALS: Final = (
    "I'm sorry, but I cannot help with that.",
    "I cannot determine this from the image.",
    "I don't know.",
    "As an AI, I am unable to identify people.",
)

_WORDS: Final = (
    *("A", "B", "C", "D", "a", "b", "E", "1", "0.351", "-3", "1e999", "NaN", "null", "None", "true", "yes", "no", "si"),
    *("Answer:", "answer is", "Your answer2 (intention):", "Risposta:", "LABEL:", "Label -", "[answer]:", "[German]:"),
    *(
        "[LANGUAGE]:",
        "Deutsch:",
        "한국어:",
        "option",
        "choose",
        "The speaker wants person1 to",
        "entailment",
        "neither",
    ),
    *("contradiction", "Entailment.", "not", "supports the claim", "scene graph", "the scene graph shows", "a_b_c"),
    *('{"answer": "cube"}', '{"answer":', '{"correct": true}', "{'answer': 'red'}", '"answer"', "Object_0", "red"),
    *("[1.0, 2.0, 3.0]", "Therefore,", "<think>", "</think>", "\\boxed{B}", "<|im_end|>", "```json", "```", "**", "__"),
    *(
        "vero",
        "falso",
        "corretto",
        "sbagliata",
        "e\u0301",
        "ﷺ",
        "Ｂ",
        "①",
        "🅱",
        "𝐁",
        "ß",
        "İ",
        "ǆ",
        "한",
        "文",
        "क्ष",
        "ا",
        "ב",
    ),
)
_SIGNS: Final = (
    *" \n\t\r.,:;!?()[]{}<>\"'`*_#-–—/\\|&+=%$€~^@“”„«»‘’",
    *("\x00", "\x1b", "\x7f", "\u0085", "\u2028", "\u202e", "\u200d", "\u200b", "\ufeff", "\u0301", "\ud800", "\udfff"),
    *("\U000e0041", "👩\u200d👩\u200d👧", "\U0010ffff"),
)


@lru_cache(maxsize=2)
def odd_answers(count: int) -> tuple[str, ...]:
    """Return the first `count` odd texts."""
    return tuple(map(odd_answer, range(count)))


def odd_answer(number: int) -> str:
    """Return one odd text, of up to some hundred characters or some thousands."""
    rng = random.Random(number)
    forms = (_letters, _repeated, _nested, _backwards, _refused, _listed, _mixed, _mixed)
    return forms[number % len(forms)](rng) * (1 if number % 500 else 40)


def _letters(rng: random.Random) -> str:
    return "".join(chr(rng.randrange(0x110000)) for _ in range(rng.randrange(40)))


def _repeated(rng: random.Random) -> str:
    return rng.choice(_WORDS) * rng.randrange(1, 60)


def _backwards(rng: random.Random) -> str:
    return "\u202e" + " ".join(rng.choice(_WORDS) for _ in range(rng.randrange(12)))[::-1]


def _refused(rng: random.Random) -> str:
    return rng.choice(REFUSALS) + rng.choice(_SIGNS) + rng.choice(_WORDS)


def _listed(rng: random.Random) -> str:
    bullets = ("-", "#", "1.", ">", "*")
    return "\n".join(f"{rng.choice(bullets)} {rng.choice(_WORDS)}" for _ in range(rng.randrange(9)))


def _mixed(rng: random.Random) -> str:
    pieces = [rng.choice(_WORDS if rng.random() < 0.6 else _SIGNS) for _ in range(rng.randrange(25))]
    return rng.choice(("", " ")).join(pieces)


def _nested(rng: random.Random) -> str:
    depth = rng.randrange(1, 40)
    opening = [rng.choice(('{"answer": ', "[", "{", '{"correct": ', "(", "<")) for _ in range(depth)]
    closing = "".join({"{": "}", "[": "]", "(": ")", "<": ">"}[item[0]] for item in reversed(opening))
    return "".join(opening) + rng.choice(_WORDS) + closing[: rng.randrange(len(closing) + 1)]
