"""Read MAIA as distributed: one JSON file of videos with their questions, and the clips, or the hub's files.

The hub (`giobin/MAIA`) has `gen` with open questions and `mc` with statement pairs in a fixed order. The rows of both
are joined by what they share of clip, category and question; eight pairs follow one question. Where the repository's
JSON is next to them, a question of equal text keeps its id there, pairs of equal texts their order, and pairs that
name no question are joined by their texts. The place of the true statement (`target`: 0 for A, 1 for B) is the data's.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from pipelines.benchmarks.maia.facts import POOL_SIZE, column_of
from pipelines.benchmarks.parquet_source import MAX_TEXT_BYTES, open_parquet, parquet_rows
from pipelines.benchmarks.records import MediaFile, RawSample, Rejection, Source, SourceWarning
from pipelines.benchmarks.validation import read_json, reason_of
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


def read_maia(source: Source) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read the hub's `gen` and `mc`, or the one `*.json` file of the folder or its `dataset/`.

    Raises:
        SourceError: there is no such file, there are several, or one cannot be read.
    """
    files = {
        name: [path for pattern in _PATTERNS for path in source.glob(pattern.format(name))] for name in ("gen", "mc")
    }
    if all(files.values()):
        yield from _read_hub(source, files)
    else:
        yield from _read_repository(source, _questions_file(source))


