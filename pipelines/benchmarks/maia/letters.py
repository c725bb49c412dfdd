"""Draw the letter of a pair's true statement, and read which letter a reply chooses.

The true letter is never an argument of the reader, and a text that decides nothing reads as None, which is wrong. The
paper (arXiv 2502.16989) publishes no reading code; the rules are this project's own.
"""

import hashlib
import itertools
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from pipelines.benchmarks.maia.answers import folded_words, normalize
from pipelines.benchmarks.text_cleaning import latin_letters

Letter = Literal["A", "B"]

_WINDOW: Final = 120  # characters examined on either side of a letter

_NOUN = (
    r"(?:risposta|opzione|affermazione|frase|lettera|alternativa|scelta|enunciato|etichetta"
    r"|answer|option|statement|choice|label)"
)
_IS = r"(?:è|é|e'|is)(?!\w)"
_SEEMS = rf"(?:{_IS}|(?:risulta|sembra)(?!\w))"
_ARTICLE = r"(?:(?:il|lo|la|the|quell[oa])(?!\w)|l')"
_NAMED = rf"(?: {_ARTICLE})?(?: ?{_NOUN})?"
_FALSE = r"(?:(?:fals|errat|sbagliat|scorrett|incorrett)[oaie]|wrong|incorrect)(?!\w)"
_TRUE = r"(?:(?:ver|corrett|giust|esatt)[oa]|true|correct|right)(?!\w)"
_JOINT = r"(?:e|o|ed|od|che|né|nè|and|or|nor)(?![\w'])"
_OPENED = r'["(\[{<>]*'
_CLOSED = r'[")\]}>]*'
_LINK = rf"(?:\s*(?::|(?<!\w){_IS})){{0,2}}"

# No bare letter may stand between a cue and its letter: a cue refers to the nearest one.
_CUED = re.compile(
    rf"(?i)(?<!\w)(?:{_NOUN}|scelgo|direi)(?!\w){_CLOSED}{_LINK}(?:\s+(?![ab](?!\w))[\w']+{_LINK}){{0,2}}"
    rf"(?:\s*(?<!\w)l'|\s*){_OPENED}\Z"
)
_INTRODUCED = re.compile(r"(?i)(?:(?<!\w)la |(?<!\w)l'|[\"(\[{<>])\Z")
_LINE_START = re.compile(rf"(?i)(?:\A|\n){_OPENED}\Z")
_DELIMITED = re.compile(r"(?i)\A(?:[)\]\":.]| [-‐–—―−](?=\s|\Z)|\n|\Z)")
_CONTINUED = re.compile(rf"(?i)\A(?: ?[,/]| {_JOINT}| {_SEEMS}| (?:descrive|corrisponde|non)(?!\w))")
_JOINED = re.compile(rf"(?i)\A{_CLOSED}(?: ?/ ?| {_JOINT} )(?:{_ARTICLE} ?)?(?:{_NOUN} )?{_OPENED}[AB](?![\w'])")
_REJECTED_BEFORE = re.compile(
    rf"(?i)(?<!\w)(?:non|né|nè|ne'|not|nor|neither|escludo|invece d(?:i|ella)|{_FALSE})(?!\w)(?: (?:{_NOUN}|one))?"
    rf"(?: {_IS})?{_NAMED} ?{_OPENED}\Z"
)
_REJECTED_AFTER = re.compile(
    # A capital after a delimiter begins the statement itself, unless the reply holds only the verdict.
    rf"(?i)\A(?:(?:{_CLOSED}(?= (?-i:[a-zèé])))?(?:(?: {_SEEMS})?{_NAMED} {_FALSE}"
    rf"|(?: non(?: {_IS})?| (?:is )?not| isn't) {_TRUE}| non (?:descrive|corrisponde)(?!\w)"
    # "A not B" chooses A.
    rf"|(?: is not| isn't| not)(?!\w)(?!{_NAMED} [AB](?!\w)))"
    rf"|{_CLOSED}(?:[:.]| -)?(?: {_SEEMS})? (?:{_FALSE}|(?:non(?: {_IS})?|not) {_TRUE})(?= ?(?:[.,;)}}\]\n]|\Z)))"
)
_CONFIRMED_AFTER = re.compile(rf"(?i)\A{_CLOSED} {_SEEMS}{_NAMED}(?: più)? {_TRUE}")
_MENTION = re.compile(r"(?:(?<![\w'])|(?<=\b[lL]'))[ABab](?![\w'])")
_AUTHORS_LETTER = re.compile(r"\b[AB]\b")
_LETTERS: Final[dict[str, Letter]] = {"A": "A", "a": "A", "B": "B", "b": "B"}


@dataclass(frozen=True, slots=True)
class LetterReading:
    """The letter read from an answer, and the rule that decided.

    Rules with a letter: `single`, the text's only letter; `mention`, the only letter mentioned and not rejected;
    `strong`, the only one of two with a cue, at the start of a line or confirmed; `cue`, the last of two that a word
    such as "risposta" introduces; `elimination`, the other letter was rejected; `echo`, one statement is repeated.
    Without a letter: `empty`, `both`, `rejected` (both letters), `echo_both`, `none`.
    """

    letter: Letter | None
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mention:
    letter: Letter
    negative: bool
    cued: bool
    heads_line: bool
    confirmed: bool
    joined: bool


