"""VAGUE as distributed: the hub's Parquet file with the pictures in it, or two JSON arrays beside folders of pictures.

Both hold the same rows of version 2.0. The words of all rows are read first, for what is asked of the data as a whole
(which items are the best rated, whether pictures carry tags); pictures are read after, one at a time.
"""

from __future__ import annotations

import io
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from pipelines.benchmarks.parquet_source import MOST_PICTURES, MOST_WORDS, batches
from pipelines.benchmarks.records import MediaFile, Rejection
from pipelines.benchmarks.source import Source
from pipelines.benchmarks.vague.person_tags import Box
from pipelines.benchmarks.validation import format_validation_error
from pipelines.errors import SourceError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

SUBSETS: Final[Mapping[str, int]] = {"VCR": 1144, "Ego4D": 533}
"""Subsets and their sizes as published."""
_FOLDERS: Final = {"VCR": "annotated_images", "Ego4D": "ego4d_final_annotated"}
_OLD_READINGS: Final = ("2_incorrect_fake_scene", "3_incorrect_surface_understanding", "4_incorrect_entity")
_ROWS_AT_ONCE: Final = 16  # pictures in memory beside the file itself
_IMAGE: Final = "image"

_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Foreign(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Choices(_Foreign):
    correct: _Words = Field(alias="1_correct")
    fs: _Words = Field(alias="2_fake_scene")
    su: _Words = Field(alias="3_surface_understanding")
    ne: _Words = Field(alias="4_wrong_entity")
    ordering: list[str]

    @field_validator("ordering")
    @classmethod
    def _all_four(cls, letters: list[str]) -> list[str]:
        if sorted(letters) != ["A", "B", "C", "D"]:
            raise ValueError(f"must be A, B, C and D in some order, not {letters}")
        return letters


class _Size(_Foreign):
    width: Annotated[float, Field(gt=0)]
    height: Annotated[float, Field(gt=0)]


class _Rating(_Foreign):
    direct: float | None = None
    indirect: float | None = None


class _Meta(_Foreign):
    ram_entity: list[str] | None = None
    person_bbox: list[Annotated[list[float], Field(min_length=4, max_length=4)]] | None = None
    img_size: _Size | None = None
    rating: _Rating | None = None


class _Row(_Foreign):
    image_name: _Words
    direct: str | None = None
    indirect: _Words
    solution: str | None = None
    mcq: _Choices
    meta: _Meta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """The words of one valid row, before its picture is read."""

    place: int
    """Row of its file, from 0."""
    name: str
    subset: str
    data: Mapping[str, Any]
    boxes: tuple[Box, ...]
    size: tuple[float, float] | None
    """Width and height of the picture that the boxes are measured in."""
    rating: float
    """Mean of the two human ratings; 0 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of rows, its words read."""

    source: Source
    path: str
    items: tuple[Item, ...]
    rejections: tuple[Rejection, ...]
    content: bytes | None = None
    """The Parquet file itself; None where pictures are files of their own."""

    def pictures(self, wanted: Sequence[Item]) -> Iterator[tuple[Item, MediaFile]]:
        """The pictures of some of the items, in their order in the file; with empty content where a row has none."""
        if self.content is None:
            yield from ((item, self._beside(item)) for item in wanted)
            return
        by_place = {item.place: item for item in wanted}
        for place, row in _parquet_rows(_opened(self.content, self._where), [_IMAGE], self._where):
            if place in by_place:
                item = by_place[place]
                found = _embedded(row[_IMAGE])
                yield item, MediaFile(role="picture", kind="image", path=_name(item, found), content=found)

    @property
    def _where(self) -> str:
        return f"{self.source.uri}/{self.path}"

    def _beside(self, item: Item) -> MediaFile:
        path = posixpath.join(posixpath.dirname(self.path), _FOLDERS[item.subset], f"{item.name}_annot.jpg")
        return MediaFile(role="picture", kind="image", path=path)

    def bytes_of(self, picture: MediaFile) -> bytes | None:
        """The picture's file; None where there is none.

        Raises:
            SourceError: it is too large.
        """
        if picture.content is not None:
            return picture.content or None
        try:
            return self.source.read_bytes(picture.path)
        except FileNotFoundError:
            return None


def files_of(source: Source) -> list[File]:
    """Read the words of all rows.

    Raises:
        SourceError: there is no data of VAGUE 2.0 here.
    """
    parquet = next((found for found in map(source.glob, ("data/*.parquet", "*.parquet")) if found), [])
    if parquet:
        return [_parquet_file(source, path) for path in parquet]
    found = [file for path in source.glob("*.json") if (file := _json_file(source, path))]
    if not found:
        looked = "data/*.parquet, vcr_1144_final.json and ego4d_533_final.json"
        raise SourceError(f"{source.uri}: no data of VAGUE here; looked for {looked}")
    return found


def _checked(source: Source, path: str, rows: Iterator[tuple[int, Any]], content: bytes | None = None) -> File:
    """All rows of a file, valid ones as items."""
    items, rejections = list[Item](), list[Rejection]()
    subset = "" if content is not None else _subset_of_file(path)
    for place, row in rows:
        name = row.get("image_name") if isinstance(row, dict) else None
        label = name if isinstance(name, str) and name.strip() else f"row {place + 1}"
        mcq = row.get("mcq") if isinstance(row, dict) else None
        _refuse_version_1(f"{source.uri}/{path}", mcq if isinstance(mcq, dict) else ())
        try:
            items.append(_item(place, _Row.model_validate(row), subset, plain=content is None))
        except ValidationError as error:
            rejections.append(Rejection(file=path, item=label, reason=format_validation_error(error)))
        except ValueError as error:
            rejections.append(Rejection(file=path, item=label, reason=str(error)))
    return File(source=source, path=path, items=tuple(items), rejections=tuple(rejections), content=content)


def _refuse_version_1(where: str, readings: Sequence[str] | Mapping[str, Any]) -> None:
    old = [name for name in _OLD_READINGS if name in readings]
    if old:
        raise SourceError(
            f"{where}: this is VAGUE 1.0 (it has `mcq.{old[0]}`), which is another set of items; "
            "fetch version 2.0, of March 2025 or later, with 1,677 items"
        )


def _item(place: int, row: _Row, subset: str, *, plain: bool) -> Item:
    if plain and ("\\" in row.image_name or ".." in row.image_name.split("/") or row.image_name.startswith("/")):
        raise ValueError(f"image_name {row.image_name!r} is no file name")
    meta = row.meta or _Meta()
    rating = meta.rating or _Rating()
    rated = [value for value in (rating.direct, rating.indirect) if value is not None]
    boxes = tuple((a, b, c, d) for a, b, c, d in meta.person_bbox or ())
    direct = (row.direct or "").strip()
    return Item(
        place=place,
        name=row.image_name,
        subset=subset or ("VCR" if "@" in row.image_name else "Ego4D"),
        data={
            "direct": direct,
            "indirect": row.indirect,
            "solution": (row.solution or "").strip(),
            "readings": {name: getattr(row.mcq, name) for name in ("correct", "fs", "su", "ne")},
            "ordering": row.mcq.ordering,
            "rating": {"direct": rating.direct, "indirect": rating.indirect},
            "object_tags": None if meta.ram_entity is None else len(meta.ram_entity),
            "people": None if meta.person_bbox is None else len(boxes),
        },
        boxes=boxes,
        size=(meta.img_size.width, meta.img_size.height) if meta.img_size else None,
        rating=sum(rated) / len(rated) if rated else 0.0,
    )


def _subset_of_file(path: str) -> Literal["VCR", "Ego4D", ""]:
    """As the file's name says; '' where it says nothing and the items' names must."""
    name = posixpath.basename(path).lower()
    if name.startswith("vcr"):
        return "VCR"
    return "Ego4D" if name.startswith("ego4d") else ""


def _json_file(source: Source, path: str) -> File | None:
    """One array of rows; None for a JSON file that is none and whose name promises none."""
    try:
        rows = json.loads(source.read_bytes(path).decode("utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{source.uri}/{path}: not readable as JSON ({error}); fetch the file again") from error
    if isinstance(rows, list) and (
        _subset_of_file(path) or any(isinstance(row, dict) and "mcq" in row for row in rows)
    ):
        return _checked(source, path, enumerate(rows))
    if _subset_of_file(path):
        raise SourceError(f"{source.uri}/{path}: an array of items was expected, this is {type(rows).__name__}")
    return None


def _parquet_file(source: Source, path: str) -> File:
    where = f"{source.uri}/{path}"
    content = source.read_bytes(path)
    parquet = _opened(content, where)
    schema = parquet.schema_arrow
    lacking = [name for name in (_IMAGE, "image_name", "indirect", "mcq") if name not in schema.names]
    if lacking:
        raise SourceError(f"{where}: no column {', '.join(lacking)}; there are {', '.join(schema.names)}")
    readings = schema.field("mcq").type
    _refuse_version_1(where, [readings.field(i).name for i in range(readings.num_fields)])
    wanted = [name for name in _Row.model_fields if name in schema.names]
    return _checked(source, path, _parquet_rows(parquet, wanted, where), content)


def _opened(content: bytes, where: str) -> ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(io.BytesIO(content))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{where}: not readable as Parquet ({str(error)[:200]}); fetch the file again") from error


def _parquet_rows(parquet: ParquetFile, columns: list[str], where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa

    place, most = 0, MOST_PICTURES if _IMAGE in columns else MOST_WORDS
    try:
        for batch in batches(parquet, columns, rows=_ROWS_AT_ONCE, most=most, where=where):
            for row in batch.to_pylist():
                yield place, row
                place += 1
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{where}: damaged at row {place + 1} ({str(error)[:200]}); fetch the file again") from error


def _embedded(cell: Any) -> bytes:
    """The bytes of an image cell; none where it is empty."""
    found = cell.get("bytes") if isinstance(cell, dict) else cell
    return found if isinstance(found, bytes) else b""


def _name(item: Item, content: bytes) -> str:
    jpeg = content.startswith(b"\xff\xd8")
    return f"{item.name}.{'jpg' if jpeg else 'png'}"
