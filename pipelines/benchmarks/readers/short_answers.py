"""Read short answers: yes or no, one of a set of words, a number, a phrase; and compare phrases as VQA does.

A reader returns None where a reply says nothing of its kind, or two things: nothing is guessed.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from pipelines.benchmarks.text_cleaning import canonical, collapsed, straight_quotes, without_outer_quotes

_UNITS: Final = "zero|one|two|three|four|five|six|seven|eight|nine"
_TEENS: Final = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS: Final = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_VALUES: Final = {
    **{word: value for value, word in enumerate(f"{_UNITS}|{_TEENS}".split("|"))},
    **{word: 10 * value for value, word in enumerate(_TENS.split("|"), start=2)},
}
_SCALES: Final = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_BELOW_100: Final = rf"(?:(?:{_TENS})(?:[- ](?:{_UNITS.removeprefix('zero|')}))?|{_UNITS}|{_TEENS})"
_BELOW_1000: Final = rf"(?:{_BELOW_100}(?:[- ]hundred(?:[- ](?:and[- ])?{_BELOW_100})?)?)"
_SPELLED = re.compile(
    rf"\b{_BELOW_1000}(?:[- ](?:thousand|million|billion)(?:[- ](?:and[- ])?{_BELOW_1000})?){{0,3}}\b", re.IGNORECASE
)
_ARTICLES: Final = frozenset(("a", "an", "the"))
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NO_WORD = re.compile(r"(?:(?<!\d)[.]|[.](?!\d)|[^\w\s.])+")
_HYPHEN = re.compile(r"(?<=\w)[-_](?=\w)")
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_CUE = re.compile(
    r"\b(?:answer|verdict|result)\b(?:\s*+(?:is|was|would\s++be|should\s++be)\b)?+\s*+[:=]?+\s*+", re.IGNORECASE
)
_LEAD = re.compile(
    r"\A(?:(?:so|therefore|thus),?\s++)?+(?:the\s++|my\s++)?+(?:final\s++|correct\s++|right\s++)?+answer"
    r"(?:\s++(?:is|would\s++be)\b\s*+:?+|\s*+[:=])\s*+",
    re.IGNORECASE,
)
_YES_NO = re.compile(r"(?<![^\W_])(yes|no)(?![^\W_])")
_TRUE_FALSE = re.compile(r"(?<![^\W_])(true|false)(?![^\W_])")
_NUMBER = re.compile(
    r"(?<![\w.,])[-+−]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d)\.?)(?:[eE][-+]?\d{1,3})?(?!\w|[.,]\d)",
    re.ASCII,
)
_MAX_DIGITS: Final = 300  # of a number; longer runs of digits are none


def phrase(reply: str) -> str:
    """Return the phrase of a reply: without a lead such as `The answer is`, outer quotes and a final full stop."""
    text = _LEAD.sub("", collapsed(straight_quotes(canonical(reply))))
    return without_outer_quotes(text.removesuffix(".")).strip()


@lru_cache(1 << 14)
def normalized(text: str) -> str:
    """Return a phrase for comparison: case, Unicode form, articles, punctuation and number words do not count.

    A full stop between digits stays; commas between thousands and apostrophes in words are dropped.
    """
    text = straight_quotes(unicodedata.normalize("NFKC", text)).casefold()
    text = _APOSTROPHE.sub("", _THOUSANDS.sub("", text)).replace("_", " ")
    words = _NO_WORD.sub(" ", _with_digits(text)).split()
    content = [word for word in words if word not in _ARTICLES]
    return " ".join(content or words) or collapsed(text)  # signs alone


def read_yes_no(reply: str) -> str | None:
    """Return `yes` or `no`: the first word, else the one after the last cue, else the only one of the text."""
    text = phrase(reply).casefold()
    first = re.match(r"\W*+(yes|no|true|false)(?![^\W_])", text)
    if first:
        return _as_yes_no(first[1])
    for pattern in (_YES_NO, _TRUE_FALSE):
        cued = [match[1] for cue in _CUE.finditer(text) if (match := pattern.match(text, cue.end()))]
        words = cued[-1:] or sorted(set(pattern.findall(text)))
        if len(words) == 1:
            return _as_yes_no(words[0])
        if words:
            return None
    return None


def _as_yes_no(word: str) -> str:
    return {"true": "yes", "false": "no"}.get(word, word)


@lru_cache(1 << 14)
def spelled(text: str) -> str:
    """Return a label for comparison where signs count, as in `C` and `C++`: not case, hyphens, quotes and stops."""
    text = straight_quotes(unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(word.strip("\"'.,;:()") or word for word in _HYPHEN.sub(" ", text).split())


def label_form(labels: Sequence[str]) -> Callable[[str], str]:
    """Return how labels are compared: as phrases, or as spelled where two would be one phrase."""
    return normalized if len({*map(normalized, labels)}) == len(labels) else spelled


def read_label(reply: str, labels: Sequence[str]) -> str | None:
    """Return the label that a reply is, or the only one that it names."""
    form_of = label_form(labels)
    by_form = {form_of(label): label for label in labels}
    answer = form_of(phrase(reply))
    if answer in by_form:
        return by_form[answer]
    if cues := list(_CUE.finditer(reply)):
        after = form_of(reply[cues[-1].end() :])
        begun = [form for form in by_form if form and f"{after} ".startswith(f"{form} ")]
        if begun:
            return by_form[max(begun, key=len)]
    rest, named = f" {form_of(reply)} ", set[str]()
    for form in sorted(by_form, key=len, reverse=True):  # a label may be part of a longer one
        if form and f" {form} " in rest:
            named.add(by_form[form])
            rest = rest.replace(f" {form} ", " | ")
    return named.pop() if len(named) == 1 else None


def read_number(reply: str) -> float | None:
    """Return the number of a reply: the whole of it, the one after the last cue, or the only one that it names.

    Thousands may have commas; signs of percent and of currencies do not change a number.
    """
    text = _with_digits(phrase(reply))
    cues = list(_CUE.finditer(text))
    for region in [text[cue.end() :] for cue in cues[-1:]] + [text]:
        numbers = list(_numbers(region))
        if numbers and (region is not text or len(set(numbers)) == 1):
            return numbers[0]
    first_line = _with_digits(canonical(reply).strip().partition("\n")[0])
    return next(iter(_numbers(first_line))) if _is_number_alone(first_line) else None


def parse_number(value: object) -> float:
    """Return a number as data gives it; ValueError for anything else, NaN and infinity too."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is no number")
    if isinstance(value, int | float):
        number = float(value)
    else:
        text = str(value).strip()
        if not _is_number_alone(text):
            raise ValueError(f"{text[:80]!r} is no number")
        number = next(iter(_numbers(text)))
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no finite number")
    return number


