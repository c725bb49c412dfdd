"""Read UNPIE's answers: the pun's phrase, a translation, a judge's verdict; and decide verdicts by rule.

Every function takes time linear in the length of the text.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, Literal

from pipelines.benchmarks.text_cleaning import (
    FlaggedText,
    after_reasoning,
    canonical,
    collapsed,
    is_refusal,
    normalize_words,
    straight_quotes,
    without_fences,
    without_outer_quotes,
)

Language = Literal["de", "fr", "ko", "en"]

TIE: Final = 1e-6  # two similarities this close are a tie


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """Whether an answer is the pun's phrase."""

    normalised: bool  # after both went through `read_grounding`: the headline
    strict: bool  # as it stands, except for blanks at the ends


_EMPHASIS = re.compile(r"\*\*|__|`")


def _cleaned(raw: str) -> str:
    """Return `raw` without reasoning, chat tokens and emphasis; empty where reasoning was never closed."""
    text = after_reasoning(straight_quotes(canonical(raw), angle=True)) or ""
    return _EMPHASIS.sub("", without_fences(text)).strip()


# ------------------------------------------------------------------------------------------ grounding

_NOUN = r"(?:answer|pun|word|phrase)s?"
_TAG_WORDS = (
    r"(?:(?:the|a|my|your|final|correct|key|punning)\s++){0,4}+"
    rf"{_NOUN}(?:(?:\s*+/\s*+|\s++(?:or\s++|and\s++)?+){_NOUN}){{0,3}}"
)
_ANSWER_TAG = re.compile(
    rf"[\s*_>{{\"'-]*+(?:\[\s*+{_TAG_WORDS}\s*+:?+\s*+\](?:\s*+:|(?=\s*+\S))|\(?+\s*+{_TAG_WORDS}[\s*_)\"']*+:)",
    re.IGNORECASE,
)
_IN_FRONT = " \t\n\"'()[]{}<>*_-–—•"
_BEHIND = " \t\n\"'()[]{}<>*_.,;:!?"


def read_grounding(raw: str) -> FlaggedText:
    """Read the phrase of an answer, or normalize the gold phrase; sentences stay as they are, and match nothing."""
    text = _cleaned(raw)
    start = 0
    while tag := _ANSWER_TAG.match(text, start):
        start = tag.end()
    first, _, rest = text[start:].strip().partition("\n")
    phrase = collapsed(first.lstrip(_IN_FRONT).rstrip(_BEHIND)).casefold()
    return FlaggedText(phrase, ("extra_text",) if phrase and rest.strip() else ())


def exact_match(raw: str, phrase: str) -> ExactMatch:
    """Compare the answer `raw` with the gold `phrase`; an empty answer or phrase never matches."""
    answer, gold = read_grounding(raw).text, read_grounding(phrase).text
    plain = raw.strip()
    return ExactMatch(normalised=bool(gold) and answer == gold, strict=bool(plain) and plain == phrase.strip())


# --------------------------------------------------------------------------------------- translations

_NAMES: Final[dict[Language, str]] = {
    "de": "German|Deutsch|Allemand|독일어",
    "fr": "French|Français|Französisch|프랑스어",
    "ko": "Korean|한국어|Coréen|Koreanisch",
    "en": "English|Englisch|Anglais|영어",
}


def _tag_of(names: str) -> str:
    name = rf"(?:(?i:{names})|LANGUAGE)(?:[^\S\n]++(?i:translation))?+[^\S\n]*+"
    return rf"(?:\[[^\S\n]*+{name}:?+[^\S\n]*+\][^\S\n]*+:?+|{name}:)\*?+"


