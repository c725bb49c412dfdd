"""Scorers of numbers and formulas."""

import math
import re
from decimal import Decimal
from typing import Final

from pipelines.benchmarks.scorers.letters import read_letter
from pipelines.benchmarks.scorers.records import Gold, Scored

_TOLERANCE: Final = 0.05  # of `relaxed`, relative to the right number


def _as_float(text: str) -> float | None:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def relaxed(reply: str, gold: Gold) -> Scored:
    """Score numbers within 5% of a reference, other texts by equality in lower case."""
    answer = reply.strip()
    number = _as_float(answer)

    def is_right(reference: str) -> bool:
        right = _as_float(reference)
        if number is None or not right:
            return answer.lower() == reference.lower()
        return abs(number - right) / abs(right) <= _TOLERANCE

    return Scored(float(any(is_right(reference.strip()) for reference in gold.references)), answer or None)


_NUMBER = re.compile(r"(?<![^\W_])-?\d+(?:,\d{3})*(?:\.\d+)?|\d+(?:,\d{3})*(?:\.\d+)?")
_WORDS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_WORD_NUMBERS: Final = {"none": Decimal(0), **{word: Decimal(number) for number, word in enumerate(_WORDS)}}


def _whole_number(text: str) -> Decimal | None:
    text = text.strip().lower().removesuffix(".")
    if text in _WORD_NUMBERS:
        return _WORD_NUMBERS[text]
    return Decimal(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def last_number(reply: str, gold: Gold) -> Scored:
    """Score the number that a reply is, else the last one in it, without tolerance.

    A reference that is no number is compared as a text in lower case.
    """
    number = _whole_number(reply)
    if number is None and (found := _NUMBER.findall(reply)):
        number = Decimal(found[-1].replace(",", ""))

    def is_right(reference: str) -> bool:
        right = _whole_number(reference)
        if right is None:
            return reply.strip().lower() == reference.strip().lower()
        if number is None or gold.precision is None:
            return number == right
        return round(float(number), gold.precision) == round(float(right), gold.precision)

    is_text = number is None and bool(reply.strip())
    answer = reply.strip() if is_text and any(map(is_right, gold.references)) else None
    return Scored(float(any(map(is_right, gold.references))), answer if number is None else str(number))


# --------------------------------------------------------------------------------------------------- LaTeX

_BRACES = re.compile(r"\\boxed\s*\{|[{}]")
_LEAD = re.compile(r"the (?:correct |final )?answer is|the answer should be|answer:", re.IGNORECASE)
_DROPPED = re.compile(
    r"\\left(?![a-z])|\\right(?![a-z])|\\,|\^\s*+(?:\\circ|\{\s*+\\circ\s*+\})|°|[$*\s]", re.IGNORECASE
)
_TEXT = re.compile(r"\\text\s*+\{((?:[^{}]++|\{[^{}]*+\})*+)\}")
_TOKEN = re.compile(r"\d+(?:\.\d*)?|\.\d+|\\[a-z]+|.")
_EQUAL_DECIMALS: Final = 2
_MAX_FORMULA: Final = 200  # characters of one that may be a number


def _boxed(reply: str) -> str | None:
    r"""Return the content of the last `\boxed{}` whose braces are balanced."""
    opened: list[re.Match[str]] = []
    last: tuple[int, int] | None = None  # start and end of its content
    for mark in _BRACES.finditer(reply):
        if mark[0] != "}":
            opened.append(mark)
        elif opened and len((start := opened.pop())[0]) > 1 and (last is None or start.end() > last[0]):
            last = start.end(), mark.start()
    return reply[slice(*last)] if last else None


def _formula(text: str) -> str:
    """Return a formula for comparison."""
    text = re.split(r"=|\\approx", text)[-1]
    text = _DROPPED.sub("", _TEXT.sub(r"\1", _TEXT.sub(r"\1", text)))  # also one in another
    return text.removesuffix(".").replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").lower()


def _value(formula: str) -> float | None:
    """Return the number that a formula is: decimals, quotients, roots, pi and products of these."""
    tokens = _TOKEN.findall(formula[: _MAX_FORMULA + 1])
    if len(formula) > _MAX_FORMULA:
        return None
    try:
        value, rest = _product(tokens)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError, RecursionError):
        return None
    return value if not rest and math.isfinite(value) else None


def _product(tokens: list[str]) -> tuple[float, list[str]]:
    sign = 1.0
    while tokens[:1] in (["-"], ["+"]):
        sign, tokens = (-sign if tokens[0] == "-" else sign), tokens[1:]
    value, tokens = _factor(tokens)
    while tokens and tokens[0] not in ("}", ")", "]"):
        if tokens[0] == "/":
            divisor, tokens = _factor(tokens[1:])
            value /= divisor
            continue
        is_sign = tokens[0] in ("\\times", "\\cdot", "×", "·")
        factor, tokens = _factor(tokens[1:] if is_sign else tokens)
        value *= factor
    return sign * value, tokens


def _factor(tokens: list[str]) -> tuple[float, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first in ("{", "("):
        value, rest = _product(rest)
        if rest[0] != {"{": "}", "(": ")"}[first]:
            raise ValueError(first)
        return value, rest[1:]
    if first in ("\\pi", "π"):
        return math.pi, rest
    if first in ("\\frac", "\\sqrt", "√"):
        degree = 2.0
        if first == "\\sqrt" and rest[0] == "[":
            degree, rest = _product(rest[1:])
            rest = rest[1:]
        value, rest = _argument(rest)
        if first == "\\frac":
            divisor, rest = _argument(rest)
            return value / divisor, rest
        if value < 0:
            raise ValueError(first)
        return value ** (1 / degree), rest
    return float(first), rest


def _argument(tokens: list[str]) -> tuple[float, list[str]]:
    r"""Return the argument of a command: a group, or the next sign, as in `\frac12`."""
    if len(tokens[0]) > 1 and tokens[0][0].isdigit():
        tokens = [tokens[0][0], tokens[0][1:], *tokens[1:]]
    return _factor(tokens)


def _equal_formulas(first: str, second: str) -> bool:
    if first == second:
        return bool(first)
    one, other = _value(first), _value(second)
    return one is not None and other is not None and round(one, _EQUAL_DECIMALS) == round(other, _EQUAL_DECIMALS)


def latex(reply: str, gold: Gold) -> Scored:
    """Score a formula: equal as text, or as numbers rounded to two decimals; of options also the letter."""
    boxed = _boxed(reply)
    answer = boxed
    if answer is None:
        leads = [*_LEAD.finditer(reply)]
        answer = reply[leads[-1].end() :].partition("\n")[0] if leads else reply
    form = _formula(answer)
    is_right = any(_equal_formulas(form, _formula(reference)) for reference in gold.references)
    if gold.letter is not None:
        letter = form.strip("().:").upper() if boxed is not None else read_letter(reply, gold.letters)
        is_right = is_right or letter == gold.letter
    return Scored(float(is_right), form or None)
