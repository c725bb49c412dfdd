"""Annotation tasks of a benchmark: items with texts, a picture and questions; the answers are rows of a human file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.records import MediaRef

YES_NO: Final = (("1", "Yes"), ("0", "No"))


@dataclass(frozen=True, slots=True)
class Question:
    """One column of a row: a choice, or without options a line of text."""

    column: str
    label: str
    options: Sequence[tuple[str, str]] = ()  # value and words of each choice
    shown_if: tuple[str, str] | None = None  # column and value of an earlier question; hidden, the value is ''


@dataclass(frozen=True, slots=True)
class AnnotationPart:
    """What becomes one row: fixed fields, questions, and texts to read."""

    fields: Mapping[str, str]
    questions: Sequence[Question]
    texts: Sequence[tuple[str, str]] = ()  # heading and text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationItem:
    """One item of a form; a person answers all of its parts."""

    item_id: str  # unique in a form
    strata: Mapping[str, str]  # what draws may be stratified by
    texts: Sequence[tuple[str, str]] = ()
    picture: MediaRef | None = None  # or a clip, of which frames are shown
    further: Sequence[MediaRef] = ()  # after the first
    parts: Sequence[AnnotationPart]

    @property
    def pictures(self) -> Sequence[MediaRef]:
        """All pictures, in order."""
        return (*((self.picture,) if self.picture else ()), *self.further)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationForm:
    """The items of a benchmark from which forms are drawn, and the kind of human file that they save."""

    kind: str
    title: str
    instructions: Sequence[str]
    items: Sequence[AnnotationItem]
    default_strata: Sequence[str]
    annotator: str = "annotator"  # column of the person's code
    preferred: str = ""  # column that is 1 for the best part of an item and else 0, where that is asked
