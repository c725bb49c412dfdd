r"""V-FLUTE: the label and the explanation in a model's text, read twice.

`read_authors` gives what the script published with the paper gives, character for character, so that its numbers
compare with the published ones. `read_robust` is ours: it knows negation, other markers, and more than one marker. Both
results are stored, and reports show how often they differ.

Neither grows faster than the text, but for one clean-up of the authors' that stays exact up to `_LONG` characters. Only
the standard library is used, and `vflute_words`.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.vflute.entailment_cues import Evidence, Label


@dataclass(frozen=True, slots=True)
class Reading:
    """A label and the reason given for it."""

    label: Label | None
    """1 for entailment, 0 for contradiction, None where the text gives neither."""
    explanation: str | None
    """None only where there was no text at all."""


def stage1_question(instruction: str) -> str:
    """What a scene graph is asked for: `instruction` without its last sentence and without question marks.

    The pieces between question marks are joined by blanks and the last one is left out; the claim stays in.
    """
    return " ".join(instruction.split("?")[:-1]).strip()


def _without_reasoning(text: str) -> str:
    """`text` without `<think>` blocks; one never closed takes the rest with it, one never opened what is before."""
    start, end = "<think>", "</think>"
    opening, closing = text.find(start), text.find(end)
    if closing >= 0 and (opening < 0 or closing < opening):
        text = text[closing + len(end) :]
    kept, position = [], 0
    while (opening := text.find(start, position)) >= 0:
        kept.append(text[position:opening])
        closing = text.find(end, opening)
        position = len(text) if closing < 0 else closing + len(end)
    return "".join([*kept, text[position:]])


# ------------------------------------------------------------------------------------------- authors'

_PLAIN_MARKER = re.compile(r"LABEL:|Label:|label:")
_LABEL_WORD: Final = {
    1: re.compile(r"entailment|Entailment|entails|Entails"),
    0: re.compile(r"contradiction|Contradiction|contradicts|Contradicts"),
}
_SAYS_NEITHER: Final = (
    "not possible to definitively label",
    "neither",
    "does not support or contradict",
    "entailment or contradiction",
)
_SAYS_ENTAILMENT: Final = (
    "entail",
    "supports the claim",
    "is consistent",
    "image can be seen as indirectly supporting",
    "appears to be consistent with the claim",
    "in harmony with",
    "is in agreement",
    "confirms the claim",
)
_SAYS_CONTRADICTION: Final = ("contradict", "appears to contest")


def read_authors(raw: str | None, *, scene_graph: bool) -> Reading:
    """The reading that published numbers rest on.

    Args:
        raw: the model's text as it came, or None where there is none.
        scene_graph: whether the model was shown a scene graph, whose mention the explanation then loses.

    Returns:
        The label and the tidied explanation. Follows the script of the authors, its oddities included: a marker needs
        a colon and one of three spellings, `contradict` wins behind a marker, `entail` wins without one.
    """
    if raw is None:
        return Reading(None, None)
    output = _without_reasoning(raw)
    label: Label | None
    if marker := _PLAIN_MARKER.search(output):
        label = _label_behind_marker(output[marker.end() :].lower())
        explanation = output[: marker.start()].strip() or _behind_label_word(output, label) or output
    else:
        label, explanation = _label_in_prose(output.lower()), output
    explanation = _tidied(explanation)
    return Reading(label, _without_scene_graph(explanation) if scene_graph else explanation)


def _label_behind_marker(text: str) -> Label | None:
    if "neither" in text:
        return None
    if "contradict" in text:
        return 0
    return 1 if "entail" in text else None


def _label_in_prose(text: str) -> Label | None:
    if any(phrase in text for phrase in _SAYS_NEITHER):
        return None
    if any(phrase in text for phrase in _SAYS_ENTAILMENT):
        return 1
    return 0 if any(phrase in text for phrase in _SAYS_CONTRADICTION) else None


def _behind_label_word(output: str, label: Label | None) -> str:
    word = None if label is None else _LABEL_WORD[label].search(output)
    return output[word.end() :].strip() if word else ""


def _tidied(explanation: str) -> str:
    for ending in (".", ":", "\n"):
        for word in ("Contradiction", "Entailment"):
            explanation = explanation.replace(word + ending, "")
        explanation = explanation.strip()
    if "Therefore," in explanation:
        explanation = explanation.rpartition("Therefore,")[0].strip()
    return explanation


_SCENE_GRAPH_WORDING: Final = (
    ("and the scene graph's description", ""),
    ("and the scene graph both support", "supports"),
    ("and the scene graph together support", "supports"),
    ("and the scene graph", ""),
    ("or the scene graph", ""),
    ("n the scene graph", "n the image"),
    ("the scene graph shows", "the image shows"),
    ("the scene graph describes", "the image shows"),
    ("the scene graph indicates", "the image displays"),
    ("the scene graph states", "the image displays"),
    ("the scene graph explicitly states", "the image displays"),
    ("scene graph", "image"),
    ("  ", " "),
)
_LONG = 20_000  # characters, ten times what a model may write


def _without_scene_graph(explanation: str) -> str:
    if "scene graph" not in explanation.lower():
        return explanation
    for wording, instead in _SCENE_GRAPH_WORDING:
        explanation = explanation.replace(wording, instead)
    explanation = explanation.strip()
    if len(explanation) > _LONG:  # the loop below looks through the whole text for every word
        return re.sub(r"\S+", lambda word: _spaced(word[0]), explanation)
    for word in explanation.split():
        if "_" not in explanation:
            break
        spaced = _spaced(word)
        if spaced != word:
            explanation = explanation.replace(word, spaced)
    return explanation


def _spaced(word: str) -> str:
    return word if "_" not in word or "emoji" in word else word.replace("_", " ").replace('"', "")


# --------------------------------------------------------------------------------------------- robust

_DROPPED = str.maketrans("", "", "*`#")
_LINE_BREAK = re.compile(r"\r\n?")
# A hyphen between two words (`label-free`) marks nothing.
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


def read_robust(raw: str | None) -> Reading:
    """A second reading, for texts in forms that the authors' script does not foresee.

    Args:
        raw: the model's text as it came, or None where there is none.

    Returns:
        The label that the last marker with one gives (`Label:`, `final answer is` ...), else the last sentence, else
        the whole text, else verbs such as `supports`; and the text without that marker's line. A negated word counts
        for nothing.
    """
    text = _LINE_BREAK.sub("\n", _without_reasoning(raw or "")).translate(_DROPPED).strip()
    evidence = Evidence(text)
    starts = [match.end() for match in _SENTENCE_START.finditer(text)]
    for start, candidate, end in _markers_from_last(text):
        label = evidence.stem_vote(candidate, end)
        if label is not None:
            sentence = starts[bisect_right(starts, start) - 1]
            return Reading(label, _without_leading_label(_without_line(text, sentence, candidate, end)))
    label = evidence.stem_vote(starts[-1] if starts else 0, len(text))
    if label is None:
        label = evidence.stem_vote(0, len(text))
    if label is None:
        label = evidence.verb_vote(len(text))
    return Reading(label, _without_leading_label(text))


def _markers_from_last(text: str) -> Iterator[tuple[int, int, int]]:
    """For each marker: where it begins, and where the text it points at begins and ends."""
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
    """`text` without the marker's line from `start` on, and without the line below where that is the label alone."""
    line_end = text.find("\n", start, candidate)
    if line_end < 0 or _BARE_LABEL.fullmatch(text, candidate, end):
        line_end = end
    return f"{text[:start].rstrip()}\n{text[line_end:].lstrip()}".strip()


def _without_leading_label(text: str) -> str:
    start = 0
    while leading := _LEADING.match(text, start):
        start = leading.end()
    return text[start:].strip()
