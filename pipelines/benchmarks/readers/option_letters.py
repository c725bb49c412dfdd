r"""Read which lettered option a reply chooses.

The first of six rules that matches decides, and is stored with every answer, so that reports can count them. The rules
never guess: a text that names two letters, or none, is invalid with a reason.

* R0: the text begins with two different letters that are joined (`A or B`).
* R1: the text is one letter and punctuation.
* R2: the text begins with a letter and what delimits an option's letter (`B)`, `B:`, `B - `, a line end).
* R3: a letter after a cue word (`the answer is (B)`).
* R4: a letter that stands alone anywhere in the text.
* R5: the wording of one of the options.

Parsing takes time linear in the length of the text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase
from typing import Final, Literal

from pipelines.benchmarks.readers.cues import FOREIGN_WORDS, LINK, UNSPACED_WORDS, is_denied, names
from pipelines.benchmarks.text_cleaning import (
    JOINING_WORDS,
    UNSPACED,
    after_reasoning,
    canonical,
    is_refusal,
    latin_letters,
    normalize_words,
    straight_quotes,
    without_fences,
)

Rule = Literal["R0", "R1", "R2", "R3", "R4", "R5"]
InvalidReason = Literal[
    "empty", "empty_answer2", "multiple", "no_answer2", "out_of_range", "refusal", "unclosed_think", "unparsed"
]
MAX_OPTIONS: Final = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The parsed answer to a multiple-choice question."""

    letter: str | None  # a capital letter, or None where the answer is invalid
    rule: Rule | None  # the rule that matched, also where it found the answer invalid; None where none did
    invalid_reason: InvalidReason | None


def valid(letter: str, rule: Rule) -> Choice:
    """Return the choice of a letter."""
    return Choice(letter=letter.upper(), rule=rule, invalid_reason=None)


def invalid(reason: InvalidReason, rule: Rule | None = None) -> Choice:
    """Return the reading of an answer that chooses nothing."""
    return Choice(letter=None, rule=rule, invalid_reason=reason)


_LATEX = re.compile(r"\\(?:boxed|text|textbf|textrm|mathrm|mathbf)\s*+\{([^{}]*+)\}")
_EMPHASIS = re.compile(r"\*|__|`")
_HEADING = re.compile(r"^[ \t]*+#[# \t]*+", re.MULTILINE)
_BRACKETED = re.compile(r"\((?:[^()\n]|\([^()\n]*+\))*+\)|\[[^\[\]\n]*+\]|<[^<>\n]*+>")
_MENTIONS_LETTER = re.compile(r"\bletters?\b", re.IGNORECASE)
# A full stop or a line end ends such a run: in "A. B, C and D are wrong" the A is the answer.
_SHORT_JOINING_WORDS: Final = "e|o|y"  # options themselves where there are more than four
_UNSPACED_JOINING_WORDS: Final = "和|或|及|と|か|또는|와|과"
_WORD_SEPARATOR = rf"(?:(?:{JOINING_WORDS})\b|{_UNSPACED_JOINING_WORDS})"
_SEPARATOR = (
    rf"(?:[)\]}}>\"']?+[ \t]*+(?:[,;/|&+](?:[ \t]*+{_WORD_SEPARATOR})?+|{_WORD_SEPARATOR})[ \t]*+[(\[{{<\"']?+|[ \t]++)"
)
_OPTION_TEXT = r"[)\].:](?:(?!(?i:answer))[^\n])++"
_EMPTY_BRACKETS = re.compile(r"\(\s*+\)|\[\s*+\]|\{\s*+\}|<\s*+>")

_ALONE_BEFORE = rf"(?<![^\W_{UNSPACED}])(?<![^\W_][-‐])(?<!°)"
_ALONE_AFTER = rf"(?![^\W_{UNSPACED}]|'\w)"
# A capital letter is an article or an initial when an ordinary word follows, unless the word continues a choice.
_NO_NOUN_NEXT = (
    r"(?![ \t]++(?!(?:because|since|as|is|but|and|or|for|weil|denn|ist|und|oder|car|est|et|ou|perché|è|porque|es)\b)"
    r"[^\W\d_A-Z])"
)
_LINE_END = r"[ \t]*+(?:\n|\Z)"
_OPENERS = r"[\s(\[{<\"']*+"
_AT_START = re.compile(_OPENERS)
_SINGLE_LETTER = re.compile(rf"{_OPENERS}([^\W_])[\s)\]}}>\"'.:,!]*+")


