"""Clean a model's text before an answer is looked for in it; every function takes time linear in the text."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FlaggedText:
    """The text of an answer, empty if it is invalid, and its peculiarities, which change no score."""

    text: str
    flags: tuple[str, ...] = ()


UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
"""Chinese, Japanese and Korean letters as a range of a regular expression: words of these have no space around."""

JOINING_WORDS: Final = "and/or|and|or|und|oder|et|ou|ed|od|и|или|та|або|και|ή"
"""Words between two answers, in several languages."""

_LINE_BREAK = re.compile(r"\r\n?|[\v\f\x85\u2028\u2029]")
# Joiners, direction marks, soft hyphens and variation selectors: characters that take no room.
_ZERO_WIDTH = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff]")
_CHAT_TOKEN = re.compile(
    r"<\|(?:im_start|start_header_id)\|>(?:assistant\b)?+"
    r"|<\|[^<>|\n]{0,64}+\|>"
    r"|</?s>|<(?:bos|eos|pad|unk|end_of_turn|end_of_utterance|endoftext)>|<start_of_turn>(?:model\b)?+"
)
_CURLY = str.maketrans(dict.fromkeys("“”„‟", '"') | dict.fromkeys("‘’‚‛", "'"))
_ANGLE = str.maketrans({"«": '"', "»": '"', "‹": "'", "›": "'"})
_FRACTION_SIGNS: Final = {
    code: unicodedata.normalize("NFKC", chr(code)).replace("\u2044", "/")
    for code in (0xBC, 0xBD, 0xBE, *range(0x2150, 0x215F), 0x2189)
}
_FRACTION_SIGN = re.compile(f"(?:(\\d)[^\\S\\n]?)?([{''.join(map(chr, _FRACTION_SIGNS))}])")
_SUPERSCRIPTS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPT = re.compile(rf"(?<=[^\W_])([⁺⁻]?[{_SUPERSCRIPTS}]+)(?![{_SUPERSCRIPTS}⁺⁻])")  # no charge, as of `Ca²⁺`
_LATEX: Final = (
    (re.compile(r"\\(?:boxed|fbox|text|textbf|textrm|mathrm|mathbf|mbox|operatorname)\s*+\{([^{}]*+)\}"), r"\1"),
    (re.compile(r"(?<=\d)\s*+\\[dt]?frac"), r" \\frac"),
    (re.compile(r"\\[dt]?frac\s*+(?:\{([^{}]{1,40})\}\s*+\{([^{}]{1,40})\}|(\d)(\d))"), r"\1\3/\2\4"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\(?:times|cdot)(?![a-z])"), "×"),
    (re.compile(r"\\approx(?![a-z])"), "≈"),
    (re.compile(r"\^\{?\\circ\}?"), "°"),
    (re.compile(r"\\[%$#]"), lambda match: match[0][1]),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"\\[()\[\]]|\$\$"), " "),
)
_CYRILLIC_AND_GREEK: Final = dict(
    zip("АВСЕНІЈКМОРЅТХУΑΒΕΖΗΙΚΜΝΟΡΤΥΧᴀʙᴄᴅᴇ", "ABCEHIJKMOPSTXYABEZHIKMNOPTYXABCDE", strict=True)
)
_TWINS: Final = "".join(_CYRILLIC_AND_GREEK)
# In front of another word these letters are words: Russian `В` is "in", `С` is "with".
_LOOK_ALIKE = re.compile(
    rf"(?<![^\W_{UNSPACED}])([{_TWINS}])(?=[)\].:,;!?\"'*>}}|»」』】。、]|\s*+(?:\n|\Z)|\s[-–—]\s"
    rf"|\s+(?:{JOINING_WORDS})\s+[(\[]?[{_TWINS}A-Z](?![^\W_]))"
    rf"|(?<![^\W_])([{_TWINS.lower()}])(?=\)|\s*+\Z)"
)
_NAMED_LETTER = re.compile(
    rf"(?<![^\W_])((?:вариант|буква|опция|option|choice|letter|επιλογή)\s)([{_TWINS}])(?![^\W_])", re.IGNORECASE
)
_LETTER_SIGNS: Final = {chr(first + place): chr(65 + place) for first in (0x1F150, 0x1F170) for place in range(26)}
_FLAG_LETTER: Final = "[\U0001f1e6-\U0001f1ff]"
_LETTER_SIGN = re.compile(f"[{''.join(_LETTER_SIGNS)}]|(?<!{_FLAG_LETTER}){_FLAG_LETTER}(?!{_FLAG_LETTER})")
_FENCE = re.compile(
    r"^[ \t]*+`{3,}+(?:text|txt|plaintext|markdown|md|json|xml|html|python)?+[ \t]*+$\n?", re.MULTILINE | re.IGNORECASE
)
_REASONING_START = re.compile(r"<think>", re.IGNORECASE)
_REASONING_END = re.compile(r"</think>", re.IGNORECASE)
_INNER_QUOTE = {'"': re.compile('"'), "'": re.compile(r"(?<!\w)'|'(?!\w)")}
_NOT_ALNUM = re.compile(r"[\W_]++")
_REFUSAL = re.compile(
    r"\b(?:do|does|did)(?:\s++not|n't)\s++(?:really\s++)?+know\b"
    r"|\b(?:no\s++idea|not\s++sure|unsure)\b"
    r"|(?:\A|[\n.!?,:]|\b(?:i'm|i\s++am|we're|we\s++are|so|very|but|oh)\s)[^\S\n]*+sorry\b"
    r"|\b(?:cannot|can't|can\s++not|couldn't|could\s++not|won't|will\s++not|(?:unable|not\s++able|impossible|not\s++possible)\s++to)"
    r"\s++(?:be\s++able\s++to\s++)?+(?:[a-z]++\s++)??(?:answer|assist|choose|comply|decide|describe|determine|discern|fulfill?|help|identify|infer"
    r"|interpret|make\s++out|process|provide|recogni[sz]e|say|see|select|tell|translate|view)\b"
    r"|\bnone\s++of\s++(?:the\s++above|these|those|them|the\s++(?:given\s++|listed\s++|provided\s++)?+"
    r"(?:answers|choices|options|readings))\b"
    r"|\bas\s++an\s++ai\b",
    re.IGNORECASE,
)


def canonical(raw: str) -> str:
    r"""Return the text in Unicode NFKC with line feeds as line ends, without zero-width characters and chat tokens."""
    text = _LINE_BREAK.sub("\n", unicodedata.normalize("NFKC", raw))
    return _CHAT_TOKEN.sub("", _ZERO_WIDTH.sub("", text))


def superscripts_as_powers(text: str) -> str:
    """Return a text whose superscripts, subscripts and fractions of one character do not join the digits before."""
    text = text.replace("º", "°")
    text = _SUPERSCRIPT.sub(lambda match: "^" + unicodedata.normalize("NFKC", match[1]).replace("−", "-"), text)
    return _FRACTION_SIGN.sub(
        lambda match: f"{match[1] + ' ' if match[1] else ''}{_FRACTION_SIGNS[ord(match[2])]}", text
    )


def latin_letters(text: str, *, signs: bool = True) -> str:
    """Return a text whose letters of options are Latin if they were Cyrillic or Greek; with `signs` also `🅱`."""
    if text.isascii():
        return text
    if signs:
        text = _LETTER_SIGN.sub(
            lambda match: f"({_LETTER_SIGNS.get(match[0]) or chr(ord(match[0]) - 0x1F1E6 + 65)})", text
        )
    text = _NAMED_LETTER.sub(lambda match: match[1] + _CYRILLIC_AND_GREEK[match[2].upper()], text)
    return _LOOK_ALIKE.sub(_latin_letter, text)


def _latin_letter(match: re.Match[str]) -> str:
    return _CYRILLIC_AND_GREEK[match[1]] if match[1] else _CYRILLIC_AND_GREEK[match[2].upper()].lower()


def without_latex(text: str) -> str:
    """Return a text with TeX's boxes, fonts, fractions and blanks as plain signs."""
    if "\\" in text or "{,}" in text:
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    return text