def _read_hub(source: Source, files: Mapping[str, Sequence[str]]) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Yield the questions of the hub's files under the repository's ids, where it is at hand with equal texts."""
    others = [path for path in source.glob("*.json") if path not in {*files["gen"], *files["mc"]}]
    samples = [s for path in others[:1] for s in _read_repository(source, path) if isinstance(s, RawSample)]
    ids = {(s.data["video"], s.data["question"]): s.data["category"] for s in samples}
    places = {
        statements: (str(s.data["video"]), str(s.data["question"]), index)
        for s in samples
        for index, statements in enumerate(zip(s.data["true"], s.data["false"], strict=True))
    }
    seen: Counter[tuple[str, str]] = Counter()
    for number, (path, video, entry, letters) in enumerate(_joined_rows(source, files, places), start=1):
        category, question = str(entry["category"]), str(entry["question"]).strip()
        if not category.endswith(("_A", "_B")):
            seen[video, category] += 1
            category = ids.get((video, question), f"{category}_{'AB'[(seen[video, category] - 1) % 2]}")
        sample = _parse_question({**entry, "category": category}, video, f"videos/{video[5:]}.mp4", path)
        if isinstance(sample, str):
            yield Rejection(file=path, item=f"row {number}, {video}/{category}", reason=sample)
        else:
            yield replace(sample, data={**sample.data, "letters": letters})
    yield SourceWarning(message="the hub's order of statements A and B is used, not a drawn one")


def _read_repository(source: Source, path: str) -> Iterator[RawSample | Rejection]:
    videos = read_json(source, path)
    if not isinstance(videos, list):
        raise SourceError(f"{source.uri}/{path}: a list of videos was expected, this is {type(videos).__name__}")
    for number, video in enumerate(videos, start=1):
        yield from _parse_video(video, number, path)


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


def _parse_video(video: Any, number: int, path: str) -> Iterator[RawSample | Rejection]:
    """Yield all questions of one video; one bad question rejects neither the video nor its other questions."""
    name = video.get("video") if isinstance(video, dict) else None
    digits = re.fullmatch(r"video(\d+)", name) if isinstance(name, str) else None
    if not digits:
        reason = f"`video` must be `video` and a number, not {name!r}"
        yield Rejection(file=path, item=f"video {number} of the file", reason=reason)
        return
    clip = f"{path.rpartition('/')[0]}/videos/{digits[1]}.mp4".lstrip("/")
    for half in ("question_categories_A", "question_categories_B"):
        entries = video.get(half)
        if not isinstance(entries, list):
            yield Rejection(file=path, item=f"{name}/{half}", reason=f"`{half}` must be a list of questions")
            continue
        for index, entry in enumerate(entries):
            category = entry.get("category") if isinstance(entry, dict) else None
            label = category if isinstance(category, str) and category else f"{half}[{index}]"
            sample = _parse_question(entry, str(name), clip, path)
            yield Rejection(file=path, item=f"{name}/{label}", reason=sample) if isinstance(sample, str) else sample


def _parse_question(entry: Any, video_id: str, clip: str, path: str) -> RawSample | str:
    """Return the sample of one entry, or the reason why it is rejected."""
    try:
        question = _Question.model_validate(entry)
        column = column_of(question.category)
    except ValueError as error:
        return reason_of(error)
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


_PATTERNS: Final = ("{0}.json", "{0}.jsonl", "{0}*.parquet", "{0}/*.parquet", "data/{0}*.parquet", "{0}/*.json")
_JOINED: Final = ("video_id", "question_category", "question")
Place: TypeAlias = tuple[str, str, int]  # the clip, question and number of a pair in the repository
_ANSWERS: Final = tuple(f"answer{number}" for number in range(1, POOL_SIZE + 1))


def _joined_rows(
    source: Source, files: Mapping[str, Sequence[str]], places: Mapping[tuple[str, str], Place]
) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield file, id of the clip, question in the form of the repository's JSON, and letters of its true statements.

    `places` has the pairs of the repository, by their true and false statement.

    Raises:
        SourceError: a file cannot be read, or nothing tells which pairs are of which question.
    """

    def place(pair: Mapping[str, Any]) -> Place:
        return places.get(_statements(pair), ("", "", POOL_SIZE))

    questions = [(path, row) for path in files["gen"] for row in _rows(source, path)]
    pairs = [row for path in files["mc"] for row in _rows(source, path)]
    shared = [name for name in _JOINED if questions and pairs and name in questions[0][1] and name in pairs[0]]
    if not shared and not places:
        raise SourceError(
            f"{source.uri}: gen and mc share none of the columns {', '.join(_JOINED)}; "
            "lay the repository's data_20%.json beside them, or fetch both again"
        )
    groups: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in pairs:
        groups[_key(row, shared) if shared else place(row)[:2]].append(row)
    for path, row in questions:
        digits = re.search(r"\d+", str(row.get("video_id", "")))
        place_in_repository = (f"video{digits[0]}" if digits else "", str(row.get("question")).strip())
        group = groups[_key(row, shared) if shared else place_in_repository]
        pool, group[:POOL_SIZE] = group[:POOL_SIZE], []  # without the question's text, two share a key
        pool.sort(key=lambda pair: place(pair)[2])
        targets = [_target(pair) for pair in pool]
        entry = {
            "category": row.get("question_category"),
            "question": row.get("question"),
            "answer": [row.get(name) for name in _ANSWERS],
            "true_statement": [pair.get(f"answer{1 + target}") for pair, target in zip(pool, targets, strict=True)],
            "false_statement": [pair.get(f"answer{2 - target}") for pair, target in zip(pool, targets, strict=True)],
        }
        yield path, place_in_repository[0], entry, "".join("AB"[target] for target in targets)


def _statements(pair: Mapping[str, Any]) -> tuple[str, str]:
    """Return the true and the false statement of a pair."""
    target = _target(pair)
    return str(pair.get(f"answer{1 + target}")).strip(), str(pair.get(f"answer{2 - target}")).strip()


def _key(row: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in names)


def _target(pair: Mapping[str, Any]) -> int:
    return 1 if str(pair.get("target")) in ("1", "1.0", "B") else 0


def _rows(source: Source, path: str) -> Iterator[dict[str, Any]]:
    where = f"{source.uri}/{path}"
    if path.endswith(".parquet"):
        file = open_parquet(source.read_bytes(path), where)
        columns = file.schema_arrow.names
        yield from parquet_rows(file, columns, rows=1000, max_bytes=MAX_TEXT_BYTES, where=where)
        return
    rows = read_json(source, path, lines=path.endswith("l"))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{where}: a list of rows was expected; fetch the file again")
    yield from rows
