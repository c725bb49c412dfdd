"""The columns file of a table benchmark (`--columns`): which columns are what, and what its definition says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from models.errors import suggest
from models.strict_yaml import read_text, read_yaml
from pipelines.benchmarks.known_tables import DEFAULT_TOLERANCE, KINDS
from pipelines.benchmarks.published import parse_published
from pipelines.benchmarks.records import PublishedValue
from pipelines.benchmarks.table.columns import MAPPED, SYNONYMS, may_have_several
from pipelines.benchmarks.table.kinds import DEFAULT
from pipelines.errors import SourceError

_MAX_TOKENS: Final = 32_768
_TEXTS: Final = ("kind", "prompt", "title", "citation", "headline", "published")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsFile:
    """What a columns file says; an empty one says nothing."""

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    max_new_tokens: int = 0
    tolerance: float = DEFAULT_TOLERANCE
    media_optional: bool = False
    reject_equal_options: bool = False
    ignore: tuple[str, ...] = ()  # columns that may hold media or options and are not taken
    published: tuple[PublishedValue, ...] = ()


def read_columns_file(path: Path) -> ColumnsFile:
    """Read a columns file; SourceError for an unknown key or a value of another type, YamlFileError for no YAML."""
    raw, _ = read_yaml(path, "columns file")
    if not isinstance(raw, dict):
        raise SourceError(f"{path}: not a mapping of names to columns")
    entries = {**raw.pop("columns", {}), **raw} if isinstance(raw.get("columns"), dict) else raw
    keys = (*MAPPED, *_TEXTS, "max_new_tokens", "tolerance", "media_optional", "reject_equal_options", "ignore")
    columns: dict[str, tuple[str, ...]] = {}
    for key, value in entries.items():
        if key not in keys:
            raise SourceError(f"{path}: unknown key {str(key)!r}{suggest(str(key), keys)}")
        if key in MAPPED:
            role = SYNONYMS.get(key, key)
            if role in columns:
                raise SourceError(f"{path}: {key} and another key both name the {role}; give one of them")
            columns[role] = _columns(path, key, role, value)
    texts = {key: _text(path, key, entries[key]) for key in _TEXTS if key in entries}
    if "kind" in texts and texts["kind"] not in KINDS:
        raise SourceError(f"{path}: unknown kind {texts['kind']!r}{suggest(texts['kind'], KINDS)}")
    return ColumnsFile(
        columns=columns,
        texts=texts,
        max_new_tokens=_tokens(path, entries.get("max_new_tokens", 0)),
        tolerance=_share(path, "tolerance", entries.get("tolerance", DEFAULT_TOLERANCE)),
        ignore=_columns(path, "ignore", "ignore", entries["ignore"]) if "ignore" in entries else (),
        media_optional=_flag(path, "media_optional", entries.get("media_optional", False)),
        reject_equal_options=_flag(path, "reject_equal_options", entries.get("reject_equal_options", False)),
        published=_published(path, texts["published"]) if "published" in texts else (),
    )


def _columns(path: Path, key: str, role: str, value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
        raise SourceError(f"{path}: {key} must be the name of a column, not {value!r}; YAML reads No as false")
    if len(names) > 1 and not may_have_several(role):
        raise SourceError(f"{path}: {key} must be one column, not {len(names)}")
    return tuple(str(name) for name in names)


def _text(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SourceError(f"{path}: {key} must be text, not {value!r}")
    return value.strip("\n")


def _tokens(path: Path, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_TOKENS:
        raise SourceError(f"{path}: max_new_tokens must be a whole number from 0 to {_MAX_TOKENS:,}, not {value!r}")
    return value


def _share(path: Path, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise SourceError(f"{path}: {key} must be a number from 0 to 1, not {value!r}")
    return value


def _flag(path: Path, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SourceError(f"{path}: {key} must be true or false, not {value!r}")
    return value


def _published(path: Path, name: str) -> tuple[PublishedValue, ...]:
    """Read the CSV of published numbers that a columns file names, relative to it."""
    location = path.parent / name
    try:
        rows = parse_published(read_text(location, "file of published values"))
    except (KeyError, ValueError) as error:
        raise SourceError(f"{location}: not readable ({error}); a row has at least model, metric and value") from error
    if not rows or not all(row.model and row.metric for row in rows):
        raise SourceError(f"{location}: a row has at least model, metric and value")
    for row in rows:
        if row.unit in ("", "fraction") and row.value is not None and not 0 <= row.value <= 1:
            raise SourceError(f"{location}: {row.metric} of {row.model} is {row.value:g}; give a fraction from 0 to 1")
    return tuple(
        replace(row, table=row.table or "Published", setting=row.setting or DEFAULT, unit=row.unit or "fraction")
        for row in rows
    )