def draw_ts_letter(seed: int, video: str, category: str, index: int) -> Letter:
    """Return the letter under which pair `index` (0 to 7) of a question shows its true statement."""
    digest = hashlib.sha256(f"{seed}|{video}|{category}|{index}".encode()).digest()
    return "A" if digest[0] % 2 == 0 else "B"


def read_letter_as_authors(raw: str | None) -> Letter | None:
    """Return the first capital A or B that is a word of its own, so the preposition `A` too, as the authors' script."""
    match = _AUTHORS_LETTER.search(raw or "")
    return None if match is None else _LETTERS[match[0]]


def read_letter(raw: str | None, statement_a: str, statement_b: str) -> LetterReading:
    """Read which of two statements a reply chooses; beyond 8,000 visible characters only the first and last 4,000."""
    text = latin_letters(normalize(raw), signs=False)
    if not text:
        return LetterReading(None, "empty")
    letters = [c for c in text if c.isalpha()]
    if len(letters) == 1 and letters[0] in _LETTERS:
        return LetterReading(_LETTERS[letters[0]], "single")
    words_a, words_b = folded_words(normalize(statement_a)), folded_words(normalize(statement_b))
    mentions = _mentions(text, [words[:3] for words in (words_a, words_b) if len(words) > 1])
    return _decide(mentions) if mentions else _echo(folded_words(text), words_a, words_b)


def _mentions(text: str, openings: list[list[str]]) -> list[_Mention]:
    mentions: list[_Mention] = []
    for match in _MENTION.finditer(text):
        start, end = match.span()
        before, after = text[max(0, start - _WINDOW) : start], text[end : end + _WINDOW]
        # A statement may itself begin with "A", the preposition; its repetition names no letter.
        repeats = after.startswith(" ") and folded_words(match[0] + after)[:3] in openings
        if not repeats and (mention := _mention(match[0], before, after)):
            mentions.append(mention)
    return _discounted(mentions)


def _mention(character: str, before: str, after: str) -> _Mention | None:
    cued, delimited = bool(_CUED.search(before)), bool(_DELIMITED.match(after))
    if character.islower():
        counts = after.startswith(")") or (before[-1:] == after[:1] == '"') or (cued and delimited)
    else:
        counts = character == "B" or delimited or cued or bool(_CONTINUED.match(after) or _INTRODUCED.search(before))
    if not counts:
        return None
    return _Mention(
        letter=_LETTERS[character],
        negative=bool(_REJECTED_BEFORE.search(before) or _REJECTED_AFTER.match(after)),
        cued=cued,
        heads_line=delimited and bool(_LINE_START.search(before)),
        confirmed=bool(_CONFIRMED_AFTER.match(after)),
        joined=bool(_JOINED.match(after)),
    )


def _discounted(mentions: list[_Mention]) -> list[_Mention]:
    """Drop the cues of letters that are listed together: "A o B", or a list of both under one heading."""
    discounted = list(mentions)
    for i, (left, right) in enumerate(itertools.pairwise(mentions)):
        if left.letter != right.letter and left.joined:
            discounted[i] = replace(discounted[i], cued=False, heads_line=False)
            discounted[i + 1] = replace(right, cued=False, heads_line=False)
        elif left.letter != right.letter and left.heads_line and right.heads_line:
            discounted[i] = replace(discounted[i], cued=False)
    return discounted


def _decide(mentions: list[_Mention]) -> LetterReading:
    upheld = [m for m in mentions if not m.negative]
    positive, rejected = {m.letter for m in upheld}, {m.letter for m in mentions if m.negative}
    if not positive:
        remaining = {*_LETTERS.values()} - rejected
        return LetterReading(remaining.pop(), "elimination") if remaining else LetterReading(None, "rejected")
    possible = (positive - rejected) or positive
    if len(possible) == 1:
        return LetterReading(possible.pop(), "mention")
    strong = {m.letter for m in upheld if m.cued or m.heads_line or m.confirmed}
    if len(strong) == 1:
        return LetterReading(strong.pop(), "strong")
    cued = [m.letter for m in upheld if m.cued]
    return LetterReading(cued[-1], "cue") if cued else LetterReading(None, "both")


def _echo(words: list[str], words_a: list[str], words_b: list[str]) -> LetterReading:
    # Each word is padded on both sides, so that neighbouring matches share no blank.
    text, a, b = ("".join(f" {word} " for word in part) for part in (words, words_a, words_b))
    has_a, has_b = bool(a) and a in text, bool(b) and b in text
    if has_a and has_b and a != b:
        # A statement contained in the other one counts only where it also occurs by itself.
        has_a, has_b = a not in b or a in text.replace(b, "|"), b not in a or b in text.replace(a, "|")
    if has_a == has_b:
        return LetterReading(None, "echo_both" if has_a else "none")
    return LetterReading("A" if has_a else "B", "echo")
