r"""Parse VAGUE's answers: the letter of a multiple choice, and the sentence of a free-form answer.

The first of six rules that matches decides a choice; the rule is stored with every answer, so that reports can count
them. The rules never guess: a text that names two letters, or none, is invalid with a reason.

* R0: the text begins with two different letters that are joined (`A or B`).
* R1: the text is one letter and punctuation.
* R2: the text begins with a letter and what delimits an option's letter (`B)`, `B:`, `B - `, a line end).
* R3: a letter after a cue word (`the answer is (B)`).
* R4: a letter that stands alone anywhere in the text.
* R5: the wording of one of the readings.

Parsing takes time linear in the length of the text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pipelines.benchmarks.text_cleaning import (
    canonical,
    collapsed,
    is_refusal,
    normalize_words,
    straight_quotes,
    without_outer_quotes,
)
from pipelines.benchmarks.vague.answer_cleaning import clean_output, second_answer

Rule = Literal["R0", "R1", "R2", "R3", "R4", "R5"]
InvalidReason = Literal[
    "empty", "empty_answer2", "multiple", "no_answer2", "out_of_range", "refusal", "unclosed_think", "unparsed"
]
Flag = Literal["over_15_words", "opener_missing", "refusal"]

MAX_WORDS: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The parsed answer to a multiple-choice question."""

    letter: str | None
    """`A` to `D`, or None where the answer is invalid."""
    rule: Rule | None
    """The rule that matched, also where it found the answer invalid; None where none did."""
    invalid_reason: InvalidReason | None


@dataclass(frozen=True, slots=True)
class FreeformAnswer:
    """The parsed free-form answer."""

    text: str
    """The sentence to score, on one line; empty where the answer is invalid."""
    flags: tuple[Flag, ...]
    """Peculiarities of the sentence; they change no score."""


def parse_choice(raw: str, readings: Mapping[str, str], *, cot: bool) -> Choice:
    """Parse the letter of an output; `readings` are the texts of `A` to `D`, with `cot` an explanation comes first."""
    text = clean_output(raw)
    if text is None:
        return _invalid("unclosed_think")
    if not text:
        return _invalid("empty")
    if not cot:
        return _apply_rules(text, readings, cot=False) or _invalid("refusal" if is_refusal(text) else "unparsed")
    region = second_answer(text)
    if region is None:
        return _choice_without_marker(text, readings)
    if not region:
        return _invalid("empty_answer2")
    return _apply_rules(region, readings, cot=True) or _invalid("refusal" if is_refusal(region) else "unparsed")


def _choice_without_marker(text: str, readings: Mapping[str, str]) -> Choice:
    last_line = text.rpartition("\n")[2].strip()
    if reading := _apply_rules(last_line, readings, cot=True):
        return reading
    if hits := _cue_hits(text):
        letter, joined = hits[-1]
        return _invalid("multiple", "R3") if joined else _valid(letter, "R3")
    return _invalid("refusal" if is_refusal(text) else "no_answer2")


def _apply_rules(region: str, readings: Mapping[str, str], *, cot: bool) -> Choice | None:
    return (
        _joined_letters(region)
        or _single_letter(region)
        or _leading_letter(region)
        or _letter_after_cue(region, cot=cot)
        or _lone_letter(region)
        or _quoted_reading(region, readings)
    )


def _valid(letter: str, rule: Rule) -> Choice:
    return Choice(letter=letter.upper(), rule=rule, invalid_reason=None)


def _invalid(reason: InvalidReason, rule: Rule | None = None) -> Choice:
    return Choice(letter=None, rule=rule, invalid_reason=reason)


