"""Parse VAGUE's answers: the letter of a choice by `readers.option_letters`, and the sentence of a free-form answer."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from pipelines.benchmarks.readers.option_letters import Choice, invalid, letter_reader, valid
from pipelines.benchmarks.text_cleaning import FlaggedText, collapsed, is_refusal, without_outer_quotes

Flag = Literal["over_15_words", "opener_missing", "refusal"]

MAX_WORDS: Final = 15
_READER: Final = letter_reader(4)


_MARKER = re.compile(
    r"\banswer[\s#_-]{0,3}2(?![^\W_])\s*+(?:[(\[]\s*+intention\s*+[)\]]\s*+)?+[:–—-]?+"
    r"|[(\[]\s*+intention\s*+[)\]]\s*+[:–—-]?+",
    re.IGNORECASE,
)


def _second_answer(text: str) -> str | None:
    """Return the text after the last marker of the second answer, which may be empty; None without a marker."""
    end = None
    for marker in _MARKER.finditer(text):
        end = marker.end()
    return None if end is None else text[end:].strip()


def parse_choice(raw: str, readings: Mapping[str, str], *, cot: bool) -> Choice:
    """Parse the letter of an output; `readings` are the texts of `A` to `D`, with `cot` an explanation comes first."""
    if not cot:
        return _READER.read(raw, readings)
    text = _READER.clean(raw)
    if not text:
        return invalid("unclosed_think" if text is None else "empty")
    region = _second_answer(text)
    if region is None:
        return _choice_without_marker(text, readings)
    if not region:
        return invalid("empty_answer2")
    return _READER.apply_rules(region, readings, last=True) or invalid("refusal" if is_refusal(region) else "unparsed")


def _choice_without_marker(text: str, readings: Mapping[str, str]) -> Choice:
    last_line = text.rpartition("\n")[2].strip()
    if reading := _READER.apply_rules(last_line, readings, last=True):
        return reading
    if hits := _READER.cue_hits(text):
        letter, joined = hits[-1]
        return invalid("multiple", "R3") if joined else valid(letter, "R3")
    return invalid("refusal" if is_refusal(text) else "no_answer2")


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


def parse_freeform(raw: str, *, cot: bool) -> FlaggedText:
    """Parse the sentence of a free-form answer, not cut to the requested length."""
    text = _READER.clean(raw) or ""
    if cot:
        region = _statement(text)
    else:
        region = _BLANK_LINE.split(_without_label(without_outer_quotes(text)).strip(), maxsplit=1)[0]
    sentence = collapsed(without_outer_quotes(_without_label(without_outer_quotes(region))))
    if not sentence:
        return FlaggedText("")
    has_opener = _OPENER.match(sentence) is not None
    flags: dict[Flag, bool] = {
        "over_15_words": len(sentence.split()) > MAX_WORDS,
        "opener_missing": not has_opener,
        "refusal": not has_opener and is_refusal(sentence),
    }
    return FlaggedText(sentence, tuple(flag for flag, is_set in flags.items() if is_set))


def without_opener(text: str) -> str:
    """Strip the opener `The speaker wants <addressee> to`, which the prompt requests."""
    opener = _FULL_OPENER.match(text) or _OPENER.match(text)
    return text[opener.end() :].strip() if opener else text


def _without_label(text: str) -> str:
    label = _LABEL.match(text)
    return text[label.end() :] if label else text


def _statement(text: str) -> str:
    second = _second_answer(text)
    if second is not None:
        return second
    for start in reversed([match.start() for match in _STATEMENT.finditer(text)]):
        if _STATEMENT_START.search(text, max(0, start - _MAX_BULLET), start):
            line = text[start:].partition("\n")[0]
            end = _SENTENCE_END.search(line)
            return line[: end.end()] if end else line
    return text.rpartition("\n")[2]
