"""Read VAGUE as distributed: the hub's Parquet file with embedded pictures, or two JSON arrays and picture folders.

Both hold the same rows of version 2.0. All texts are read before the pictures, as some facts concern the whole data
set.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from pipelines.benchmarks.parquet_source import (
    MAX_PICTURE_BYTES,
    MAX_TEXT_BYTES,
    open_parquet,
    parquet_rows,
    picture_bytes,
)
from pipelines.benchmarks.records import MediaFile, Rejection, Source
from pipelines.benchmarks.vague.person_tags import Box
from pipelines.benchmarks.validation import read_json, reason_of
from pipelines.errors import SourceError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

_FOLDERS: Final = {"VCR": "annotated_images", "Ego4D": "ego4d_final_annotated"}
_VERSION_1_FIELDS: Final = ("2_incorrect_fake_scene", "3_incorrect_surface_understanding", "4_incorrect_entity")
_BATCH_ROWS: Final = 16  # pictures in memory in addition to the file itself
_IMAGE: Final = "image"
_JPEG_MAGIC: Final = b"\xff\xd8"

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Foreign(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Choices(_Foreign):
    correct: _Text = Field(alias="1_correct")
    fs: _Text = Field(alias="2_fake_scene")
    su: _Text = Field(alias="3_surface_understanding")
    ne: _Text = Field(alias="4_wrong_entity")
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
    image_name: _Text
    direct: str | None = None
    indirect: _Text
    solution: str | None = None
    mcq: _Choices
    meta: _Meta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """The texts of one valid row, before its picture is read."""

    index: int  # row of its file, from 0
    name: str
    subset: str
    data: Mapping[str, Any]
    boxes: tuple[Box, ...]
    size: tuple[float, float] | None  # width and height of the picture that the boxes are measured in
    rating: float  # mean of the two human ratings; 0 if unrated


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of rows with their texts."""

    source: Source
    path: str
    items: tuple[SourceItem, ...]
    rejections: tuple[Rejection, ...]
    content: bytes | None = None  # the Parquet file; None where pictures are separate files

    def pictures(self, selected: Sequence[SourceItem]) -> Iterator[tuple[SourceItem, MediaFile]]:
        """Yield pictures of selected items in file order; the content is empty where a row has no picture."""
        if self.content is None:
            folder = posixpath.dirname(self.path)
            for chosen in selected:
                path = posixpath.join(folder, _FOLDERS[chosen.subset], f"{chosen.name}_annot.jpg")
                yield chosen, MediaFile(role="picture", kind="image", path=path)
            return
        by_index = {item.index: item for item in selected}
        uri = f"{self.source.uri}/{self.path}"
        for index, row in _parquet_rows(open_parquet(self.content, uri), [_IMAGE], uri):
            if item := by_index.get(index):
                content = picture_bytes(row[_IMAGE])
                path = f"{item.name}.{'jpg' if content.startswith(_JPEG_MAGIC) else 'png'}"
                yield item, MediaFile(role="picture", kind="image", path=path, content=content)

    def bytes_of(self, picture: MediaFile) -> bytes | None:
        """Return the encoded picture, or None without one; SourceError if the file is too large."""
        if picture.content is not None:
            return picture.content or None
        try:
            return self.source.read_bytes(picture.path)
        except FileNotFoundError:
            return None


def read_files(source: Source) -> list[SourceFile]:
    """Read the texts of all rows; SourceError if the folder holds no data of VAGUE 2.0."""
    parquet = source.glob("data/*.parquet") or source.glob("*.parquet")
    if parquet:
        return [_parquet_file(source, path) for path in parquet]
    if files := [file for path in source.glob("*.json") if (file := _json_file(source, path))]:
        return files
    expected = "data/*.parquet, vcr_1144_final.json and ego4d_533_final.json"
    raise SourceError(f"{source.uri}: no data of VAGUE found; looked for {expected}")


def _validate_rows(
    source: Source, path: str, rows: Iterator[tuple[int, Any]], content: bytes | None = None
) -> SourceFile:
    items, rejections = list[SourceItem](), list[Rejection]()
    subset = "" if content is not None else _subset_of_file(path)
    for index, row in rows:
        name = row.get("image_name") if isinstance(row, dict) else None
        label = name if isinstance(name, str) and name.strip() else f"row {index + 1}"
        mcq = row.get("mcq") if isinstance(row, dict) else None
        _reject_version_1(f"{source.uri}/{path}", mcq if isinstance(mcq, dict) else ())
        try:
            items.append(_item(index, _Row.model_validate(row), subset, plain=content is None))
        except ValueError as error:
            rejections.append(Rejection(file=path, item=label, reason=reason_of(error)))
    return SourceFile(source=source, path=path, items=tuple(items), rejections=tuple(rejections), content=content)


def _reject_version_1(uri: str, readings: Sequence[str] | Mapping[str, Any]) -> None:
    version_1 = [name for name in _VERSION_1_FIELDS if name in readings]
    if version_1:
        raise SourceError(
            f"{uri}: this is VAGUE 1.0 (it has `mcq.{version_1[0]}`), which is another set of items; "
            "fetch version 2.0, of March 2025 or later, with 1,677 items"
        )


def _item(index: int, row: _Row, subset: str, *, plain: bool) -> SourceItem:
    if plain and ("\\" in row.image_name or ".." in row.image_name.split("/") or row.image_name.startswith("/")):
        raise ValueError(f"image_name {row.image_name!r} is not a file name")
    meta = row.meta or _Meta()
    rating = meta.rating or _Rating()
    ratings = [value for value in (rating.direct, rating.indirect) if value is not None]
    boxes = tuple((a, b, c, d) for a, b, c, d in meta.person_bbox or ())
    direct = (row.direct or "").strip()
    return SourceItem(
        index=index,
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
        rating=sum(ratings) / len(ratings) if ratings else 0.0,
    )


def _subset_of_file(path: str) -> Literal["VCR", "Ego4D", ""]:
    """Return the subset that the file name states, or '' where the item names decide."""
    name = posixpath.basename(path).lower()
    if name.startswith("vcr"):
        return "VCR"
    return "Ego4D" if name.startswith("ego4d") else ""


def _json_file(source: Source, path: str) -> SourceFile | None:
    """Read an array of rows; None for a JSON file of something else, unless its name states a subset."""
    rows, is_named = read_json(source, path), bool(_subset_of_file(path))
    if isinstance(rows, list):
        has_items = is_named or any(isinstance(row, dict) and "mcq" in row for row in rows)
        return _validate_rows(source, path, enumerate(rows)) if has_items else None
    if is_named:
        raise SourceError(f"{source.uri}/{path}: expected an array of items, found {type(rows).__name__}")
    return None


def _parquet_file(source: Source, path: str) -> SourceFile:
    uri = f"{source.uri}/{path}"
    content = source.read_bytes(path)
    parquet = open_parquet(content, uri, (_IMAGE, "image_name", "indirect", "mcq"))
    schema = parquet.schema_arrow
    readings = schema.field("mcq").type
    _reject_version_1(uri, [readings.field(i).name for i in range(readings.num_fields)])
    columns = [name for name in _Row.model_fields if name in schema.names]
    return _validate_rows(source, path, _parquet_rows(parquet, columns, uri), content)


def _parquet_rows(parquet: "ParquetFile", columns: list[str], uri: str) -> Iterator[tuple[int, dict[str, Any]]]:
    max_bytes = MAX_PICTURE_BYTES if _IMAGE in columns else MAX_TEXT_BYTES
    return enumerate(parquet_rows(parquet, columns, rows=_BATCH_ROWS, max_bytes=max_bytes, where=uri))
