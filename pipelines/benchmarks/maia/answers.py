"""Read MAIA's open answers and judge verdicts, and choose between statements by their log-probabilities.

The paper (Testa et al., Findings of EMNLP 2025, arXiv 2502.16989) publishes no reading code; these rules are ours.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

_HALF: Final = 4_000  # characters read at each end of a reply: bounds the time that a runaway generation takes

_HIDDEN = re.compile(r"<think>.*?(?:</think>|\Z)", re.IGNORECASE | re.DOTALL)
_HIDDEN_HEAD = re.compile(r"\A.*</think>", re.IGNORECASE | re.DOTALL)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff]")
_BREAK = re.compile("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_SINGLE_QUOTED = re.compile(r"(?<![\w'])'([^'\n]{1,200})'(?![\w'])")
_CHARACTERS = str.maketrans(
    {**dict.fromkeys("*`#"), "_": " ", **dict.fromkeys("“”„‟«»‹›", '"'), **dict.fromkeys("‘’‚‛ʼ", "'")}
)


def visible_text(raw: str | None) -> str:
    """Return the reply without hidden reasoning, also where only the end of its block was generated."""
    return _INVISIBLE.sub("", _HIDDEN_HEAD.sub("", _HIDDEN.sub("", raw or ""))).strip()


def text_ends(raw: str | None) -> str:
    """Return the visible text, or its first and last 4,000 characters where it is longer than both."""
    text = visible_text(raw)
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]}\n{text[-_HALF:]}"


def normalize(raw: str | None) -> str:
    """Return the ends of the visible text in NFKC, without markup, with straight double quotes and single blanks."""
    text = _BREAK.sub("\n", unicodedata.normalize("NFKC", text_ends(raw)).translate(_CHARACTERS))
    text = re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()
    # The single quotes that remain are apostrophes.
    return _SINGLE_QUOTED.sub(r'"\1"', text)


def folded_words(text: str) -> list[str]:
    """Return the words in lower case without accents; punctuation separates words."""
    parts = unicodedata.normalize("NFKD", text.lower())
    return re.findall(r"[^\W_]+", "".join(c for c in parts if not unicodedata.combining(c)))


def unimodal_choice(true_scores: Sequence[float], false_scores: Sequence[float]) -> bool:
    """Return whether the highest score of any language model is that of the true statement; a tie is wrong.

    Scores are mean log-probabilities per token, in nats, one per model, models in the same order.

    Raises:
        ValueError: scores are missing, uneven in number, or NaN.
    """
    pairs = _paired(true_scores, false_scores)
    return max(true for true, _ in pairs) > max(false for _, false in pairs)


def unimodal_vote(true_scores: Sequence[float], false_scores: Sequence[float]) -> bool:
    """Return whether more models prefer the true statement than the false one; arguments as of `unimodal_choice`."""
    pairs = _paired(true_scores, false_scores)
    return sum(true > false for true, false in pairs) > sum(true < false for true, false in pairs)


def _paired(true_scores: Sequence[float], false_scores: Sequence[float]) -> list[tuple[float, float]]:
    pairs = list(zip(true_scores, false_scores, strict=True))
    if not pairs or any(math.isnan(score) for pair in pairs for score in pair):
        raise ValueError("scores are missing or NaN; skip the pair and count it as failed")
    return pairs


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
    """Return an open reply without hidden reasoning, label and surrounding quotes; empty is incorrect, unjudged."""
    text = _unquoted(_LABEL.sub("", _unquoted(visible_text(raw))).strip())
    return text if text.strip("\"'“”„«»‘’‹›") else ""


def _unquoted(text: str) -> str:
    if len(text) < 2 or _QUOTES.get(text[0]) != text[-1]:
        return text
    inner = text[1:-1]
    # Quotes that close before the end surround a part of the answer, not all of it.
    closes = re.search(rf"(?<=\S){re.escape(text[-1])}(?!\w)", inner)
    opens = re.search(rf"(?<!\S){re.escape(text[0])}", inner)
    return text if closes and not (opens and opens.start() < closes.start()) else inner.strip()


def read_verdict(raw: str | None) -> bool | None:
    """Read a judge's reply: True for a correct answer, False for a wrong one, None if it cannot be read.

    The JSON object with the key `correct`, which the prompt requests, comes first, then words; of more than 8,000
    visible characters only the first and last 4,000 are read.
    """
    value = next((reply["correct"] for reply in _objects(text_ends(raw)) if "correct" in reply), _worded_verdict)
    if value is _worded_verdict:
        return _worded_verdict(normalize(raw).lower())
    if isinstance(value, str):
        return _VERDICTS.get(unicodedata.normalize("NFKC", value).strip().lower())
    return value if isinstance(value, bool) else None


def read_verdict_as_authors(raw: str | None) -> bool:
    """Return whether the first word begins with `correct`, as the authors' script: anything else is a wrong answer."""
    return (raw or "").strip().lower().startswith("correct")


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Yield every JSON object of a text, outer objects before inner ones."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _worded_verdict(text: str) -> bool | None:
    opening = next(iter(re.findall(r"\w+", text)), "")
    negative = opening == "no" or bool(_NEGATIVE.search(text))
    positive = opening in {"sì", "si", "yes"} or bool(_POSITIVE.search(_NEGATIVE.sub(" ", text)))
    return positive if positive != negative else None
