"""Read UNPIE: every pun with its translations and pictures, rejected rows, and warnings of suspicious data.

A pun with an unavailable picture is kept, and the requests that need the picture are excluded later.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipelines.benchmarks.records import MediaFile, RawSample, Rejection, Source, SourceWarning
from pipelines.benchmarks.text_cleaning import canonical, collapsed, normalize_words
from pipelines.benchmarks.unpie.download import PictureError
from pipelines.benchmarks.unpie.files import LANGUAGES, SPLITS, Columns, DataFile, data_files, open_file
from pipelines.benchmarks.unpie.pictures import PictureLoader
from pipelines.benchmarks.validation import MAX_NAMED, first_names
from pipelines.errors import SourceError

EXPLANATION: Final = "explanation"  # role of the picture that shows both meanings
SPLIT_ROWS: Final = 500
_BATCH_ROWS: Final = 32  # rows whose pictures are downloaded concurrently
_SPLIT_BY_NAME: Final = {name.lower(): split for split, kind in SPLITS.items() for name in (split, kind)}
_HANGUL: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff]")
_TASKS_BY_FIELD: Final[Mapping[str, str]] = {
    "phrase": "grounding",
    "exp_image": "grounding and reconstruction with a picture or a caption",
    "disamb_image[0]": "disambiguation",
    "disamb_image[1]": "disambiguation",
    **{f"translation[{i}].{lang}": "disambiguation, reconstruction" for i in range(2) for lang in LANGUAGES},
}


def disambiguator(meaning: int) -> str:
    """Return the role of the picture that shows one meaning, 0 or 1."""
    return f"disambiguator/{meaning}"


def read_unpie(
    source: Source, column_map: Mapping[str, str] | None = None, pictures: PictureLoader | None = None
) -> Iterator[RawSample | Rejection | SourceWarning]:
    """Read the data set row by row; `column_map` is field -> path in the source.

    Raises:
        SourceError: there is no data, a file cannot be read, or the map names an absent column.
    """
    try:
        columns = Columns.from_map(column_map)
    except ValueError as error:
        raise SourceError(str(error)) from error
    reader = _Reader(source, columns, pictures or PictureLoader(source))
    for file in data_files(source):
        yield from reader.read_file(file)
    yield from reader.summary()


@dataclass(slots=True)
class _Pun:
    sample: RawSample
    split: str
    picture_values: dict[str, Any]  # the row's value of each picture column, by role


@dataclass(slots=True)
class _PictureCounts:
    """Pictures of one split by kind, and reasons of those that are unavailable."""

    total: Counter[str] = field(default_factory=Counter)
    loaded: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Reader:
    source: Source
    columns: Columns
    pictures: PictureLoader
    _rows: Counter[str] = field(default_factory=Counter)
    _counts: dict[str, _PictureCounts] = field(default_factory=dict)
    _suspicions: dict[str, list[str]] = field(default_factory=dict)  # suspicion -> sample ids
    _sample_by_picture: dict[str, str] = field(default_factory=dict)

    def read_file(self, file: DataFile) -> Iterator[RawSample | Rejection | SourceWarning]:
        opened = open_file(self.source, file.path)
        try:
            absent = self.columns.check(opened.shape, file.path)
        except ValueError as error:
            raise SourceError(f"{self.source.uri}: {error}") from error
        for name in ("sentence", "category"):
            if name in absent and not (name == "category" and file.split):
                missing = self.columns.describe_missing(name, opened.shape, file.path)
                raise SourceError(f"{self.source.uri}: {missing}; see --column-map")
        for name, tasks in _TASKS_BY_FIELD.items():
            if name in absent:
                missing = f"{file.path}: no column {self.columns.paths[name]!r} ({name})"
                yield SourceWarning(f"{missing}; requests that need it are excluded: {tasks}")
        numbered = enumerate(opened.rows, start=1)
        while batch := list(itertools.islice(numbered, _BATCH_ROWS)):
            items = [self._read_row(row, number, file, absent) for number, row in batch]
            puns = [item for item in items if isinstance(item, _Pun)]
            self.pictures.prefetch(value for pun in puns for value in pun.picture_values.values())
            for item in items:
                yield self._with_pictures(item) if isinstance(item, _Pun) else item

    def _read_row(self, row: Any, number: int, file: DataFile, absent: frozenset[str]) -> _Pun | Rejection:
        category = str(self.columns.get(row, "category")) if isinstance(row, Mapping) else ""
        split = file.split or _SPLIT_BY_NAME.get(category.strip().lower(), "")
        index = self._rows[split]
        self._rows[split] += 1
        item = f"{split}/{index:04d}" if split else f"row {number} of the file"
        try:
            return self._pun(row, split, item, file.path, absent)
        except _BadRowError as error:
            return Rejection(file=file.path, item=item, reason=str(error))

    def _pun(self, row: Mapping[str, Any] | str, split: str, item: str, path: str, absent: frozenset[str]) -> _Pun:
        if isinstance(row, str) or not split:
            raise _BadRowError(row if isinstance(row, str) else "`category` must be Homo or Hetero")
        sentence, phrase = self._text(row, "sentence"), self._text(row, "phrase")
        if not sentence or not (phrase or "phrase" in absent):
            raise _BadRowError(f"the {'phrase' if sentence else 'sentence'} is empty")
        pairs = [{lang: self._text(row, f"translation[{i}].{lang}") for lang in LANGUAGES} for i in range(2)]
        translated = any(f"translation[{i}].{lang}" not in absent for i in range(2) for lang in LANGUAGES)
        if translated and not any(text for pair in pairs for text in pair.values()):
            raise _BadRowError("both translations of all languages are empty")
        name = self.columns.get(row, "sample_id")
        sample_id = item if name is None or not str(name).strip() else str(name).strip()
        self._check_words(sample_id, sentence, phrase, pairs)
        frequent = _frequent_meaning(self.columns.get(row, "freq_rank"))
        if frequent is None and "freq_rank" not in absent:
            self._suspect("freq_rank tells no more frequent meaning (a place 0 or 1, or two ranks)", sample_id)
        data = {
            "sentence": sentence,
            "phrase": phrase,
            "alt_sentence": self._text(row, "alt_sentence"),
            "alt_phrase": self._text(row, "alt_phrase"),
            "gloss": [self._text(row, f"gloss[{i}]") for i in range(2)],
            "translation": pairs,
            "frequent": frequent,
            "content_sha": hashlib.sha256(sentence.encode()).hexdigest(),
        }
        fields = {EXPLANATION: "exp_image", **{disambiguator(i): f"disamb_image[{i}]" for i in range(2)}}
        picture_values = {role: self.columns.get(row, name) for role, name in fields.items() if name not in absent}
        sample = RawSample(sample_id=sample_id, file=path, category=SPLITS[split], data=data)
        return _Pun(sample, split, picture_values)

    def _text(self, row: Mapping[str, Any], name: str) -> str:
        value = self.columns.get(row, name)
        if value is not None and not isinstance(value, str):
            raise _BadRowError(f"`{self.columns.paths[name]}` must be text, not {type(value).__name__}")
        if any("\ud800" <= char <= "\udfff" for char in value or ""):
            raise _BadRowError(f"`{self.columns.paths[name]}` holds half a character (a lone surrogate)")
        return collapsed(value or "")

    def _check_words(self, sample_id: str, sentence: str, phrase: str, pairs: list[dict[str, str]]) -> None:
        if phrase and canonical(phrase).casefold() not in canonical(sentence).casefold():
            self._suspect("the phrase does not occur in its sentence", sample_id)
        for lang, language in LANGUAGES.items():
            first, second = pairs[0][lang], pairs[1][lang]
            if first and second and normalize_words(canonical(first)) == normalize_words(canonical(second)):
                self._suspect(f"degenerate_pair: both {language} translations are equal, always a tie", sample_id)
        if any(pair["ko"] and not _HANGUL.search(pair["ko"]) for pair in pairs):
            self._suspect("a Korean translation without Hangul", sample_id)

    def _with_pictures(self, pun: _Pun) -> RawSample:
        """Return the sample with its available pictures."""
        sample, media = pun.sample, list[MediaFile]()
        count = self._counts.setdefault(pun.split, _PictureCounts())
        for role, value in pun.picture_values.items():
            kind = role.partition("/")[0]
            count.total[kind] += 1
            try:
                picture = self.pictures.get(value)
            except PictureError as error:
                count.reasons[str(error)] += 1
                continue
            count.loaded[kind] += 1
            digest = hashlib.sha256(picture.content).hexdigest()
            if self._sample_by_picture.setdefault(digest, sample.sample_id) != sample.sample_id:
                self._suspect("a picture that another pun has, too", sample.sample_id)
            path = f"{sample.sample_id}/{role}{picture.extension}"
            media.append(MediaFile(role=role, kind="image", path=path, content=picture.content))
        return replace(sample, media=tuple(media))

    def _suspect(self, suspicion: str, sample_id: str) -> None:
        self._suspicions.setdefault(suspicion, []).append(sample_id)

    def summary(self) -> Iterator[SourceWarning]:
        """Yield rows and picture coverage of each split, then suspicions about single puns."""
        for split in SPLITS:
            rows = self._rows[split]
            if rows != SPLIT_ROWS:
                yield SourceWarning(f"{split}: {rows:,} rows, {SPLIT_ROWS} are published")
            if split in self._counts:
                yield SourceWarning(_coverage(split, self._counts[split]))
        for suspicion, sample_ids in self._suspicions.items():
            yield SourceWarning(f"{suspicion}: {len(sample_ids):,} ({first_names(list(dict.fromkeys(sample_ids)))})")


class _BadRowError(ValueError):
    """A row cannot be used. Says why."""


def _coverage(split: str, count: _PictureCounts) -> str:
    parts = [
        f"{count.loaded[kind]:,} of {total:,} {kind} pictures ({100 * count.loaded[kind] / total:.1f}%)"
        for kind, total in count.total.items()
    ]
    message = f"{split}: picture coverage: {', '.join(parts) or 'no picture columns'}"
    if count.reasons:
        reasons = ", ".join(f"{reason} ({times:,})" for reason, times in count.reasons.most_common(MAX_NAMED))
        message += f"; requests that need the others are excluded as image_missing: {reasons}"
    return message


def _frequent_meaning(value: Any) -> int | None:
    """Return the more frequent meaning, from its index or from the ranks of both, of which the lower is first."""
    if isinstance(value, str) and value.strip() in ("0", "1"):
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (0, 1):
        return int(value)
    ranks = value if isinstance(value, list) and len(value) == 2 else []
    if all(isinstance(rank, int | float) for rank in ranks) and ranks and ranks[0] != ranks[1]:
        return int(ranks[1] < ranks[0])
    return None
