"""Read MAIA as distributed: one JSON file of videos with their questions, and the clips in `videos/`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from pipelines.benchmarks.maia.categories import POOL_SIZE, column_of
from pipelines.benchmarks.maia.source_hub import hub_files, read_hub
from pipelines.benchmarks.records import MediaFile, Notice, RawSample, Rejection, Source
from pipelines.benchmarks.validation import format_validation_error
from pipelines.errors import SourceError

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Pool = Annotated[list[_Text], Field(min_length=POOL_SIZE, max_length=POOL_SIZE)]


class _Question(BaseModel):
    model_config = ConfigDict(strict=True)
    category: _Text
    question: _Text
    answer: _Pool
    true_statement: _Pool
    false_statement: _Pool


def read_maia(source: Source) -> Iterator[RawSample | Rejection | Notice]:
    """Read the hub's `gen` and `mc`, or the one `*.json` file of the folder or its `dataset/`.

    Raises:
        SourceError: there is no such file, there are several, or one cannot be read.
    """
    files = hub_files(source)
    if files:
        yield from _read_hub(source, files)
        return
    yield from _read_repository(source, _questions_file(source))


def _read_hub(source: Source, files: Mapping[str, Sequence[str]]) -> Iterator[RawSample | Rejection | Notice]:
    """Yield the questions of the hub's files under the repository's ids, where it is at hand with equal texts."""
    beside = [path for path in source.glob("*.json") if path not in {*files["gen"], *files["mc"]}]
    samples = [s for path in beside[:1] for s in _read_repository(source, path) if isinstance(s, RawSample)]
    ids = {(s.data["video"], s.data["question"]): s.data["category"] for s in samples}
    places = {
        statements: (str(s.data["video"]), str(s.data["question"]), index)
        for s in samples
        for index, statements in enumerate(zip(s.data["true"], s.data["false"], strict=True))
    }
    seen: Counter[tuple[str, str]] = Counter()
    for number, (path, video, entry, letters) in enumerate(read_hub(source, files, places), start=1):
        category, question = str(entry["category"]), str(entry["question"]).strip()
        if not category.endswith(("_A", "_B")):
            seen[video, category] += 1
            category = ids.get((video, question), f"{category}_{'AB'[(seen[video, category] - 1) % 2]}")
        sample = _parse_question({**entry, "category": category}, video, f"videos/{video[5:]}.mp4", path)
        if isinstance(sample, str):
            yield Rejection(file=path, item=f"row {number}, {video}/{category}", reason=sample)
        else:
            yield replace(sample, data={**sample.data, "letters": letters})
    yield Notice(message="the hub's order of statements A and B is used, not a drawn one")


def _read_repository(source: Source, path: str) -> Iterator[RawSample | Rejection]:
    folder = path.rpartition("/")[0]
    try:
        videos = json.loads(source.read_bytes(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: not readable as JSON ({error}); fetch the file again") from error
    if not isinstance(videos, list):
        raise SourceError(f"{source.uri}/{path}: a list of videos was expected, this is {type(videos).__name__}")
    for number, video in enumerate(videos, start=1):
        yield from _parse_video(video, number, path, folder)


def _questions_file(source: Source) -> str:
    paths = [path for pattern in ("*.json", "dataset/*.json") for path in source.glob(pattern)]
    paths = [path for path in paths if path.count("/") == min(p.count("/") for p in paths)]
    if not paths:
        raise SourceError(f"{source.uri}: no *.json here or in dataset/; give the folder that holds data_20%.json")
    if len(paths) > 1:
        raise SourceError(
            f"{source.uri}: several JSON files ({', '.join(paths)}); keep only the one with the questions"
        )
    return paths[0]


def _parse_video(video: Any, number: int, path: str, folder: str) -> Iterator[RawSample | Rejection]:
    """Yield all questions of one video; one bad question rejects neither the video nor its other questions."""
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
            label = category if isinstance(category, str) and category else f"{half}[{index}]"
            question = _parse_question(entry, str(name), clip, path)
            yield (
                Rejection(file=path, item=f"{name}/{label}", reason=question) if isinstance(question, str) else question
            )


def _parse_question(entry: Any, video_id: str, clip: str, path: str) -> RawSample | str:
    """Return the sample of one entry, or the reason why it is rejected."""
    try:
        question = _Question.model_validate(entry)
        column = column_of(question.category)
    except ValidationError as error:
        return format_validation_error(error)
    except ValueError as error:
        return str(error)
    equal = [i for i in range(POOL_SIZE) if question.true_statement[i] == question.false_statement[i]]
    if equal:
        return f"pair {equal[0]}: the true and the false statement are the same"
    return RawSample(
        sample_id=f"{video_id}/{question.category}",
        file=path,
        category=column,
        cluster=video_id,
        media=(MediaFile(role="clip", kind="video", path=clip),),
        data={
            "video": video_id,
            "category": question.category,
            "question": question.question,
            "answers": question.answer,
            "true": question.true_statement,
            "false": question.false_statement,
        },
    )
