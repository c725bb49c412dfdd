"""The definition of a table in YAML (`--columns`, and the gallery): which columns are what, and how rows are scored."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from models.errors import suggest
from models.strict_yaml import read_text, read_yaml
from pipelines.benchmarks.known_tables import DEFAULT_TOLERANCE, KINDS, Kind
from pipelines.benchmarks.published import parse_published
from pipelines.benchmarks.records import PublishedValue
from pipelines.benchmarks.scorers import SCORER_NAMES
from pipelines.benchmarks.table.columns import MAPPED, SYNONYMS, USUAL, may_have_several
from pipelines.benchmarks.table.kinds import DEFAULT
from pipelines.benchmarks.table.templates import column_names, is_derived, sources
from pipelines.errors import SourceError

_MAX_TOKENS: Final = 32_768
SCALES: Final = ("yes-no", "0-1", "0-10")
MAY_BE_ABSENT: Final = ("hint", "start", "end", "subtitles", "precision", "size")
"""Our names whose columns only some files of a gallery's benchmark have."""
ANY: Final = "*"  # in `values`: every other value
_ROW_NUMBER: Final = "@number"
_TYPES: Final = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
}


def _scalar(value: Any) -> Any:
    """Return a number as text; YAML reads `No` and `yes` as booleans, which stay errors."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _cell(value: Any) -> Any:
    """Return a value as the text of a cell that holds it."""
    return str(value) if isinstance(value, bool) else _scalar(value)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _joined(value: Any) -> Any:
    return "".join(map(str, _as_list(value)))


Text = Annotated[str, BeforeValidator(_scalar), Field(strict=True)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_list)]
Cells = Annotated[tuple[Annotated[str, BeforeValidator(_cell), Field(strict=True)], ...], BeforeValidator(_as_list)]
Whole = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ByValue(_Part):
    """A value for each value of a column; `*` stands for every other one, an empty text for an empty cell."""

    column: Text
    values: dict[Text, Text]

    def value(self, cell: str) -> str | None:
        """Return what a cell's value stands for; None if it is not listed."""
        return self.values.get(cell, self.values.get(ANY))


class Group(_Part):
    """Rows that count together: right if all of them are."""

    name: Text
    by: Texts


class By(_Part):
    """A further grouping of rows: a column, what its values stand for, and what separates several of them."""

    column: Text
    values: dict[Text, Text] = {}
    split: Text | None = None


def _with_on(value: Any) -> Any:
    """Return a mapping in which the key `on`, which YAML reads as true, is text."""
    return {"on" if key is True else key: each for key, each in value.items()} if isinstance(value, dict) else value


class Join(_Part):
    """Further columns of each row, from the row of other files that has the same key."""

    files: Text
    on: tuple[Text, Text]


def _groupings(value: Any) -> Any:
    """Return `by` in full: a list of columns is short for groupings that have the columns' names."""
    if isinstance(value, str | list | tuple):
        value = {name: name for name in _as_list(value) if isinstance(name, str)}
    if isinstance(value, dict):
        value = {name: {"column": each} if isinstance(each, str) else each for name, each in value.items()}
    return value


class Macro(_Part):
    """A mean over groups: `category`, `subset`, or the name of a grouping in `by`."""

    over: Text
    of: Literal["official_score", "f1"] = "official_score"