_CUE: Final = (
    r"\b((?i:answer|option|choice|select|choose|pick))\b[\"']?+"
    r"(?:\s*+(?:(?i:is|would\s++be|should\s++be|option|choice|letter)\b|[:=→–—-])){0,6}+[>\s]*+"
)
_FOREIGN_CUE: Final = (
    rf"(?:\b((?i:{FOREIGN_WORDS}|opzione|opción|вариант))\b|{UNSPACED_WORDS})[\"']?+"
    rf"(?:{LINK}|\s*+(?:(?i:buchstabe|option|lettre|lettera|letra|вариант|буква)\b|[→–—-])){{0,6}}+[>\s]*+"
)


class LetterReader:
    """Reads answers to questions with a number of options, which letters from A on name."""

    def __init__(self, count: int) -> None:
        self._letters = ascii_uppercase[:count]
        capitals, small = self._letters, self._letters.lower()
        words = "".join(letter for letter in capitals if letter in "AI")  # an article and a pronoun
        others = "".join(letter for letter in capitals if letter not in words)
        runs = [_SEPARATOR.join(capitals), _SEPARATOR.join(small), rf"A(?:[-–—]|\s(?:to|through)\s){capitals[-1]}"]
        self._all = re.compile(rf"(?<![^\W_])(?:{'|'.join(runs)})(?![^\W_]|'\w)")
        # The prompt's options, repeated one a line: they name no choice, and rule R2 would read the first.
        lines = r"\n\s*+".join(rf"[(\[]?+{letter}{_OPTION_TEXT}" for letter in capitals)
        self._option_list = re.compile(r"^[ \t]*+" + lines, re.MULTILINE)
        joins = JOINING_WORDS if "E" in capitals else f"{JOINING_WORDS}|{_SHORT_JOINING_WORDS}"
        self._joined = re.compile(
            rf"{_ALONE_BEFORE}([{capitals}{small}]){_ALONE_AFTER}[)\]}}>\"'.]*+\s*+"
            rf"(?:,\s*+(?:(?i:{joins})\b)?+|[/&+]|(?i:{joins})\b|{_UNSPACED_JOINING_WORDS})\s*+"
            rf"(?=(?:(?i:option|choice|letter)\s++)?+{_OPENERS}"
            rf"(?:([{others}]){_ALONE_AFTER}|([{words}]){_ALONE_AFTER}{_NO_NOUN_NEXT}"
            rf"|([{small}])(?:[)\].:,\"]|'(?!\w)|{_LINE_END})))"
        )
        self._leading = re.compile(
            rf"{_OPENERS}(?:([{capitals}])(?:[)\].:\"]|'(?!\w)|[ \t]++[-–—‐]|[-–—‐]\s|{_LINE_END})|([{small}])[)\].:])"
        )
        letter = (
            rf"{_OPENERS}(?:(?P<capital>[{capitals}]){_ALONE_AFTER}{_NO_NOUN_NEXT}"
            rf"|(?P<small>[{small}])(?:[)\].:,\"<}}]|'(?!\w)|{_LINE_END}))"
        )
        self._cue = re.compile(_CUE + letter)
        self._foreign_cue = re.compile(_FOREIGN_CUE + letter)
        self._lone = re.compile(
            rf"{_ALONE_BEFORE}(?:([{others}]){_ALONE_AFTER}(?![-‐]\w)"
            rf"|([{words}])(?=[^\w\s]|[_{UNSPACED}]|{_LINE_END})(?!'\w)(?![-‐]\w))"
        )

    def clean(self, raw: str) -> str | None:
        """Remove reasoning, markup and echoes of the requested format; None for unclosed reasoning."""
        text = after_reasoning(latin_letters(straight_quotes(canonical(raw))))
        if text is None:
            return None
        for _ in range(3):  # a wrapped letter may be wrapped again
            text = _LATEX.sub(r"\1", text)
        text = _HEADING.sub("", _EMPHASIS.sub("", without_fences(text)))
        text = _BRACKETED.sub(lambda match: "" if _MENTIONS_LETTER.search(match[0]) else match[0], text)
        text = self._option_list.sub("", self._all.sub("", text))
        return _EMPTY_BRACKETS.sub("", text).strip()

    def read(self, raw: str, options: Mapping[str, str]) -> Choice:
        """Read the choice of an output; `options` are the texts by letter."""
        text = self.clean(raw)
        if not text:
            return invalid("unclosed_think" if text is None else "empty")
        return self.apply_rules(text, options) or invalid("refusal" if is_refusal(text) else "unparsed")

    def apply_rules(self, region: str, options: Mapping[str, str], *, last: bool = False) -> Choice | None:
        """Return the choice of a cleaned text; with `last` the last of several letters with a cue counts."""
        return (
            self._joined_letters(region)
            or self._single_letter(region)
            or self._leading_letter(region)
            or self._letter_after_cue(region, last=last)
            or self._lone_letter(region)
            or _quoted_option(region, options)
        )

    def _joined_pairs(self, text: str) -> Iterator[re.Match[str]]:
        """Yield pairs of different letters of one case joined by a comma, a sign or a word, from the first on."""
        for pair in self._joined.finditer(text):
            second = pair[2] or pair[3] or pair[4]
            if second != pair[1] and second.isupper() == pair[1].isupper():
                yield pair

    def _joined_letters(self, region: str) -> Choice | None:
        first = next(self._joined_pairs(region), None)
        start = _AT_START.match(region)
        if first and start and first.start() == start.end():
            return invalid("multiple", "R0")
        return None

    def _single_letter(self, region: str) -> Choice | None:
        match = _SINGLE_LETTER.fullmatch(region)
        if match is None:
            return None
        return (
            valid(match[1], "R1")
            if match[1] in self._letters + self._letters.lower()
            else invalid("out_of_range", "R1")
        )

    def _leading_letter(self, region: str) -> Choice | None:
        match = self._leading.match(region)
        return None if match is None else valid(match[1] or match[2], "R2")

    def cue_hits(self, text: str) -> list[tuple[str, bool]]:
        """Return letters after cue words, each with whether another is joined to it; `answer` outranks the others."""
        joined = {pair.start(group) for pair in self._joined_pairs(text) for group in range(1, 5)}
        hits = [hit for hit in self._cue.finditer(text) if not is_denied(text, *hit.span())]
        preferred = [hit for hit in hits if hit[1].casefold() == "answer"] or hits
        groups = [(hit, "capital" if hit["capital"] else "small") for hit in preferred]
        return [(hit[group].upper(), hit.start(group) in joined) for hit, group in groups]

    def _letter_after_cue(self, region: str, *, last: bool) -> Choice | None:
        letters = [letter for letter, _ in self.cue_hits(region)]
        if not letters:
            return None
        if next(self._joined_pairs(region), None) or (len(set(letters)) > 1 and not last):
            return invalid("multiple", "R3")
        return valid(letters[-1], "R3")

    def _lone_letter(self, region: str) -> Choice | None:
        mentions = list(self._lone.finditer(region))
        letters = {match[1] or match[2] for match in mentions}
        is_joined = next(self._joined_pairs(region), None) is not None
        if len(letters) == 1 and not is_joined:
            return None if is_denied(region, *mentions[-1].span()) else valid(letters.pop(), "R4")
        cued = {(hit["capital"] or hit["small"]).upper() for hit in self._foreign_cue.finditer(region)}
        if len(cued) == 1 and not is_joined:
            return valid(cued.pop(), "R3")
        return invalid("multiple", "R4") if letters or is_joined else None


def _quoted_option(region: str, options: Mapping[str, str]) -> Choice | None:
    answer = normalize_words(region)
    wordings = {letter: normalize_words(straight_quotes(canonical(text))) for letter, text in options.items()}
    equal = [letter for letter, wording in wordings.items() if wording and wording == answer]
    matches = equal or [letter for letter, wording in wordings.items() if wording and names(answer, wording)]
    if not matches:
        return None
    return valid(matches[0], "R5") if len(matches) == 1 else invalid("multiple", "R5")


@lru_cache(MAX_OPTIONS)
def letter_reader(count: int) -> LetterReader:
    """Return the reader of answers to questions with so many options, 2 to 26."""
    return LetterReader(count)
