"""How MAIA's answers are read: statement letters, open answers, judge verdicts, and the protocol's small draws.

All are pure functions. The gold letter is never an argument; a text that decides nothing reads as None, which is
wrong, and is never settled by chance. Source: Testa et al., "All-in-one", Findings of EMNLP 2025, arXiv 2502.16989,
which publishes no reading code; the rules are this project's own.
"""

import difflib
import hashlib
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Letter = Literal["A", "B"]

_COLUMN_OF: Final = {
    "CausaleEsplicita": "Causal",
    "CausaleImplicita": "Causal",
    "Controfattuale": "Counterfactual",
    "OutofScope": "Out-of-Scope",
    "Pianificazione": "Planning",
    "Sentiment": "Sentiment",
    "Incertezza": "Uncertainty",
    "ImplicitoParziale": "Implicit-Partial",
    "ImplicitoTot": "Implicit-Total",
    "SpazialeParziale": "Spatial-Partial",
    "SpazialeTotale": "Spatial-Total",
    "TemporaleDurata": "Temporal-Duration",
    "TemporaleParziale": "Temporal-Partial",
}
COLUMNS: Final = tuple(dict.fromkeys(_COLUMN_OF.values()))
"""The twelve category columns in the order of the paper's tables."""


def column_of(category: str) -> str:
    """Name the table column of a category as distributed, such as `SpazialeParziale_A`.

    Raises:
        ValueError: for a name that is not among the published ones; the message names the nearest.
    """
    column = _COLUMN_OF.get(re.sub(r"_[AB]\Z", "", category))
    if column is None:
        nearest = difflib.get_close_matches(category, _COLUMN_OF, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown MAIA category {category!r}; the nearest known one is {nearest!r}")
    return column


def draw_ts_letter(seed: int, video: str, category: str, index: int) -> Letter:
    """Draw the letter that shows the true statement of a pair: `index` 0 to 7, the category as distributed."""
    digest = hashlib.sha256(f"{seed}|{video}|{category}|{index}".encode()).digest()
    return "A" if digest[0] % 2 == 0 else "B"


def uniform_indices(total: int, wanted: int) -> list[int]:
    """Spread frame indices evenly over a clip, first and last frame included; a shorter clip gives all its frames.

    Raises:
        ValueError: for a negative total or less than one wanted.
    """
    if total < 0 or wanted < 1:
        raise ValueError(f"cannot take {wanted} of {total} frames; ask for at least 1 of 0 or more")
    count = min(total, wanted)
    return [j * (total - 1) // max(count - 1, 1) for j in range(count)]


def unimodal_choice(true_scores: Sequence[float], false_scores: Sequence[float]) -> bool:
    """Tell whether the best score of any language model falls on the true statement; a tie is wrong.

    Args:
        true_scores: mean log-probability a token of the true statement, one a model, in nats.
        false_scores: the same of the false statement, models in the same order.

    Raises:
        ValueError: without scores, with uneven numbers of them, or with a NaN among them.
    """
    pairs = _paired(true_scores, false_scores)
    return max(true for true, _ in pairs) > max(false for _, false in pairs)


def unimodal_vote(true_scores: Sequence[float], false_scores: Sequence[float]) -> bool:
    """Tell whether more language models prefer the true statement than the false; arguments as of the choice."""
    pairs = _paired(true_scores, false_scores)
    return sum(true > false for true, false in pairs) > sum(true < false for true, false in pairs)


def _paired(true_scores: Sequence[float], false_scores: Sequence[float]) -> list[tuple[float, float]]:
    pairs = list(zip(true_scores, false_scores, strict=True))
    if not pairs or any(math.isnan(score) for pair in pairs for score in pair):
        raise ValueError("scores are missing or NaN; leave the pair out and count it as failed")
    return pairs


_HALF: Final = 4_000  # characters read at either end of an answer; bounds the time a runaway generation can take
_WINDOW: Final = 120  # characters looked at on either side of a letter

_HIDDEN = re.compile(r"<think>.*?(?:</think>|\Z)", re.IGNORECASE | re.DOTALL)
_HIDDEN_HEAD = re.compile(r"\A.*</think>", re.IGNORECASE | re.DOTALL)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff]")
_BREAK = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_SINGLE_QUOTED = re.compile(r"(?<![\w'])'([^'\n]{1,200})'(?![\w'])")
_CHARACTERS = str.maketrans(
    {**dict.fromkeys("*`#"), "_": " ", **dict.fromkeys("“”„‟«»‹›", '"'), **dict.fromkeys("‘’‚‛ʼ", "'")}
)


def _shown(raw: str | None) -> str:
    """Drop hidden reasoning, also where the prompt opened it and only its end was generated."""
    return _INVISIBLE.sub("", _HIDDEN_HEAD.sub("", _HIDDEN.sub("", raw or ""))).strip()


def _ends(raw: str | None) -> str:
    text = _shown(raw)
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]}\n{text[-_HALF:]}"


