"""Read short answers: yes or no, one of a set of words, a number, a phrase; and compare phrases as VQA does.

A reader returns None where a reply says nothing of its kind, or two things: nothing is guessed.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from string import ascii_uppercase
from typing import Final

from pipelines.benchmarks.readers.amounts import with_digits
from pipelines.benchmarks.readers.cues import CUE, LEAD, is_denied, names
from pipelines.benchmarks.readers.option_letters import letter_reader
from pipelines.benchmarks.text_cleaning import (
    canonical,
    collapsed,
    straight_quotes,
    superscripts_as_powers,
    without_latex,
    without_outer_quotes,
)

# ---------------------------------------------------------------------------------------------- phrases

_ARTICLES: Final = frozenset(("a", "an", "the"))
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_AMPERSAND = re.compile(r"(?<=\w) ?& ?(?=\w)")
_HYPHEN = re.compile(r"(?<=\w)[-_](?=\w)")
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_MATH = re.compile(r"\$([^\s$](?:[^$\n]*[^\s$])?)\$(?!\d)|\\\(((?:(?!\\\()[^\n])*?)\\\)")
_SUBSCRIPT = re.compile(r"_\{?(\w+)\}?")
_BRACED_POWER = re.compile(r"\^\{([^{}]*)\}")
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|__)(?=\S)([^*\n_]+)(?<=\S)\1(?![\w*])")
_INITIALS = re.compile(
    r"(?<![^\W_])(?:[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2}(?![^\W_]))+|[^\W\d_](?:\.[ ][^\W\d_](?![^\W_]))+)\.?"
)
_SIGN = re.compile(r"[^\w\s]")
_SIGNS_THAT_COUNT: Final = frozenset("+-#%&*/@^<>=~$°‰¢♭′∶")  # and mathematical and currency signs beyond ASCII
_STOP = re.compile(r"(?<=[^\W\d])[.]|[.](?!\d)")
_BARE_DECIMAL = re.compile(r"(?<![\w.])[.](?=\d)")
_DASHES: Final = str.maketrans({**dict.fromkeys("−‐‑‒–", "-"), **dict.fromkeys("—―", " "), "_": " "})
_JOINING_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=\w)|(?<=\w)-(?=[^\W\d_])|-{2,}|(?<!\S)-(?![\d.$€£¥])")
_PERCENT = re.compile(r"(?<=\d)\s*+(?:%|\bper\s?cent\b)")
_SPACED_SIGN = re.compile(r"(?<=\d) (?=°)| ?([+=<>×÷/]) ?|(?<=\d) (-) (?=\d)|(?<=[$€£¥₹]) (?=\d)")
_CURRENCY_BEHIND = re.compile(r"(?<![\d.,])(\d[\d.,]*+) ?([$€£¥₹])(?!\w)")
_MARKUP: Final = " \t*_"
_RATIO = re.compile(r"(?<=\d):(?=\d)")
_LONE_SIGNS: Final = frozenset("-*#~^@")


def phrase(reply: str) -> str:
    """Return the phrase of a reply: without a lead such as `The answer is`, outer quotes and a final full stop.

    Of several lines the last one with a lead counts alone.
    """
    text = _EMPHASIS.sub(r"\2", straight_quotes(canonical(superscripts_as_powers(reply))))
    if "\n" in text.strip():
        led = [line for line in text.split("\n") if (lead := LEAD.match(line)) and line[lead.end() :].strip(_MARKUP)]
        text = led[-1] if led else text
    text = LEAD.sub("", collapsed(text))
    return without_outer_quotes(text.removesuffix(".")).strip()


@lru_cache(1 << 14)
def normalized(text: str) -> str:
    """Return a phrase for comparison: case, Unicode form, articles, punctuation and number words do not count.

    Signs do: of numbers, currencies, units, grades and calculations, as in `-5`, `$5`, `5°`, `B-`, `C++` and `2/3`.
    """
    folded = _plain(text).casefold()
    text = _APOSTROPHE.sub("", _THOUSANDS.sub("", folded)).translate(_DASHES)
    text = _AMPERSAND.sub(" and ", text)
    text = _PERCENT.sub("%", _JOINING_HYPHEN.sub(" ", with_digits(text)))
    text = _SIGN.sub(
        lambda match: match[0] if _counts(match[0]) else " ", _STOP.sub(" ", _BARE_DECIMAL.sub("0.", text))
    )
    text = _CURRENCY_BEHIND.sub(r"\2\1", collapsed(text))
    text = _SPACED_SIGN.sub(lambda match: match[1] or match[2] or "", text)
    words = [word for word in text.split() if word not in _LONE_SIGNS]
    # As the last word an article is a name, as in `vitamin A`.
    content = [word for word in words[:-1] if word not in _ARTICLES] + words[-1:]
    return " ".join(content) or collapsed(folded)  # signs alone


def _plain(text: str) -> str:
    """Return a text without TeX and emphasis, its initials without stops."""
    text = _MATH.sub(lambda match: _SUBSCRIPT.sub(r"\1", match[1] or match[2] or ""), superscripts_as_powers(text))
    text = straight_quotes(unicodedata.normalize("NFKC", _BRACED_POWER.sub(r"^\1", without_latex(text))))
    text = _RATIO.sub("∶", text)
    for quote, prime in (("'", "′"), ('"', "′′")):
        if text.count(quote) == 1:  # no pair: feet, minutes, inches or seconds
            text = re.sub(rf"(?<=\d){quote}(?!\w)", prime, text)
    return _INITIALS.sub(lambda match: match[0].replace(".", "").replace(" ", ""), _EMPHASIS.sub(r"\2", text))


def _counts(sign: str) -> bool:
    return (
        sign in _SIGNS_THAT_COUNT or sign == "." or (not sign.isascii() and unicodedata.category(sign) in ("Sm", "Sc"))
    )


# --------------------------------------------------------------------------------------------- yes or no

_FIRST = re.compile(
    r"\W*+(?!no\s++(?:doubt|question|problem)\b)(yes|no|true|false)(?![^\W_])"
    r"(?!\s*+(?:/|or\b|oder\b|ou\b)\s*+(?:yes|no|true|false)\b)"
)
_ECHO = re.compile(r"\A\W*+(?:yes|true)\s*+(?:/|or\b)\s*+(?:no|false)\s*+[?:]")  # of the question
_YES_NO = re.compile(r"(?<![^\W_])(yes|no)(?![^\W_])(?!\s++(?:doubt|question|problem)\b)")
_TRUE_FALSE = re.compile(r"(?<![^\W_])(true|false)(?![^\W_])")


def read_yes_no(reply: str) -> str | None:
    """Return `yes` or `no`: the first word, else the one after the last cue, else the only one of the text."""
    text = _ECHO.sub("", phrase(reply).casefold())
    if first := _FIRST.match(text):
        return _as_yes_no(first[1])
    for pattern in (_YES_NO, _TRUE_FALSE):
        cued = [match[1] for cue in CUE.finditer(text) if (match := pattern.match(text, cue.end()))]
        said = {match[1] for match in pattern.finditer(text) if not is_denied(text, *match.span())}
        words = cued[-1:] or sorted(said)
        if len(words) == 1:
            return _as_yes_no(words[0])
        if words:
            return None
    return None


def _as_yes_no(word: str) -> str:
    return {"true": "yes", "false": "no"}.get(word, word)


# ------------------------------------------------------------------------------------------------ labels

_HEAD_END = re.compile(
    r"[:)\]](?=\s|\Z)|[(\n]|\Z|[.,;!](?=\s)|\s[-–—]\s|\s(?:because|since|as|weil|car)\b", re.IGNORECASE
)
_WEAK_ENDS: Final = ".,;!-–—"
_OPENERS: Final = " \t\"'([*_`>"
_MOST_ENDS: Final = 4  # of a line's head that are tried: a label may hold stops


@lru_cache(1 << 14)
def spelled(text: str) -> str:
    """Return a label for comparison where signs count, as in `C` and `C++`: not case, hyphens, quotes and stops."""
    text = straight_quotes(unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(word.strip("\"'.,;:()") or word for word in _HYPHEN.sub(" ", text).split())


def label_form(labels: Sequence[str]) -> Callable[[str], str]:
    """Return how labels are compared: as phrases, or as spelled where two would be one phrase."""
    return normalized if len({*map(normalized, labels)}) == len(labels) else spelled


def read_label(reply: str, labels: Sequence[str]) -> str | None:
    """Return the label that a reply is, that follows the last cue, that begins its lines, or that it names alone."""
    form_of = label_form(labels)
    by_form = {form_of(label): label for label in labels}
    if label := by_form.get(form_of(phrase(reply))):
        return label
    if sorted(labels) == [*ascii_uppercase[: len(labels)]] and len(labels) > 1:
        return letter_reader(len(labels)).read(reply, {}).letter
    text = _EMPHASIS.sub(r"\2", straight_quotes(canonical(reply)))
    if label := _label_behind_cue(text, form_of, by_form):
        return label
    named = _named(form_of(text), by_form)
    heads = [head for line in text.split("\n") if (head := _head(LEAD.sub("", line), form_of, by_form))]
    if len({label for label, _ in heads}) > 1:
        return None
    if heads and (len(named) < 2 or any(is_strong for _, is_strong in heads)):
        return heads[0][0]
    return named.pop() if len(named) == 1 else None


def _label_behind_cue(text: str, form_of: Callable[[str], str], by_form: dict[str, str]) -> str | None:
    cues = list(CUE.finditer(text))
    if not cues:
        return None
    line = text[cues[-1].end() :].partition("\n")[0]
    if head := _head(line, form_of, by_form):
        return head[0]
    form = form_of(line)
    begun = [label for label in by_form if label and f"{form} ".startswith(f"{label} ")]
    return by_form[max(begun, key=len)] if begun else None


def _head(line: str, form_of: Callable[[str], str], by_form: dict[str, str]) -> tuple[str, bool] | None:
    """Return the label in front of what delimits it, and whether no other label may follow; None for none."""
    line = line.lstrip(_OPENERS)
    for number, end in enumerate(_HEAD_END.finditer(line)):
        if number == _MOST_ENDS:
            break
        if label := by_form.get(form_of(line[: end.start()])):
            return label, end[0].strip() not in _WEAK_ENDS
    return None


def _named(form: str, by_form: dict[str, str]) -> set[str]:
    rest, named = f" {form} ", set[str]()
    for label_form in sorted(by_form, key=len, reverse=True):  # a label may be part of a longer one
        if label_form and f" {label_form} " in rest:
            if names(rest, label_form):
                named.add(by_form[label_form])
            rest = rest.replace(f" {label_form} ", " | ")
    return named


# -------------------------------------------------------------------------------------------- similarity

_ANLS_THRESHOLD: Final = 0.5


def anls(answer: str, references: Sequence[str]) -> float:
    """Return the average normalised Levenshtein similarity of one answer (Biten et al. 2019), best over references.

    Texts are compared in lower case; a distance of half the longer text or more is 0.
    """
    best = 0.0
    for reference in references:
        first, second = collapsed(answer.lower()), collapsed(reference.lower())
        longest = max(len(first), len(second))
        if 2 * abs(len(first) - len(second)) > longest:  # the distance is at least as long
            continue
        similarity = 1.0 - edit_distance(first, second) / longest if longest else 1.0
        best = max(best, similarity)
    return best if best > _ANLS_THRESHOLD else 0.0


def edit_distance(first: str, second: str) -> int:
    """Return the Levenshtein distance of two texts, a column of its table at a time as bits (Myers 1999)."""
    if not first:
        return len(second)
    places: dict[str, int] = {}
    for index, sign in enumerate(first):
        places[sign] = places.get(sign, 0) | 1 << index
    mask, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    plus, minus, distance = mask, 0, len(first)
    for sign in second:
        equal = places.get(sign, 0)
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up, down = minus | ~(horizontal | plus) & mask, plus & horizontal
        distance += bool(up & last) - bool(down & last)
        up, down = (up << 1 | 1) & mask, down << 1 & mask
        plus, minus = down | ~(vertical | up) & mask, up & vertical
    return distance


TEN_ANSWERS: Final = 10


def vqa_accuracy(answer: str, references: Sequence[str]) -> float:
    """Return VQA's accuracy of one answer: over each nine of the ten people, min(1, equal answers / 3), on average."""
    form = normalized(answer)
    equal = [normalized(reference) == form for reference in references]
    total = sum(equal)
    return sum(min(1.0, (total - is_equal) / 3) for is_equal in equal) / len(equal)
