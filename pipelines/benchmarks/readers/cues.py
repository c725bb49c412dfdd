"""Words that announce an answer, as `the answer is` and `Antwort:`, for every reader."""

import re
from typing import Final

FOREIGN_WORDS: Final = (
    "antwort|lösung|ergebnis|réponse|résultat|risposta|risultato|soluzione|respuesta|resultado|resposta|odpowiedź"
    "|ответ|απάντηση"
)
ANSWER_WORDS: Final = f"answer|{FOREIGN_WORDS}"
UNSPACED_WORDS: Final = "答案|答え|回答|正解|정답|답변|답"  # no space around them
_IS: Final = (
    r"(?i:is|was|would\s++be|should\s++be|must\s++be|ist|lautet|wäre|est|è|é|es|são|это)\b(?!\s++(?:not|nicht)\b|n't)"
)
_UNSPACED_IS: Final = "[:=]|应该是|應該是|是|为|為|は|은|는"
LINK: Final = rf"\s*+(?:{_IS}|{_UNSPACED_IS})"
# Bounded, so that a search from each clause takes time linear in the text.
_PREFIX: Final = (
    r"[\s*_#>\"'(-]{0,12}+(?:(?:so|thus|therefore|hence|then|now|and|but|wait|also|actually|finally|overall|consequently"
    r"|in conclusion|as a result|daher|donc|quindi),?\s{1,9}+){0,4}+"
    r"(?:(?:the|my|our|die|la|il|der|das)\s++|l')?+(?:(?:final|correct|right|best|richtige|endgültige|bonne|corretta)\s++){0,4}+"
)
CUE = re.compile(
    rf"(?:\b(?:{ANSWER_WORDS}|verdict|result)\b|{UNSPACED_WORDS})[\"'*_)\]]*+(?:{LINK})*+\s*+", re.IGNORECASE
)
"""A cue; what is said begins behind it."""
LEAD = re.compile(rf"\A{_PREFIX}(?:(?:{ANSWER_WORDS})\b|{UNSPACED_WORDS})[\"'*_)\]]*+(?:{LINK})++\s*+", re.IGNORECASE)
"""What stands in front of a phrase that is the answer."""
EXPLICIT = re.compile(
    rf"(?:\A|(?<=[\n.!?;:,>)\]}}$*])){_PREFIX}"
    rf"(?:(?:{ANSWER_WORDS}|option|choice|verdict|label)\b|{UNSPACED_WORDS})[*_]*+(?={LINK}(?!\s++in\b)\s*+\S)",
    re.IGNORECASE,
)
"""The start of an explicit statement of the answer, at the start of a line, sentence or clause."""
NEGATION = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot|nicht|kein\w{0,2}|pas|non|не)|n[' ]t|\bno(?=\s(?:es|é)\s))\s++"
    r"(?:(?:the|an?|be|choose|pick|select|option|choice|letter|die|der|das|è|es|é|это|вариант)\s++){0,3}+[\"'(*$]*+\Z",
    re.IGNORECASE,
)
"""The end of a text in front of what is denied."""
DENIED_BEHIND = re.compile(
    r"[\"')*$]{0,3}\s++(?:is|was|are|ist|est)\s++(?:not|wrong|incorrect|false|falsch|nicht)\b", re.IGNORECASE
)
"""What denies the words in front of it."""
_DENIED: Final = 32  # characters in front of an answer in which a word may deny it


def is_denied(text: str, start: int, end: int) -> bool:
    """Return whether a text denies what stands at a place in it, as in `not B` and `B is wrong`."""
    return bool(NEGATION.search(text, max(0, start - _DENIED), start) or DENIED_BEHIND.match(text, end))


def names(text: str, words: str) -> bool:
    """Return whether a text of single blanks holds words once or more without denying them each time."""
    text, place = f" {text} ", -1
    while (place := text.find(f" {words} ", place + 1)) >= 0:
        if not is_denied(text, place + 1, place + 1 + len(words)):
            return True
    return False
