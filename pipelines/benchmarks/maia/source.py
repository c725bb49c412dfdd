"""TODO doc."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipelines.benchmarks.maia.answers import (
    column_of,
)
from pipelines.benchmarks.records import (
    MediaFile,
    RawSample,
    Rejection,
)
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.validation import format_validation_error
from pipelines.errors import SourceError

POOL = 8


_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


_Eight = Annotated[list[_Words], Field(min_length=POOL, max_length=POOL)]


class _Question(BaseModel):
    """One entry of `question_categories_A` or `_B` as distributed."""

    model_config = ConfigDict(strict=True)
    category: _Words
    question: _Words
    answer: _Eight
    true_statement: _Eight
    false_statement: _Eight


def _questions_file(source: Source) -> str:
    found = [path for pattern in ("*.json", "dataset/*.json") for path in source.glob(pattern)]
    found = [path for path in found if path.count("/") == min(p.count("/") for p in found)]
    if not found:
        raise SourceError(f"{source.uri}: no *.json here or in dataset/; give the folder that holds data_20%.json")
    if len(found) > 1:
        raise SourceError(f"{source.uri}: several JSON files ({', '.join(found)}); leave the one with the questions")
    return found[0]


def _video(video: Any, number: int, path: str, folder: str) -> Iterator[RawSample | Rejection]:
    """All questions of one video; one bad question rejects neither the video nor its neighbours."""
    name = video.get("video") if isinstance(video, dict) else None
    digits = re.fullmatch(r"video(\d+)", name) if isinstance(name, str) else None
    if not digits:
        reason = f"`video` must be `video` and a number, not {name!r}"
        yield Rejection(file=path, item=f"video {number} of the file", reason=reason)
        return
    clip = f"{folder}/videos/{digits[1]}.mp4".lstrip("/")
    for half in ("question_categories_A", "question_categories_B"):
        entries = video.get(half)
        if not isinstance(entries, list):
            yield Rejection(file=path, item=f"{name}/{half}", reason=f"`{half}` must be a list of questions")
            continue
        for index, entry in enumerate(entries):
            category = entry.get("category") if isinstance(entry, dict) else None
            item = f"{name}/{category}" if isinstance(category, str) and category else f"{name}/{half}[{index}]"
            yield _question(entry, item, path, clip)


def _question(entry: Any, item: str, path: str, clip: str) -> RawSample | Rejection:
    video = item.partition("/")[0]
    try:
        question = _Question.model_validate(entry)
        column = column_of(question.category)
    except ValidationError as error:
        return Rejection(file=path, item=item, reason=format_validation_error(error))
    except ValueError as error:
        return Rejection(file=path, item=item, reason=str(error))
    same = [i for i in range(POOL) if question.true_statement[i] == question.false_statement[i]]
    if same:
        return Rejection(file=path, item=item, reason=f"pair {same[0]}: the true and the false statement are the same")
    return RawSample(
        sample_id=f"{video}/{question.category}",
        file=path,
        category=column,
        cluster=video,
        media=(MediaFile(role="clip", kind="video", path=clip),),
        data={
            "video": video,
            "category": question.category,
            "question": question.question,
            "answers": question.answer,
            "true": question.true_statement,
            "false": question.false_statement,
        },
    )