def _normalise(raw: str | None) -> str:
    text = _BREAK.sub("\n", unicodedata.normalize("NFKC", _ends(raw)).translate(_CHARACTERS))
    text = re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()
    # A single quote that is left after this is an apostrophe.
    return _SINGLE_QUOTED.sub(r'"\1"', text)


def _words(text: str) -> list[str]:
    # Lower case, no accents; punctuation parts words.
    parts = unicodedata.normalize("NFKD", text.lower())
    return re.findall(r"[^\W_]+", "".join(c for c in parts if not unicodedata.combining(c)))


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

# No bare letter may stand between a cue and a letter: a cue names the one nearest to it.
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
    # After a delimiter a capital opens the statement itself, unless the verdict is all that is said.
    rf"(?i)\A(?:(?:{_CLOSED}(?= (?-i:[a-zèé])))?(?:(?: {_SEEMS})?{_NAMED} {_FALSE}"
    rf"|(?: non(?: {_IS})?| (?:is )?not| isn't) {_TRUE}| non (?:descrive|corrisponde)(?!\w)"
    # "A not B" chooses A.
    rf"|(?: is not| isn't| not)(?!\w)(?!{_NAMED} [AB](?!\w)))"
    rf"|{_CLOSED}(?:[:.]| -)?(?: {_SEEMS})? (?:{_FALSE}|(?:non(?: {_IS})?|not) {_TRUE})(?= ?(?:[.,;)}}\]\n]|\Z)))"
)
_CONFIRMED_AFTER = re.compile(rf"(?i)\A{_CLOSED} {_SEEMS}{_NAMED}(?: più)? {_TRUE}")
_MENTION = re.compile(r"(?:(?<![\w'])|(?<=\b[lL]'))[ABab](?![\w'])")
_LETTERS: Final[dict[str, Letter]] = {"A": "A", "a": "A", "B": "B", "b": "B"}