# Chinese, Japanese and Korean put no space between a letter and the adjacent word.
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_ALONE_BEFORE = rf"(?<![^\W_{_UNSPACED}])(?<![^\W_][-‐])(?<!°)"
_ALONE_AFTER = rf"(?![^\W_{_UNSPACED}]|'\w)"
# A capital letter is an article or an initial when an ordinary word follows, unless the word continues a choice.
_NO_NOUN_NEXT = r"(?![ \t]++(?!(?:because|since|as|is|but|and|or|for)\b)[^\W\d_A-Z])"
_LINE_END = r"[ \t]*+(?:\n|\Z)"
_OPENERS = r"[\s(\[{<\"']*+"

_JOINED = re.compile(
    rf"{_ALONE_BEFORE}([A-Da-d]){_ALONE_AFTER}[)\]}}>\"'.]*+\s*+"
    r"(?:,\s*+(?:(?i:and/or|and|or)\b)?+|[/&+]|(?i:and/or|and|or)\b)\s*+"
    rf"(?=(?:(?i:option|choice|letter)\s++)?+{_OPENERS}"
    rf"(?:([B-D]){_ALONE_AFTER}|(A){_ALONE_AFTER}{_NO_NOUN_NEXT}|([a-d])(?:[)\].:,\"]|'(?!\w)|{_LINE_END})))"
)


def _joined_pairs(text: str) -> Iterator[re.Match[str]]:
    """Yield pairs of different letters of one case joined by a comma, a sign or a word; a match starts at the first."""
    for pair in _JOINED.finditer(text):
        second = pair[2] or pair[3] or pair[4]
        if second != pair[1] and second.isupper() == pair[1].isupper():
            yield pair


_AT_START = re.compile(_OPENERS)


def _joined_letters(region: str) -> Choice | None:
    first = next(_joined_pairs(region), None)
    start = _AT_START.match(region)
    if first and start and first.start() == start.end():
        return _invalid("multiple", "R0")
    return None


_SINGLE_LETTER = re.compile(rf"{_OPENERS}([^\W_])[\s)\]}}>\"'.:,!]*+")


def _single_letter(region: str) -> Choice | None:
    match = _SINGLE_LETTER.fullmatch(region)
    if match is None:
        return None
    return _valid(match[1], "R1") if match[1] in "ABCDabcd" else _invalid("out_of_range", "R1")


_LEADING = re.compile(rf"{_OPENERS}(?:([A-D])(?:[)\].:\"]|'(?!\w)|[ \t]++[-–—‐]|[-–—‐]\s|{_LINE_END})|([a-d])[)\].:])")


def _leading_letter(region: str) -> Choice | None:
    match = _LEADING.match(region)
    return None if match is None else _valid(match[1] or match[2], "R2")


_CUE = re.compile(
    r"\b((?i:answer|option|choice|select|choose|pick))\b[\"']?+"
    r"(?:\s*+(?:(?i:is|would\s++be|should\s++be|option|choice|letter)\b|[:=→–—-])){0,6}+[>\s]*+"
    rf"{_OPENERS}"
    rf"(?:([A-D]){_ALONE_AFTER}{_NO_NOUN_NEXT}|([a-d])(?:[)\].:,\"<}}]|'(?!\w)|{_LINE_END}))"
)


def _cue_hits(text: str) -> list[tuple[str, bool]]:
    """Return letters after cue words, each with whether another is joined to it; `answer` outranks the others."""
    joined = {pair.start(group) for pair in _joined_pairs(text) for group in range(1, 5)}
    hits = list(_CUE.finditer(text))
    preferred = [hit for hit in hits if hit[1].casefold() == "answer"] or hits
    return [((hit[2] or hit[3]).upper(), hit.start(2 if hit[2] else 3) in joined) for hit in preferred]


def _letter_after_cue(region: str, *, cot: bool) -> Choice | None:
    letters = [letter for letter, _ in _cue_hits(region)]
    if not letters:
        return None
    if next(_joined_pairs(region), None) or (len(set(letters)) > 1 and not cot):
        return _invalid("multiple", "R3")
    return _valid(letters[-1], "R3")


