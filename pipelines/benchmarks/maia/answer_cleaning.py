"""Clean a reply to a MAIA question before its answer is read: hidden reasoning, invisible characters, markup."""

import re
import unicodedata
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
