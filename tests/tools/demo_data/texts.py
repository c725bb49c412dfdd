"""The questions of the demo's clips, and the pools of answers and statements that belong to them.

They are written in `clipN.yaml` beside this file. One line there holds a whole triple, so that an answer, its true
statement and the false one cannot drift apart: `answer => what {holds|does not} in the clip`.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = ["Question", "VideoTexts", "read_texts", "split_line"]

_EDIT = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")

_Words = Annotated[str, StringConstraints(min_length=1)]


class Question(BaseModel):
    """A question and its pool, as written."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    category: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]+_[AB]$")]
    question: Annotated[str, StringConstraints(pattern=r"\?$")]
    pool: Annotated[list[_Words], Field(min_length=8, max_length=8)]

    def as_distributed(self) -> dict[str, str | list[str]]:
        """Return the entry of the data set: three lists that one index links.

        Raises:
            ValueError: a line of the pool is not in the form that `split_line` reads.
        """
        triples = [split_line(line) for line in self.pool]
        answers, true, false = ([triple[part] for triple in triples] for part in range(3))
        return {
            "category": self.category,
            "question": self.question,
            "answer": answers,
            "true_statement": true,
            "false_statement": false,
        }


class VideoTexts(BaseModel):
    """All questions of one clip, in the order they are distributed in."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    video: Annotated[str, StringConstraints(pattern=r"^video[0-9]+$")]
    link: str
    questions: Annotated[list[Question], Field(min_length=24, max_length=24)]

    def as_distributed(self) -> dict[str, object]:
        """Return the object of the data set; the order of categories differs between the clips, as published."""
        halves = {
            half: [question.as_distributed() for question in self.questions if question.category.endswith(half)]
            for half in "AB"
        }
        return {
            "video": self.video,
            "link": self.link,
            "question_categories_A": halves["A"],
            "question_categories_B": halves["B"],
        }


def read_texts(number: int) -> VideoTexts:
    """Return the texts of clip `number`.

    Raises:
        FileNotFoundError: there is no such clip.
        pydantic.ValidationError: the file is not in its form.
    """
    written = (files("tests.tools.demo_data") / f"clip{number}.yaml").read_text(encoding="utf-8")
    return VideoTexts.model_validate(yaml.safe_load(written))


def split_line(line: str) -> tuple[str, str, str]:
    """Split a line into the answer, the true statement and the false one.

    Raises:
        ValueError: there is no ` => `, no edit, or a brace outside an edit.
    """
    answer, arrow, statement = line.partition(" => ")
    true, edits = _EDIT.subn(r"\1", statement)
    false = _EDIT.sub(r"\2", statement)
    if not (answer and arrow and edits) or any(sign in true + false for sign in "{|}"):
        raise ValueError(f"{line!r} must read `answer => statement with at least one {{true|false}}`")
    return answer, true, false
