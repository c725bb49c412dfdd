r"""Parse the label and the explanation of V-FLUTE's answers, in two ways; both results are stored.

`parse_as_authors` reproduces the paper's script, so that numbers compare with the published ones. `parse_robust`
handles negation, other and repeated markers. Both take time linear in the text, except for one clean-up of the authors'
that stays exact up to `_LONG` characters.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from pipelines.benchmarks.prompt_templates import load_yaml

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


@dataclass(frozen=True, slots=True)
class Answer:
    """A label and its explanation."""

    label: Label | None  # 1 for entailment, 0 for contradiction, None where the text gives neither
    explanation: str | None  # None only where there is no text at all


def stage1_question(instruction: str) -> str:
    """Return the question for a scene graph: the instruction without its last sentence and without question marks."""
    return " ".join(instruction.split("?")[:-1]).strip()


def _without_reasoning(text: str) -> str:
    """Remove `<think>` blocks; one never closed takes the rest with it, one never opened all before it."""
    start, end = "<think>", "</think>"
    opening, closing = text.find(start), text.find(end)
    if closing >= 0 and (opening < 0 or closing < opening):
        text = text[closing + len(end) :]
    parts, position = [], 0
    while (opening := text.find(start, position)) >= 0:
        parts.append(text[position:opening])
        closing = text.find(end, opening)
        position = len(text) if closing < 0 else closing + len(end)
    return "".join([*parts, text[position:]])


_PLAIN_MARKER = re.compile(r"LABEL:|Label:|label:")
_LABEL_WORD: Final = {
    1: re.compile(r"entailment|Entailment|entails|Entails"),
    0: re.compile(r"contradiction|Contradiction|contradicts|Contradicts"),
}
_SCRIPT: Final = load_yaml(__package__, "authors_script.yaml")


def parse_as_authors(raw: str | None, *, scene_graph: bool) -> Answer:
    """Parse an answer as the script of the authors does, on which the published numbers rest.

    Its peculiarities are kept: a marker needs a colon and one of three spellings, `contradict` wins after a marker,
    `entail` wins without one. With `scene_graph`, the mention of one is removed from the explanation.
    """
    if raw is None:
        return Answer(None, None)
    output = _without_reasoning(raw)
    label: Label | None
    if marker := _PLAIN_MARKER.search(output):
        label = _label_after_marker(output[marker.end() :].lower())
        word = None if label is None else _LABEL_WORD[label].search(output)
        explanation = output[: marker.start()].strip() or (output[word.end() :].strip() if word else "") or output
    else:
        label, explanation = _label_in_prose(output.lower()), output
    explanation = _tidy(explanation)
    return Answer(label, _without_scene_graph(explanation) if scene_graph else explanation)


def _label_after_marker(text: str) -> Label | None:
    if "neither" in text:
        return None
    if "contradict" in text:
        return 0
    return 1 if "entail" in text else None


def _label_in_prose(text: str) -> Label | None:
    if any(phrase in text for phrase in _SCRIPT["neither"]):
        return None
    if any(phrase in text for phrase in _SCRIPT["entailment"]):
        return 1
    return 0 if any(phrase in text for phrase in _SCRIPT["contradiction"]) else None


def _tidy(explanation: str) -> str:
    for ending in (".", ":", "\n"):
        for word in ("Contradiction", "Entailment"):
            explanation = explanation.replace(word + ending, "")
        explanation = explanation.strip()
    if "Therefore," in explanation:
        explanation = explanation.rpartition("Therefore,")[0].strip()
    return explanation


_LONG = 20_000  # characters, ten times what a model may write


def _without_scene_graph(explanation: str) -> str:
    if "scene graph" not in explanation.lower():
        return explanation
    for wording, replacement in _SCRIPT["scene graph"]:
        explanation = explanation.replace(wording, replacement)
    explanation = explanation.strip()
    if len(explanation) > _LONG:  # the loop below searches the whole text for every word
        return re.sub(r"\S+", lambda word: _without_underscores(word[0]), explanation)
    for word in explanation.split():
        if "_" not in explanation:
            break
        spaced = _without_underscores(word)
        if spaced != word:
            explanation = explanation.replace(word, spaced)
    return explanation


def _without_underscores(word: str) -> str:
    return word if "_" not in word or "emoji" in word else word.replace("_", " ").replace('"', "")


_DROPPED = str.maketrans("", "", "*`#")
_LINE_BREAK = re.compile(r"\r\n?")
# A hyphen between two words (`label-free`) is not a marker.
_MARKER = re.compile(
    r"\b(?:label|answer|verdict)\b[\"'”’)\]]?+(?:[^\S\n]*+(?:[:：=]|is\b|[–—]++)|[^\S\n]++-++|-++(?![^\W_]))[^\S\n]*+",
    re.IGNORECASE,
)
_VISIBLE = re.compile(r"\S")
_SENTENCE_START = re.compile(r"(?:\A|\n|[.!?][\"'”’)\]]*+\s)\s*+(?=\S)")
_BARE_LABEL = re.compile(r"\W*+(?:entail|contradict)[^\W_]*+\W*+", re.IGNORECASE)
_LEADING = re.compile(
    r"\s*+(?:(?:explanation|reasoning)\s*+:"
    r"|[\"'“‘(\[]?+(?:entail|contradict)[a-z]*+[\"'”’)\]]?+[^\S\n]*+(?:[.:;!]++|[–—-]++(?=\s)|\n|\Z))\s*+",
    re.IGNORECASE,
)


def parse_robust(raw: str | None) -> Answer:
    """Parse an answer in forms that the authors' script does not foresee.

    The label comes from the last marker with one (`Label:`, `final answer is` ...), else from the last sentence, else
    from the whole text, else from verbs such as `supports`; negated words do not count. The explanation is the text
    without that marker's line.
    """
    text = _LINE_BREAK.sub("\n", _without_reasoning(raw or "")).translate(_DROPPED).strip()
    evidence = Evidence(text)
    starts = [match.end() for match in _SENTENCE_START.finditer(text)]
    for start, candidate, end in _markers_from_last(text):
        label = evidence.stem_vote(candidate, end)
        if label is not None:
            sentence = starts[bisect_right(starts, start) - 1]
            return Answer(label, _without_leading_label(_without_line(text, sentence, candidate, end)))
    label = evidence.stem_vote(starts[-1] if starts else 0, len(text))
    if label is None:
        label = evidence.stem_vote(0, len(text))
    if label is None:
        label = evidence.verb_vote(len(text))
    return Answer(label, _without_leading_label(text))


def _markers_from_last(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield for each marker its start, and the start and end of the text that it points at."""
    breaks = [*(match.start() for match in re.finditer("\n", text)), len(text)]
    for marker in reversed(list(_MARKER.finditer(text))):
        line_end = breaks[bisect_left(breaks, marker.end())]
        candidate = _VISIBLE.search(text, marker.end())
        if candidate is None:
            continue
        if candidate.start() > line_end:  # nothing follows on its line: the next line that is not empty
            line_end = breaks[bisect_left(breaks, candidate.start())]
        yield marker.start(), candidate.start(), line_end


def _without_line(text: str, start: int, candidate: int, end: int) -> str:
    """Remove the marker's line from `start` on, and the line below where that is the label alone."""
    line_end = text.find("\n", start, candidate)
    if line_end < 0 or _BARE_LABEL.fullmatch(text, candidate, end):
        line_end = end
    return f"{text[:start].rstrip()}\n{text[line_end:].lstrip()}".strip()


def _without_leading_label(text: str) -> str:
    start = 0
    while leading := _LEADING.match(text, start):
        start = leading.end()
    return text[start:].strip()