def _is_number_alone(text: str) -> bool:
    bare = text.strip().strip("$€£¥ ").removesuffix("%").strip("$€£¥ ")
    match = _NUMBER.fullmatch(bare)
    return match is not None and any(sign.isdigit() for sign in bare) and len(bare) <= _MAX_DIGITS


def _with_digits(text: str) -> str:
    """Return a text with digits in place of numbers in words."""
    return _SPELLED.sub(_digits, text)


def _digits(match: re.Match[str]) -> str:
    total = part = 0
    for word in re.findall("[a-z]+", match[0].casefold()):
        scale = _SCALES.get(word, 0)
        if scale > 100:
            total, part = total + part * scale if part else total * scale, 0
        else:
            part = part * (scale or 1) + _VALUES.get(word, 0)
    return str(total + part)


def _numbers(text: str) -> Iterable[float]:
    for match in _NUMBER.finditer(re.sub(r"[$€£¥]\s*+|\s*+%", " ", text)):
        digits = match[0].replace(",", "").replace("−", "-").rstrip(".")
        if any(sign.isdigit() for sign in digits) and len(digits) <= _MAX_DIGITS:
            yield float(digits)


def is_within(number: float, gold: float, tolerance: float, *, exact: bool) -> bool:
    """Return whether a number is right: equal where it must be exact, else within a relative tolerance."""
    return number == gold or (not exact and abs(number - gold) <= tolerance * abs(gold))


def is_exact_gold(gold: float) -> bool:
    """Return whether a gold number allows no tolerance: a whole number below 10, or one that may be a year."""
    return gold.is_integer() and (abs(gold) < 10 or 1500 <= gold <= 2100)


_ANLS_THRESHOLD: Final = 0.5


def anls(answer: str, references: Sequence[str]) -> float:
    """Return the average normalised Levenshtein similarity of one answer (Biten et al. 2019), best over references.

    Texts are compared in lower case; a distance of half the longer text or more is 0.
    """
    best = 0.0
    for reference in references:
        first, second = collapsed(answer.lower()), collapsed(reference.lower())
        longest = max(len(first), len(second))
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
