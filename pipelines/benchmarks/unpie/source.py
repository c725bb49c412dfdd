"""Read UNPIE: every pun with its translations and pictures, what cannot be used, and what looks odd.

A pun whose picture cannot be had stays: what needs that picture is left out later, and the coverage of each split is
told here.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipelines.benchmarks.records import MediaFile, Notice, RawSample, Rejection
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.text_cleaning import canonical, collapsed, normalize_words
from pipelines.benchmarks.unpie.column_map import LANGUAGES, Columns
from pipelines.benchmarks.unpie.download import PictureError
from pipelines.benchmarks.unpie.files import SPLITS, DataFile, data_files, open_file
from pipelines.benchmarks.unpie.pictures import Pictures
from pipelines.errors import SourceError

EXPLANATION: Final = "explanation"
"""Role of the picture that shows both meanings."""
SPLIT_ROWS: Final = 500
_TOGETHER: Final = 32
"""Rows whose pictures are fetched at once."""
_NAMED: Final = 5
_SPLIT_OF: Final = {name.lower(): split for split, kind in SPLITS.items() for name in (split, kind)}
_HANGUL: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff]")
_NEEDED: Final[Mapping[str, str]] = {
    "phrase": "grounding",
    "exp_image": "grounding and reconstruction with a picture or a caption",
    "disamb_image[0]": "disambiguation",
    "disamb_image[1]": "disambiguation",
    **{f"translation[{i}].{lang}": "disambiguation, reconstruction" for i in range(2) for lang in LANGUAGES},
}


def disambiguator(meaning: int) -> str:
    """Role of the picture that shows one meaning, 0 or 1."""
    return f"disambiguator/{meaning}"


def read_unpie(
    source: Source, column_map: Mapping[str, str] | None = None, pictures: Pictures | None = None
) -> Iterator[RawSample | Rejection | Notice]:
    """Read the data set row by row.

    Args:
        source: the folder.
        column_map: our name of a field -> the source's path; see `unpie_columns`.
        pictures: finds the pictures; None makes the usual one.

    Raises:
        SourceError: there is no data, a file cannot be read, or the map names what is not there.
    """
    try:
        columns = Columns.of(column_map)
    except ValueError as error:
        raise SourceError(str(error)) from error
    reader = _Reader(source, columns, pictures or Pictures(source))
    for file in data_files(source):
        yield from reader.file(file)
    yield from reader.oddities()


@dataclass(slots=True)
class _Pun:
    """A good row before its pictures."""

    sample: RawSample
    split: str
    given: dict[str, Any]
    """What the row says of each picture, by role; pictures without a column are left out."""


@dataclass(slots=True)
class _Count:
    """What a split has of its pictures."""

    puns: int = 0
    wanted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Reader:
    source: Source
    columns: Columns
    pictures: Pictures
    _rows: Counter[str] = field(default_factory=Counter)
    _counts: dict[str, _Count] = field(default_factory=dict)
    _odd: dict[str, list[str]] = field(default_factory=dict)
    _seen: dict[str, str] = field(default_factory=dict)
    """Picture hash -> the sample that has it."""
    _told: set[str] = field(default_factory=set)

    def file(self, file: DataFile) -> Iterator[RawSample | Rejection | Notice]:
        """All rows of one file."""
        opened = open_file(self.source, file.path)
        try:
            absent = self.columns.check(opened.shape, file.path)
        except ValueError as error:
            raise SourceError(f"{self.source.uri}: {error}") from error
        for name in ("sentence", "category"):
            if name in absent and not (name == "category" and file.split):
                shape = opened.shape
                raise SourceError(
                    f"{self.source.uri}: {self.columns.unknown(name, shape, file.path)}; see --column-map"
                )
        yield from self._without(absent, file.path)
        numbered = enumerate(opened.rows, start=1)
        while together := list(itertools.islice(numbered, _TOGETHER)):
            read = [self._read(row, number, file, absent) for number, row in together]
            self.pictures.prefetch(value for one in read if isinstance(one, _Pun) for value in one.given.values())
            for one in read:
                yield self._with_pictures(one) if isinstance(one, _Pun) else one

    def _without(self, absent: frozenset[str], path: str) -> Iterator[Notice]:
        for name, tasks in _NEEDED.items():
            if name in absent and f"{path}:{name}" not in self._told:
                self._told.add(f"{path}:{name}")
                yield Notice(f"{path}: no column {self.columns.paths[name]!r} ({name}), so not asked: {tasks}")

    def _read(self, row: Any, number: int, file: DataFile, absent: frozenset[str]) -> _Pun | Rejection:
        split = file.split or (isinstance(row, Mapping) and self._split_of(row)) or ""
        index = self._rows[split]
        self._rows[split] += 1
        item = f"{split}/{index:04d}" if split else f"row {number} of the file"
        try:
            return self._pun(_checked(row, split), split, item, file.path, absent)
        except _BadRowError as error:
            return Rejection(file=file.path, item=item, reason=str(error))

    def _split_of(self, row: Mapping[str, Any]) -> str:
        return _SPLIT_OF.get(str(self.columns.get(row, "category")).strip().lower(), "")

    def _pun(self, row: Mapping[str, Any], split: str, item: str, path: str, absent: frozenset[str]) -> _Pun:
        sentence, phrase = self._text(row, "sentence"), self._text(row, "phrase")
        if not sentence or not (phrase or "phrase" in absent):
            raise _BadRowError(f"the {'phrase' if sentence else 'sentence'} is empty")
        pairs = [{lang: self._text(row, f"translation[{i}].{lang}") for lang in LANGUAGES} for i in range(2)]
        translated = any(f"translation[{i}].{lang}" not in absent for i in range(2) for lang in LANGUAGES)
        if translated and not any(text for pair in pairs for text in pair.values()):
            raise _BadRowError("both translations of all languages are empty")
        name = self.columns.get(row, "sample_id")
        sample_id = item if name is None or not str(name).strip() else str(name).strip()
        self._look_at_words(sample_id, sentence, phrase, pairs)
        frequent = _frequent(self.columns.get(row, "freq_rank"))
        if frequent is None and "freq_rank" not in absent:
            self._note("freq_rank tells no more frequent meaning (a place 0 or 1, or two ranks)", sample_id)
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
        given = {role: self.columns.get(row, name) for role, name in fields.items() if name not in absent}
        sample = RawSample(sample_id=sample_id, file=path, category=SPLITS[split], data=data)
        return _Pun(sample, split, given)

    def _text(self, row: Mapping[str, Any], name: str) -> str:
        value = self.columns.get(row, name)
        if value is not None and not isinstance(value, str):
            raise _BadRowError(f"`{self.columns.paths[name]}` must be text, not {type(value).__name__}")
        if any("\ud800" <= sign <= "\udfff" for sign in value or ""):
            raise _BadRowError(f"`{self.columns.paths[name]}` holds half a character (a lone surrogate)")
        return collapsed(value or "")

    def _look_at_words(self, name: str, sentence: str, phrase: str, pairs: list[dict[str, str]]) -> None:
        if phrase and canonical(phrase).casefold() not in canonical(sentence).casefold():
            self._note("the phrase does not occur in its sentence", name)
        for lang, language in LANGUAGES.items():
            first, second = pairs[0][lang], pairs[1][lang]
            if first and second and normalize_words(canonical(first)) == normalize_words(canonical(second)):
                self._note(f"degenerate_pair: both {language} translations are equal, always a tie", name)
        if any(pair["ko"] and not _HANGUL.search(pair["ko"]) for pair in pairs):
            self._note("a Korean translation without Hangul", name)

    def _with_pictures(self, pun: _Pun) -> RawSample:
        """The sample with the pictures that can be had."""
        sample, media = pun.sample, list[MediaFile]()
        count = self._counts.setdefault(pun.split, _Count())
        count.puns += 1
        for role, value in pun.given.items():
            kind = role.partition("/")[0]
            count.wanted[kind] += 1
            try:
                picture = self.pictures.get(value)
            except PictureError as error:
                count.reasons[str(error)] += 1
                continue
            count.found[kind] += 1
            digest = hashlib.sha256(picture.content).hexdigest()
            if self._seen.setdefault(digest, sample.sample_id) != sample.sample_id:
                self._note("a picture that another pun has, too", sample.sample_id)
            path = f"{sample.sample_id}/{role}{picture.extension}"
            media.append(MediaFile(role=role, kind="image", path=path, content=picture.content))
        return replace(sample, media=tuple(media))

    def _note(self, what: str, name: str) -> None:
        self._odd.setdefault(what, []).append(name)

    def oddities(self) -> Iterator[Notice]:
        """What the whole looks like: rows and coverage of each split, then what is odd about single puns."""
        for split in SPLITS:
            rows = self._rows[split]
            if rows != SPLIT_ROWS:
                yield Notice(f"{split}: {rows:,} rows, {SPLIT_ROWS} are published")
            if split in self._counts:
                yield Notice(_coverage(split, self._counts[split]))
        for what, names in self._odd.items():
            yield Notice(f"{what}: {len(names):,} ({_listed(names)})")


class _BadRowError(ValueError):
    """Why a row cannot be used."""


def _checked(row: Mapping[str, Any] | str, split: str) -> Mapping[str, Any]:
    if isinstance(row, str):
        raise _BadRowError(row)
    if not split:
        raise _BadRowError("`category` must be Homo or Hetero")
    return row


def _coverage(split: str, count: _Count) -> str:
    """Which share of the pictures is there, and why others are not."""
    parts = [
        f"{count.found[kind]:,} of {wanted:,} {kind} pictures ({100 * count.found[kind] / wanted:.1f}%)"
        for kind, wanted in count.wanted.items()
    ]
    words = f"{split}: picture coverage: {', '.join(parts) or 'no picture columns'}"
    if count.reasons:
        why = ", ".join(f"{reason} ({times:,})" for reason, times in count.reasons.most_common(_NAMED))
        words += f"; what needs the others is excluded as image_missing: {why}"
    return words


def _listed(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    return ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else "")


def _frequent(value: Any) -> int | None:
    """Which meaning is the more common: given as its place, or as the ranks of both, of which the lower is so."""
    if isinstance(value, str) and value.strip() in ("0", "1"):
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (0, 1):
        return int(value)
    ranks = value if isinstance(value, list) and len(value) == 2 else []
    if all(isinstance(rank, int | float) for rank in ranks) and ranks and ranks[0] != ranks[1]:
        return int(ranks[1] < ranks[0])
    return None