_LINE_START = r"^[^\S\n]*+(?:[*>#-]++[^\S\n]*+)?+"
_TAGS: Final = {language: re.compile(_LINE_START + _tag_of(names), re.MULTILINE) for language, names in _NAMES.items()}
_SAME_TAG: Final = {language: re.compile(r"\s*+" + _tag_of(names)) for language, names in _NAMES.items()}
_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n")
# A translation ends at a line that begins with a remark or another tag.
_REMARK = re.compile(
    r"[\s(*_>#-]*+(?:"
    r"(?i:notes?|n\.?b\.?|explanation|anmerkung|hinweis|erklärung|erläuterung|remarque|explication)(?![^\W_])"
    r"|참고|설명|주의|\[[^\[\]\n]++\]"
    rf"|{_tag_of('|'.join(_NAMES.values()))})"
)
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")
_SHOULD_BE_HANGUL: Final[dict[str, bool]] = {"ko": True, "en": False}
_FOREIGN_REFUSAL = re.compile(
    r"\btut mir leid, (?:aber )?ich kann\b|\bkann (?:ich )?(?:das|kein|dieses) bild\b.{0,40}\bnicht\b"
    r"|\bdésolée?, (?:mais )?je ne\b|\bje ne (?:peux|vois) pas\b.{0,40}\bimage|죄송하지만|이미지를 볼 수 없",
    re.IGNORECASE,
)


def read_translation(raw: str, language: Language, source: str) -> FlaggedText:
    """Read the sentence of an answer: the paragraph after the language's first tag, or the first one without a tag.

    `language` is `en` for reconstruction, `source` the sentence to translate; ValueError for an unknown language.
    """
    if language not in _TAGS:
        raise ValueError(f"no such language: {language!r}; one of {', '.join(_TAGS)}")
    text = _cleaned(raw)
    tag = _TAGS[language].search(text)
    sentence = without_outer_quotes(collapsed(_paragraph(text, tag, language)))
    if not sentence:
        return FlaggedText("")
    flags: dict[str, bool] = {
        "untranslated": bool(normalize_words(sentence))
        and normalize_words(sentence) == normalize_words(canonical(source)),
        "wrong_script": language in _SHOULD_BE_HANGUL
        and (_HANGUL.search(sentence) is not None) != _SHOULD_BE_HANGUL[language],
        "refusal": is_refusal(sentence) or _FOREIGN_REFUSAL.search(sentence) is not None,
    }
    return FlaggedText(sentence, tuple(flag for flag, raised in flags.items() if raised))


def _paragraph(text: str, tag: re.Match[str] | None, language: Language) -> str:
    start = tag.end() if tag else 0
    while tag and (again := _SAME_TAG[language].match(text, start)):
        start = again.end()
    rest = text[start:]
    first = next((line for line in rest.split("\n") if line.strip()), "")
    on_tag_line = not tag or rest.partition("\n")[0].strip() != ""
    if not on_tag_line and _REMARK.match(first):
        return ""
    lines = _BLANK_LINE.split(rest.strip(), maxsplit=1)[0].split("\n")
    paragraph = lines[:1]
    for line in lines[1:]:
        if _REMARK.match(line):
            break
        paragraph.append(line)
    return " ".join(paragraph)


# -------------------------------------------------------------------------------- judge, verdict, rule

_YES_NO = re.compile(r"(?<![^\W_])(yes|no)(?![^\W_])")


def read_judge(raw: str) -> bool | None:
    """Read whether a judge said yes; None where the first line says both or neither."""
    first = _cleaned(raw).partition("\n")[0]
    words = set(_YES_NO.findall(first.casefold()))
    return None if len(words) != 1 else words == {"yes"}


def verdict(f0: float, f1: float, meaning: int) -> bool:
    """Return whether an output is closer to the translation of the shown meaning, by more than `TIE`; NaN is not.

    `f0` and `f1` are its similarities to the translations of meanings 0 and 1; ValueError for any other `meaning`.
    """
    if meaning not in (0, 1):
        raise ValueError(f"meanings are 0 and 1, not {meaning!r}")
    margin = f0 - f1 if meaning == 0 else f1 - f0
    # The tolerance is for the subtraction: 0.900001 - 0.9 comes out a little above 1e-6.
    return margin > TIE + 1e-12


def equal_by_rule(output: str, original: str) -> bool:
    """Return whether a non-empty `output` equals the original sentence except for case, punctuation and blanks."""
    letters = _letters(output)
    return bool(letters) and letters == _letters(original)


def _letters(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Categories of punctuation, separators and controls, and spacing accents such as the backtick.
    return "".join(char for char in folded if unicodedata.category(char)[0] not in "PZC" and char not in "`´^¨¯¸")