def straight_quotes(text: str, *, angle: bool = False) -> str:
    """Replace curly and low quotes by straight ones; with `angle` the French ones too."""
    text = text.translate(_CURLY)
    return text.translate(_ANGLE) if angle else text


def after_reasoning(text: str) -> str | None:
    """Return what follows the last block of hidden reasoning; None where a block is still open at the end."""
    rest = _REASONING_END.split(text)[-1]
    return None if _REASONING_START.search(rest) else rest


def without_fences(text: str) -> str:
    """Remove the lines that open and close a block of code."""
    return _FENCE.sub("", text)


def collapsed(text: str) -> str:
    """Collapse every run of white space to one blank, none at the ends."""
    return " ".join(text.split())


def normalize_words(text: str) -> str:
    """Return the case-folded text with all but letters and digits as single blanks, to compare wordings."""
    return _NOT_ALNUM.sub(" ", text.casefold()).strip()


def without_outer_quotes(text: str) -> str:
    """Remove one pair of straight quotes around the text, unless they belong to two different quotations."""
    text = text.strip()
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        return text
    inner = text[1:-1]
    # In `"a" or "b"` the first mark inside stands behind a letter and closes the one in front, and marks come in pairs.
    marks = [mark.start() for mark in _INNER_QUOTE[text[0]].finditer(inner)]
    if marks and marks[0] > 0 and not inner[marks[0] - 1].isspace() and len(marks) % 2 == 0:
        return text
    return inner.strip()


def is_refusal(text: str) -> bool:
    """Return whether an English text declines to answer; straight quotes are expected."""
    return _REFUSAL.search(text) is not None
