"""Read letters, yes and no as other harnesses document that they do: own code, after their documentation alone.

* lmms-eval (its `docs/advanced/mmmu-eval-discrepancy.md`, section 2): signs at the ends are removed; of the letters
  that stand as `(A)`, else before a space, else before a full stop, the last counts; else, in a reply of more than
  five words, the option whose text stands last; else it guesses. Yes or no: in the first four characters (its MME).
* VLMEvalKit (the same page, and its own on exact matching): signs become spaces; the only letter counts where it is one
  of the last four words, else the only option whose text stands in a reply that is no longer than all options twice;
  else a judge model is asked, which is not done here. Yes or no: the one of them that the reply holds alone.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final, NamedTuple

YES_NO: Final = ("yes", "no")
_LMMS_ENDS: Final = ",.!?;:'"  # removed from the ends one after the other
_LMMS_FORMS: Final = ("({})", "{} ", "{}.")
_LMMS_MIN_WORDS: Final = 6  # of a reply in which the texts of options are looked for
_LMMS_HEAD: Final = 4  # characters in which yes or no is looked for
_KIT_SIGNS: Final = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_KIT_TAIL: Final = 4  # words at the end of a reply, one of which the letter must be


class HarnessReading(NamedTuple):
    """What a harness takes from a reply; None where it takes nothing and counts the answer as wrong."""

    answer: str | None
    is_guess: bool = False


def read_as_lmms_eval(reply: str, options: Mapping[str, str]) -> HarnessReading:
    """Read a reply; a guess is a pure function of the reply and the options, which are texts by letter."""
    if tuple(options) == YES_NO:
        head = reply.strip().casefold()[:_LMMS_HEAD]
        return HarnessReading(next((word for word in YES_NO if word in head), None))
    text = f" {reduce(str.strip, _LMMS_ENDS, reply)} "
    for form in _LMMS_FORMS:
        if letter := _last(text, {letter: form.format(letter) for letter in options}):
            return HarnessReading(letter)
    if len(text.split()) >= _LMMS_MIN_WORDS and (letter := _last(text.lower(), _lowered(options))):
        return HarnessReading(letter)
    draw = hashlib.sha256("\n".join((reply, *options.values())).encode("utf-8", "replace")).digest()
    return HarnessReading([*options][int.from_bytes(draw[:8]) % len(options)], is_guess=True)


def read_as_vlmevalkit(reply: str, options: Mapping[str, str]) -> HarnessReading:
    """Read a reply by its exact matching alone, without a judge; `options` are texts by letter."""
    if tuple(options) == YES_NO:
        words = reply.casefold().translate(_KIT_SIGNS).split()
        answers: list[str] = [word for word in YES_NO if word in words]
        return HarnessReading(answers[0] if len(answers) == 1 else None)
    words = reply.translate(_KIT_SIGNS).split()
    letters = [letter for letter in options if letter in words]
    if len(letters) == 1 and words.index(letters[0]) >= len(words) - _KIT_TAIL:
        return HarnessReading(letters[0])
    text, texts = reply.lower(), _lowered(options)
    if len(text) > 2 * sum(map(len, texts.values())):
        return HarnessReading(None)
    matches = [letter for letter, option in texts.items() if option in text]
    return HarnessReading(matches[0] if len(matches) == 1 else None)


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {letter: text.lower() for letter, text in options.items() if text}


def _last(text: str, patterns: Mapping[str, str]) -> str:
    """Return the name of the pattern that stands last in a text; '' where none does."""
    places = {name: text.rfind(pattern) for name, pattern in patterns.items()}
    name = max(places, key=places.__getitem__, default="")
    return name if places.get(name, -1) >= 0 else ""


HARNESS_READERS: Final[Mapping[str, Callable[[str, Mapping[str, str]], HarnessReading]]] = {
    "lmms-eval": read_as_lmms_eval,
    "vlmevalkit": read_as_vlmevalkit,
}
"""By name of the harness."""
