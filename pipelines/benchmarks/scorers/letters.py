"""Scorers of letters and of yes or no."""

import re
from collections.abc import Iterator
from functools import reduce
from typing import Final

from pipelines.benchmarks.scorers.records import Gold, Scored

_ENDS: Final = ",.!?;:'\""  # removed from both ends, one kind after the other
_PREFIXES: Final = ("", "the ", "correct ", "the correct ", "my ")
_LEADS: Final = (
    *(f"{prefix}{noun} is" for noun in ("answer", "choice") for prefix in _PREFIXES),
    *(f"{the}{noun} is" for noun in ("best answer", "correct option", "best option") for the in ("", "the ")),
    *("i choose", "i select", "i pick"),
    *("정답은", "답은", "답:", "옵션", "答案是", "答案为", "选", "答えは"),
)
_FORMS: Final = (("({})", 6), ("{}.", 5), ("{}:", 4), ("{})", 3), ("{} ", 2))
_HEAD: Final = 4  # characters in which `yes-no-first` looks


def read_letter(reply: str, letters: str) -> str | None:
    """Return the capital letter that a reply chooses; None without one.

    The best form counts: the first sign, the last sign, after a lead, `(X)`, `X.`, `X:`, `X)`, `X `, else any
    occurrence. Of several in one form the last counts.
    """
    text = f" {reduce(str.strip, _ENDS, reply.strip())} "
    found = max(_candidates(text, letters), default=None)
    if found is None:
        found = max(((0, place, letter) for letter in letters if (place := text.rfind(letter)) >= 0), default=None)
    return found[2] if found else None


def _candidates(text: str, letters: str) -> Iterator[tuple[int, int, str]]:
    bare, lowered = text[1:-1], _lowered(text)
    after = [place + len(lead) for lead in _LEADS if (place := lowered.find(lead)) >= 0]
    for letter in letters:
        if bare.startswith(letter) and not bare[1:2].isalpha():
            yield 10, 0, letter
        if bare.endswith(letter) and not bare[-2:-1].isalpha():
            yield 9, len(bare), letter
        yield from ((7, place, letter) for start in after if (place := text.find(letter, start)) >= 0)
        for form, rank in _FORMS:
            if (place := text.rfind(form.format(letter))) >= 0:
                yield rank, place, letter


def _lowered(text: str) -> str:
    """Return a text in lower case, each sign at its place: some signs are two in lower case."""
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)


def letter(reply: str, gold: Gold) -> Scored:
    """Score the letter of a reply."""
    answer = read_letter(reply, gold.letters)
    return Scored(float(answer is not None and answer == gold.letter), answer)


def yes_no_first(reply: str, gold: Gold) -> Scored:
    """Score yes or no: the whole reply, else within its first four signs."""
    text = reply.strip().lower().replace(".", "")
    answer = {"yes": "yes", "no": "no", "y": "yes", "n": "no"}.get(text)
    answer = answer or next((word for word in ("yes", "no") if word in text[:_HEAD]), None)
    return Scored(float(answer is not None and answer in gold.references), answer)


def read_scale(reply: str, scale: str | tuple[str, ...]) -> tuple[float, str] | None:
    """Return the value of a judge's reply on its scale and what it says; None for an unreadable reply.

    A scale is `yes-no`, `0-1`, `0-10`, or classes, of which the first is worth 1 and the others 0.
    """
    if scale == "yes-no":
        word = re.search(r"\b(yes|no)\b", reply, re.IGNORECASE)
        return (float(word[0].lower() == "yes"), word[0].lower()) if word else None
    if isinstance(scale, str):
        top = float(scale.partition("-")[2])
        number = re.search(r"-?(?:\d+(?:\.\d+)?|\.\d+)", reply)
        is_read = number is not None and 0 <= float(number[0]) <= top
        return (float(number[0]) / top, number[0]) if number and is_read else None
    longest_first = sorted(scale, key=len, reverse=True)  # `GOOD ENOUGH` names no `GOOD`
    names = re.compile(rf"(?<!\w)(?:{'|'.join(f'({re.escape(name)})' for name in longest_first)})(?!\w)")
    named = names.search(reply) or re.compile(names.pattern, re.IGNORECASE).search(reply)
    if named is None or named.lastindex is None:
        return None
    name = longest_first[named.lastindex - 1]
    return float(name == scale[0]), name