_LONE = re.compile(
    rf"{_ALONE_BEFORE}(?:([B-D]){_ALONE_AFTER}(?![-‐]\w)|(A)(?=[^\w\s]|[_{_UNSPACED}]|{_LINE_END})(?!'\w)(?![-‐]\w))"
)


def _lone_letter(region: str) -> Choice | None:
    letters = {match[1] or match[2] for match in _LONE.finditer(region)}
    if len(letters) > 1 or next(_joined_pairs(region), None):
        return _invalid("multiple", "R4")
    return _valid(letters.pop(), "R4") if letters else None


def _quoted_reading(region: str, readings: Mapping[str, str]) -> Choice | None:
    answer = normalize_words(region)
    wordings = {letter: normalize_words(straight_quotes(canonical(text))) for letter, text in readings.items()}
    equal = [letter for letter, wording in wordings.items() if wording and wording == answer]
    matches = equal or [letter for letter, wording in wordings.items() if wording and f" {wording} " in f" {answer} "]
    if not matches:
        return None
    return _valid(matches[0], "R5") if len(matches) == 1 else _invalid("multiple", "R5")


_LABEL = re.compile(
    r"\s*+(?:(?:my|your|the|final|correct)\s++){0,3}+(?:answer|intention|response|output|reply)"
    r"(?:\s*+#?\d)?+\s*+(?:\([^()\n]{0,60}+\)\s*+)?+(?::|=|[-–—](?=\s))\s*+",
    re.IGNORECASE,
)
_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n")
_OPENER = re.compile(r"[\s\"']*+the\s++speaker\s++wants\b", re.IGNORECASE)
_FULL_OPENER = re.compile(r"[\s\"']*+the\s++speaker\s++wants\s++(?:(?!to\b)\S++\s++){0,6}to\b\s*+", re.IGNORECASE)
_STATEMENT = re.compile(r"\bthe[^\S\n]++speaker[^\S\n]++wants\b", re.IGNORECASE)
_STATEMENT_START = re.compile(r"(?:\A|\n|[.!?:][\"')\]]*+\s)[\s\"'(>•\d.)-]*\Z")
_SENTENCE_END = re.compile(r"[.!?]++(?=[\"')\]]*+(?:\s|\Z))")
_MAX_BULLET = 40  # characters before a statement in which its bullet or number may begin


def parse_freeform(raw: str, *, cot: bool) -> FreeformAnswer:
    """Parse the sentence of a free-form answer, not cut to the requested length."""
    text = clean_output(raw) or ""
    region = _statement(text) if cot else _first_paragraph(text)
    sentence = collapsed(without_outer_quotes(_without_label(without_outer_quotes(region))))
    if not sentence:
        return FreeformAnswer("", ())
    has_opener = _OPENER.match(sentence) is not None
    flags: dict[Flag, bool] = {
        "over_15_words": len(sentence.split()) > MAX_WORDS,
        "opener_missing": not has_opener,
        "refusal": not has_opener and is_refusal(sentence),
    }
    return FreeformAnswer(sentence, tuple(flag for flag, is_set in flags.items() if is_set))


def without_opener(text: str) -> str:
    """Strip the opener `The speaker wants <addressee> to`, which the prompt requests."""
    opener = _FULL_OPENER.match(text) or _OPENER.match(text)
    return text[opener.end() :].strip() if opener else text


def _first_paragraph(text: str) -> str:
    return _BLANK_LINE.split(_without_label(without_outer_quotes(text)).strip(), maxsplit=1)[0]


def _without_label(text: str) -> str:
    label = _LABEL.match(text)
    return text[label.end() :] if label else text


def _statement(text: str) -> str:
    second = second_answer(text)
    if second is not None:
        return second
    for start in reversed([match.start() for match in _STATEMENT.finditer(text)]):
        if _STATEMENT_START.search(text, max(0, start - _MAX_BULLET), start):
            line = text[start:].partition("\n")[0]
            end = _SENTENCE_END.search(line)
            return line[: end.end()] if end else line
    return text.rpartition("\n")[2]