class ColumnsFile(_Part):
    """What a columns file says; an empty one says nothing."""

    columns: dict[str, tuple[str, ...]] = {}  # our name -> columns or templates of them
    unmapped: tuple[str, ...] = ()  # our names that no column has
    kind: Kind | ByValue | None = None
    prompt: Text | dict[Text, Text] | ByValue | None = None  # one, one a kind, or one for each value of a column
    title: Text = ""
    citation: Text = ""
    headline: Text = ""
    published: tuple[PublishedValue, ...] = ()
    max_new_tokens: Annotated[int, Field(strict=True, ge=0, le=_MAX_TOKENS)] = 0
    tolerance: Annotated[float, Field(strict=True, ge=0, le=1)] = DEFAULT_TOLERANCE
    media_optional: Flag = False
    reject_equal_options: Flag = False
    ignore: Texts = ()  # columns that may hold media or options and are not taken
    files: Texts = ()  # patterns; of several the first that matches a file
    variants: "tuple[ColumnsFile, ...]" = ()  # one for each pattern, if they differ
    letters: Annotated[Text, BeforeValidator(_joined)] = ""  # of options that the question holds
    missing: Texts = ()  # texts that mean an empty cell
    where: dict[Text, Cells] = {}  # column -> values of the rows that are read
    scorer: Text | dict[Kind, Text] = {}
    groups: Annotated[tuple[Group, ...], BeforeValidator(_as_list)] = ()
    by: Annotated[dict[Text, By], BeforeValidator(_groupings)] = {}
    macro: Annotated[
        Macro | None, BeforeValidator(lambda value: {"over": value} if isinstance(value, str) else value)
    ] = None
    frames: Whole = 0
    fps: Annotated[float, Field(strict=True, ge=0, le=1000)] = 0.0
    judge_prompt: Text = ""
    judge_scale: Texts = ()  # one of `SCALES`, or classes
    coordinates: Literal["0-1", "0-1000", "pixel"] = "0-1"
    box: Literal["xywh", "xyxy"] = "xyxy"
    contains_exact: dict[Text, Cells] = {}
    decimals: Annotated[int, Field(strict=True, ge=0)] | None = None  # `precision` of all rows
    extract: Literal["", "braces"] = ""  # what of a reply is scored
    join: Annotated[Join | None, BeforeValidator(_with_on)] = None
    explode: Text = ""
    first_index: Annotated[int, Field(strict=True, ge=0, le=1)] | None = None  # of answers that are indices of options
    media_of: Text = ""
    roots: Texts | dict[Text, Text] = ()
    after: Text = ""
    note: Text = ""  # how to read the numbers, below their table
    for_each: Literal["", "media"] = ""  # a row for each of its pictures or clips
    layout: Text = ""  # the rest is for people
    licence: Text = ""
    rows: Text = ""
    checked: Flag = True

    @field_validator("scorer")
    @classmethod
    def _known_scorers(cls, value: str | dict[str, str]) -> str | dict[str, str]:
        for name in [value] if isinstance(value, str) else value.values():
            if name not in SCORER_NAMES:
                raise ValueError(
                    f"unknown scorer {name!r}{suggest(name, SCORER_NAMES)}; there are {', '.join(SCORER_NAMES)}"
                )
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        unknown = [kind for kind in self._kind_names() if kind not in KINDS]
        if unknown:
            raise ValueError(f"unknown kind {unknown[0]!r}{suggest(unknown[0], KINDS)}")
        if len(self.judge_scale) == 1 and self.judge_scale[0] not in SCALES:
            raise ValueError(
                f"judge_scale must be {', '.join(SCALES)}, or a list of classes, not {self.judge_scale[0]!r}"
            )
        named = ("category", "subset", *self.by)
        if self.macro and self.macro.over not in named:
            raise ValueError(f"macro: no grouping {self.macro.over!r}{suggest(self.macro.over, named)}")
        return self

    def _kind_names(self) -> Iterator[str]:
        if isinstance(self.kind, ByValue):
            yield from self.kind.values.values()
        if isinstance(self.prompt, dict):
            yield from self.prompt

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that are named, in the order of all kinds."""
        named = {*self.kind.values.values()} if isinstance(self.kind, ByValue) else {self.kind}
        return tuple(kind for kind in KINDS if kind in named)

    def scorer_of(self, kind: str) -> str | None:
        """Return the scorer of a kind; None without one."""
        return self.scorer if isinstance(self.scorer, str) else self.scorer.get(kind)  # type: ignore[call-overload]

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        """The columns and templates that are named, by the key that names them; usual names are not."""
        keys: dict[str, Any] = {**self.columns, "where": (*self.where,), "contains_exact": (*self.contains_exact,)}
        keys["by"] = tuple(each.column for each in self.by.values())
        keys["groups"] = tuple(column for group in self.groups for column in group.by)
        for name, mapped in (("kind", self.kind), ("prompt", self.prompt)):
            keys[name] = (mapped.column,) if isinstance(mapped, ByValue) else ()
        keys["explode"] = (self.explode,) if self.explode else ()
        return {key: columns for key, columns in keys.items() if columns}

    def without_absent(self, columns: Collection[str]) -> Self:
        """Return a definition of the gallery without columns that only some of its files have, and these lack."""
        present = {
            role: names
            for role, names in self.columns.items()
            if role not in MAY_BE_ABSENT or all(part in columns for name in names for part in sources(name))
        }
        return self.model_copy(update={"columns": present}) if self.layout else self

    @cached_property
    def adds_facts(self) -> bool:
        """Whether rows keep more than question, hint, media and answer."""
        named = ("precision", "start", "end", "subtitles")
        keys = (self.by, self.groups, self.contains_exact, self.prompt_names)
        mapped = any(isinstance(each, ByValue) for each in (self.kind, self.prompt)) or self.decimals is not None
        return mapped or any(keys) or any(name in self.columns for name in named)

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """The names in the prompts' and the judge's placeholders."""
        prompt = self.prompt.values if isinstance(self.prompt, ByValue) else self.prompt
        texts = [*prompt.values()] if isinstance(prompt, dict) else [prompt or ""]
        return tuple(dict.fromkeys(name for text in (*texts, self.judge_prompt) for name in column_names(text)))

    @property
    def derived(self) -> tuple[str, ...]:
        """The references that are no columns of the source, but are made of them."""
        names = (*(column for columns in self.references.values() for column in columns), *self.prompt_names)
        return tuple(dict.fromkeys(name for name in names if is_derived(name)))


def read_columns_file(path: Path) -> ColumnsFile:
    """Read a columns file; SourceError for an unknown key or a value of another type, YamlFileError for no YAML."""
    return parse_columns(read_keys(path), str(path))


def read_keys(path: Path) -> Mapping[str, Any]:
    """Return the keys of a columns file as YAML has them, with its published numbers; errors as `read_columns_file`."""
    raw, _ = read_yaml(path, "columns file")
    if not isinstance(raw, dict):
        raise SourceError(f"{path}: not a mapping of names to columns")
    if isinstance(name := raw.get("published"), str):
        raw = {**raw, "published": _published(path, name)}
    elif "published" in raw:
        raise SourceError(f"{path}: published must be text, not {name!r}")
    return raw


def parse_columns(raw: Mapping[str, Any], where: str) -> ColumnsFile:
    """Return the columns file of parsed YAML; SourceError as `read_columns_file`."""
    choices = _as_list(raw.get("files", []))
    if not any(isinstance(choice, dict) for choice in choices):
        return _parsed(raw, where)
    variants = []
    for choice in choices:
        own = {"files": choice} if isinstance(choice, str) else choice
        variants.append(_parsed({**raw, **own}, where))
    return variants[0].model_copy(
        update={"files": tuple(pattern for each in variants for pattern in each.files), "variants": tuple(variants)}
    )


def _parsed(raw: Mapping[str, Any], where: str) -> ColumnsFile:
    named = raw.get("columns")
    entries = dict(raw)
    if isinstance(named, dict):
        entries = {**named, **{key: value for key, value in raw.items() if key != "columns"}}
    if isinstance(entries.get("precision"), int):
        entries["decimals"] = entries.pop("precision")
    fields = [name for name in ColumnsFile.model_fields if name not in ("columns", "unmapped", "variants")]
    keys = (*MAPPED, *fields)
    columns: dict[str, tuple[str, ...]] = {}
    unmapped: list[str] = []
    for key, value in entries.items():
        if key not in keys:
            raise SourceError(f"{where}: unknown key {str(key)!r}{suggest(str(key), keys)}")
        if key not in MAPPED:
            continue
        role = SYNONYMS.get(key, key)
        if role in columns:
            raise SourceError(f"{where}: {key} and another key both name the {role}; give one of them")
        if value is None and role in USUAL:
            unmapped.append(role)
        else:
            columns[role] = _columns(where, key, role, value)
    rest = {key: value for key, value in entries.items() if key not in MAPPED}
    try:
        return ColumnsFile(columns=columns, unmapped=tuple(unmapped), **rest)
    except ValidationError as error:
        raise SourceError(f"{where}: {_problem(error)}") from error


def _problem(error: ValidationError) -> str:
    """Return the first problem of a definition in one sentence that begins with its key."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part not in ("ByValue", "function-before[_scalar(), str]")]
    key, value = ".".join(place), first["input"]
    if key.startswith("kind"):
        return f"unknown kind {value!r}{suggest(str(value), KINDS)}"
    if first["type"] == "value_error":
        problem = str(first["ctx"]["error"])
        return f"{key}: {problem}" if key else problem
    if first["type"] == "extra_forbidden":
        return f"{'.'.join(place[:-1])}: unknown key {place[-1]!r}"
    expected = _TYPES.get(first["type"])
    return f"{key} must be {expected}, not {value!r}" if expected else f"{key}: {first['msg']}, not {value!r}"


def _columns(where: str, key: str, role: str, value: Any) -> tuple[str, ...]:
    names = _as_list(value)
    if not names or not all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
        raise SourceError(f"{where}: {key} must be the name of a column, not {value!r}; YAML reads No as false")
    if len(names) > 1 and not may_have_several(role):
        raise SourceError(f"{where}: {key} must be one column, not {len(names)}")
    return (_ROW_NUMBER,) if role == "id" and names == ["row"] else tuple(str(name) for name in names)


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