@dataclass(frozen=True, slots=True)
class LetterReading:
    """What an answer says, and by which rule.

    `rule` is one of: `empty`; `single`, the text's only letter; `mention`, the only letter that is named and not
    rejected; `strong`, the only one of two that is named with weight; `cue`, the last of two that a word such as
    "risposta" names; `elimination`, the other one was rejected; `echo`, one statement is repeated; and without a
    letter `both`, `rejected` (both were), `echo_both`, `none`.
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


def read_letter(raw: str | None, statement_a: str, statement_b: str) -> LetterReading:
    """Read which of two statements an answer holds to be true.

    Args:
        raw: the text as generated; of more than 8,000 visible characters the first and last 4,000 are read.
        statement_a: the statement shown as A.
        statement_b: the statement shown as B.
    """
    text = _normalise(raw)
    if not text:
        return LetterReading(None, "empty")
    letters = [c for c in text if c.isalpha()]
    if len(letters) == 1 and letters[0] in _LETTERS:
        return LetterReading(_LETTERS[letters[0]], "single")
    words_a, words_b = _words(_normalise(statement_a)), _words(_normalise(statement_b))
    mentions = _mentions(text, [words[:3] for words in (words_a, words_b) if len(words) > 1])
    return _decide(mentions) if mentions else _echo(_words(text), words_a, words_b)


def _mentions(text: str, openings: list[list[str]]) -> list[_Mention]:
    found: list[_Mention] = []
    for match in _MENTION.finditer(text):
        start, end = match.span()
        before, after = text[max(0, start - _WINDOW) : start], text[end : end + _WINDOW]
        # A statement may itself begin with "A", the preposition; its repetition names no letter.
        repeats = after.startswith(" ") and _words(match[0] + after)[:3] in openings
        if not repeats and (mention := _mention(match[0], before, after)):
            found.append(mention)
    return _weighed(found)


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


def _weighed(mentions: list[_Mention]) -> list[_Mention]:
    """Take the weight from letters that are offered together: "A o B", or a list of both under one heading."""
    weighed = list(mentions)
    for i, (left, right) in enumerate(itertools.pairwise(mentions)):
        if left.letter != right.letter and left.joined:
            weighed[i] = replace(weighed[i], cued=False, heads_line=False)
            weighed[i + 1] = replace(right, cued=False, heads_line=False)
        elif left.letter != right.letter and left.heads_line and right.heads_line:
            weighed[i] = replace(weighed[i], cued=False)
    return weighed


def _decide(mentions: list[_Mention]) -> LetterReading:
    upheld = [m for m in mentions if not m.negative]
    positive, rejected = {m.letter for m in upheld}, {m.letter for m in mentions if m.negative}
    if not positive:
        spared = {*_LETTERS.values()} - rejected
        return LetterReading(spared.pop(), "elimination") if spared else LetterReading(None, "rejected")
    possible = (positive - rejected) or positive
    if len(possible) == 1:
        return LetterReading(possible.pop(), "mention")
    strong = {m.letter for m in upheld if m.cued or m.heads_line or m.confirmed}
    if len(strong) == 1:
        return LetterReading(strong.pop(), "strong")
    cued = [m.letter for m in upheld if m.cued]
    return LetterReading(cued[-1], "cue") if cued else LetterReading(None, "both")


def _echo(words: list[str], words_a: list[str], words_b: list[str]) -> LetterReading:
    # Every word brings both its blanks, so that neighbouring runs share none.
    text, a, b = ("".join(f" {word} " for word in part) for part in (words, words_a, words_b))
    has_a, has_b = bool(a) and a in text, bool(b) and b in text
    if has_a and has_b and a != b:
        # A statement inside the other one counts only where it also stands by itself.
        has_a, has_b = a not in b or a in text.replace(b, "|"), b not in a or b in text.replace(a, "|")
    if has_a == has_b:
        return LetterReading(None, "echo_both" if has_a else "none")
    return LetterReading("A" if has_a else "B", "echo")


_LABEL = re.compile(r"\A[*_#>\s]*(?:risposta|answer)[*_\s]*:[*_\s]*", re.IGNORECASE)
_QUOTES: Final = {'"': '"', "'": "'", "“": "”", "„": "”", "«": "»", "‘": "’", "‹": "›"}
_NEGATIVE = re.compile(
    r"(?<!\w)(?:non (?:(?:è|é|e'|e) )?(?:(?:del tutto|\w+mente) )?(?:corrett|giust|ver)[ao]"
    r"|(?:errat|scorrett|sbagliat|fals)[ao]|false|incorrect)(?!\w)|(?:(?<!\w)not|n't) (?:correct|true)(?!\w)"
)
_POSITIVE = re.compile(r"(?<!\w)(?:(?:corrett|giust|ver)[ao]|correct|true)(?!\w)")
_VERDICTS: Final = {
    **dict.fromkeys(("true", "yes", "sì", "si", "corretta"), True),
    **dict.fromkeys(("false", "no", "errata", "scorretta"), False),
}


def read_oevqa(raw: str | None) -> str:
    """Take the answer out of an open reply: no hidden reasoning, label or quotes around it; all else stays.

    Where nothing is left it is '', which is incorrect without a judge.
    """
    text = _unquoted(_LABEL.sub("", _unquoted(_shown(raw))).strip())
    return text if text.strip("\"'“”„«»‘’‹›") else ""


def _unquoted(text: str) -> str:
    if len(text) < 2 or _QUOTES.get(text[0]) != text[-1]:
        return text
    inner = text[1:-1]
    # Quotes that close before the end surround a word of the answer, not the answer.
    closes = re.search(rf"(?<=\S){re.escape(text[-1])}(?!\w)", inner)
    opens = re.search(rf"(?<!\S){re.escape(text[0])}", inner)
    return text if closes and not (opens and opens.start() < closes.start()) else inner.strip()


def read_verdict(raw: str | None) -> bool | None:
    """Read a judge's reply: True for a right answer, False for a wrong one, None where it cannot be told.

    A JSON object with the key `correct` is asked for and comes first; words are the fall-back. Of more than 8,000
    visible characters the first and last 4,000 are read.
    """
    value = next((found["correct"] for found in _objects(_ends(raw)) if "correct" in found), _worded_verdict)
    if value is _worded_verdict:
        return _worded_verdict(_normalise(raw).lower())
    if isinstance(value, str):
        return _VERDICTS.get(unicodedata.normalize("NFKC", value).strip().lower())
    return value if isinstance(value, bool) else None


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Yield every JSON object in a text, outer ones before those inside them."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", text):
        try:
            found, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield found


def _worded_verdict(text: str) -> bool | None:
    opening = next(iter(re.findall(r"\w+", text)), "")
    negative = opening == "no" or bool(_NEGATIVE.search(text))
    positive = opening in {"sì", "si", "yes"} or bool(_POSITIVE.search(_NEGATIVE.sub(" ", text)))
    return positive if positive != negative else None
