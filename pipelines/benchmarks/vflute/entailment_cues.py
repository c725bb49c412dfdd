"""Words that speak for entailment or contradiction, unless a negation is at most two words before in the clause."""

import re
from bisect import bisect_left
from typing import Final, Literal

Label = Literal[0, 1]

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*+|[^\w\s\"'“”‘’()\[\]{}]")
_NEGATIONS: Final = frozenset({"not", "no", "never", "cannot", "without"})
_TWO_WORD_NEGATIONS: Final = frozenset({("rather", "than"), ("instead", "of")})
_WORDS_BETWEEN = 2  # between a negation and what it negates
_UNDECIDED: Final = frozenset({"neither", "neutral", "undetermined"})
_LABELS: Final[tuple[Label, Label]] = (1, 0)
_SIDE: Final = {
    1: re.compile(
        r"support(?:s|ed|ing|ive)?|confirm(?:s|ed|ing)?|affirm(?:s|ed|ing)?|corroborat(?:es?|ed|ing)"
        r"|validat(?:es?|ed|ing)|align(?:s|ed|ing)?"
    ),
    0: re.compile(
        r"refut(?:es?|ed|ing)|disput(?:es?|ed|ing)|den(?:y|ies|ied|ying)|oppos(?:es?|ed|ing)|negat(?:es?|ed|ing)"
        r"|disprov(?:es?|ed|en|ing)|counter(?:s|ed|ing)?|contest(?:s|ed|ing)?|challeng(?:es?|ed|ing)"
    ),
}
_SIDE_WITH: Final = {
    1: {"consistent", "agreement", "harmony"},
    0: {"inconsistent", "conflict", "conflicts", "conflicting"},
}


class Evidence:
    """Positions of the words that vote, so that any part of a text can be evaluated without parsing it again."""

    def __init__(self, text: str) -> None:
        self._stems: dict[Label, list[int]] = {0: [], 1: []}
        self._verbs: dict[Label, list[int]] = {0: [], 1: []}
        self._undecided: list[int] = []
        tokens = [(match.start(), match[0].replace("’", "'").casefold()) for match in _WORD.finditer(text)]
        words = [word for _, word in tokens]
        for index, (start, word) in enumerate(tokens):
            if not word[0].isalpha():
                continue
            if word in _UNDECIDED:
                self._undecided.append(start)
                continue
            voters, side = self._stems, _stem(word)
            if side is None:
                voters, side = self._verbs, _verb(word, words[index + 1] if index + 1 < len(words) else "")
            if side is not None and not _negated(words, index):
                voters[side].append(start)

    def stem_vote(self, start: int, end: int) -> Label | None:
        """Return the label of the label words between two positions; None for none or both."""
        return None if _any_between(self._undecided, start, end) else _one_side(self._stems, start, end)

    def verb_vote(self, end: int) -> Label | None:
        """Return the label of verbs such as `supports` and `refutes` up to a position; None for none or both."""
        return None if self._undecided else _one_side(self._verbs, 0, end)


def _stem(word: str) -> Label | None:
    if word.startswith("entail"):
        return 1
    return 0 if word.startswith("contradict") else None


def _verb(word: str, following: str) -> Label | None:
    for side in _LABELS:
        if _SIDE[side].fullmatch(word) or (following == "with" and word in _SIDE_WITH[side]):
            return side
    return None


def _negated(words: list[str], index: int) -> bool:
    for before in range(index - 1, max(-1, index - 2 - _WORDS_BETWEEN), -1):
        word = words[before]
        if word in _NEGATIONS or word.endswith("n't"):
            return True
        if before and (words[before - 1], word) in _TWO_WORD_NEGATIONS:
            return True
        if not word[0].isalnum():  # a clause ends: in "No, it contradicts" nothing is negated
            return False
    return False


def _any_between(positions: list[int], start: int, end: int) -> bool:
    return bisect_left(positions, start) < bisect_left(positions, end)


def _one_side(sides: dict[Label, list[int]], start: int, end: int) -> Label | None:
    entails, contradicts = _any_between(sides[1], start, end), _any_between(sides[0], start, end)
    if entails == contradicts:
        return None
    return 1 if entails else 0
