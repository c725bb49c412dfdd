"""Write the common set: 200 picture questions with planted replies, of four kinds.

    python -m tests.tools.harness_logs.questions tests/golden/harness_logs/questions.jsonl

Each reply is right or wrong by intention, in one of the manners in which models answer. `{answer}` is the form that a
prompt asks for: the letter, or `ANSWER: B` where a harness asks for that line; `reply_line` is the reply to the latter.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COLOURS = ("red", "green", "blue", "yellow", "purple", "pink", "grey")
SHAPES = ("cube", "sphere", "cone", "cylinder", "ring")
LETTERS = "ABCD"
_CHOICE = (
    *("{answer}",) * 27,
    "{answer}.",
    "{answer}. {option}",
    "({letter}) is what it shows.\n{answer}",
    "The answer is {answer}.",
    "The answer is {answer}. {option}",
    "The correct answer is {answer} ({option}).",
    "The {shape} stands in the light, and its colour is {option}.\n{answer}",
    "The {shape} stands in the light, and its colour is {option}.\nSo the answer is {answer}",
    "First, the {shape} is found. Its colour is {option}.\n\n{answer}",
    "{Option}",  # the option's text alone, whatever was asked for
    "{answer}\n",
    " {answer}",
    "{answer}) {option}",
)
_YES_NO = (
    *("{answer}",) * 6,
    "{word}",
    "{Word}.",
    "{Word}, the {shape} is shown there.",
    "{Word}, as far as it can be seen.",
)
_TEXT = (*("{answer}",) * 17, "{Words}", "The {words}", "{Words}.")
_NUMBER = (*("{answer}",) * 18, "{number}.", "{number}.0")
_UNREADABLE = {"choice": 37, "yes-no": 23, "text": 29, "number": 31}  # one reply of each kind gives no answer
NO_ANSWER = "I cannot see the picture."


def questions() -> Iterator[dict[str, Any]]:
    """Yield the rows: id, kind, question, options, answer, reply, manner, and whether the reply is right."""
    for kind, count, make in (
        ("choice", 80, _choice),
        ("yes-no", 40, _yes_no),
        ("text", 40, _text),
        ("number", 40, _number),
    ):
        for n in range(count):
            row = {"id": f"{kind}-{n:03d}", "kind": kind, **make(n)}
            if n == _UNREADABLE[kind]:
                row |= {"reply": NO_ANSWER, "reply_line": NO_ANSWER, "right": False}
            yield row


def _is_right(n: int) -> bool:
    return n % 5 not in (1, 3)


def _choice(n: int) -> dict[str, Any]:
    shape = SHAPES[n % 5]
    options = [COLOURS[(n + step) % 7] for step in (0, 2, 3, 5)]
    answer = n * 3 % 4
    chosen = answer if _is_right(n) else (answer + 1 + n % 3) % 4
    letter, option = LETTERS[chosen], options[chosen]
    words = {"letter": letter, "option": option, "Option": option.capitalize(), "shape": shape}
    manner = _CHOICE[n % len(_CHOICE)]
    question = f"What colour is the {shape} in picture {n + 1}?"
    row = _row(question, LETTERS[answer], manner.format(answer=letter, **words), right=chosen == answer)
    return {**row, "options": options, "reply_line": manner.format(answer=f"ANSWER: {letter}", **words)}


def _yes_no(n: int) -> dict[str, Any]:
    shape, answer = SHAPES[n % 5], ("yes", "no")[n * 7 % 3 % 2]
    word = answer if _is_right(n) else {"yes": "no", "no": "yes"}[answer]
    manner = _YES_NO[n % len(_YES_NO)]
    reply = manner.format(answer=word.capitalize(), word=word, Word=word.capitalize(), shape=shape)
    question = f"Is there a {COLOURS[n % 7]} {shape} in picture {n + 101}?"
    return _row(question, answer, reply, right=word == answer)


def _text(n: int) -> dict[str, Any]:
    answer = f"{COLOURS[n % 7]} {SHAPES[n % 5]}"
    words = answer if _is_right(n) else f"{COLOURS[(n + 1) % 7]} {SHAPES[n % 5]}"
    manner = _TEXT[n % len(_TEXT)]
    reply = manner.format(answer=words, words=words, Words=words.capitalize())
    question = f"What lies beside the box in picture {n + 141}?"
    return _row(question, answer, reply, right=words == answer)


def _number(n: int) -> dict[str, Any]:
    answer = n % 9 + 1 if n % 2 else 40 + 13 * n
    number = answer if _is_right(n) else answer + max(2, answer // 4)
    manner = _NUMBER[n % len(_NUMBER)]
    reply = manner.format(answer=number, number=number)
    question = f"How many marbles are in the jar of picture {n + 181}?"
    return _row(question, str(answer), reply, right=number == answer)


def _row(question: str, answer: str, reply: str, *, right: bool) -> dict[str, Any]:
    return {
        "question": question,
        "options": None,
        "answer": answer,
        "reply": reply,
        "reply_line": reply,
        "right": right,
    }


def main() -> None:
    """Write the rows as JSON lines."""
    path = Path(sys.argv[1])
    path.write_text("".join(json.dumps(row) + "\n" for row in questions()), encoding="utf-8")


if __name__ == "__main__":
    main()
