"""A policy: the lines that a model must keep to be released, as YAML."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from models.errors import YamlFileError, suggest
from models.strict_yaml import read_yaml
from pipelines.errors import UsageError

_LISTS: Final = ("policy", "lines", "rules", "metrics")  # a policy that is a mapping has one of them


class Line(BaseModel):
    """One line: a number, and the limit that it must keep. What is left out of task and setting is each that has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    benchmark: str
    metric: str = ""  # the benchmark's headline
    model: str = ""
    task: str = ""
    setting: str = ""
    subset: str = ""
    category: str = ""
    at_least: float | None = Field(default=None, strict=True, allow_inf_nan=False)
    at_most: float | None = Field(default=None, strict=True, allow_inf_nan=False)
    not_worse_than: Literal["baseline"] | None = None
    margin: float | None = Field(default=None, ge=0, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if sum(limit is not None for limit in (self.at_least, self.at_most, self.not_worse_than)) != 1:
            raise ValueError("give one of at_least, at_most and not_worse_than")
        if (self.margin is None) != (self.not_worse_than is None):
            raise ValueError(
                "not_worse_than and margin belong together, such as not_worse_than: baseline, margin: 0.02"
            )
        return self


@dataclass(frozen=True, slots=True)
class Policy:
    """Lines, all of which must hold, and the share of false alarms over all of them."""

    lines: tuple[Line, ...]
    alpha: float = 0.05


def read_policy(path: Path) -> Policy:
    """Read a policy: a list of lines, or a mapping of `alpha` and `policy`; UsageError names file and line."""
    try:
        raw, _ = read_yaml(path, "file")
    except YamlFileError as error:
        raise UsageError(f"--policy {error}") from error
    alpha: Any = 0.05
    if isinstance(raw, dict):
        unknown = [str(key) for key in raw if key not in (*_LISTS, "alpha")]
        if unknown:
            raise UsageError(f"--policy {path}: unknown key {unknown[0]!r}{suggest(unknown[0], (*_LISTS, 'alpha'))}")
        alpha = raw.get("alpha", alpha)
        given = [key for key in _LISTS if key in raw]
        if len(given) > 1:
            raise UsageError(f"--policy {path}: {' and '.join(given)} both hold lines; give one list")
        raw = raw[given[0]] if given else None
    if isinstance(raw, list) and raw and isinstance(raw[0], dict) and raw[0].keys() == {"alpha"}:
        alpha, *raw = raw[0]["alpha"], *raw[1:]
    if not isinstance(raw, list) or not raw:
        raise UsageError(f"--policy {path}: expected a list of lines, such as `- {{benchmark: mate, at_least: 0.5}}`")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1:
        raise UsageError(f"--policy {path}: alpha is {alpha!r}, expected a number between 0 and 1")
    return Policy(tuple(_line(path, number, entry) for number, entry in enumerate(raw, start=1)), float(alpha))


def _line(path: Path, number: int, entry: object) -> Line:
    where = f"--policy {path}: line {number} of the list"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: expected a mapping with benchmark, metric and a limit")
    unknown = [str(key) for key in entry if key not in Line.model_fields]
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}{suggest(unknown[0], Line.model_fields)}")
    try:
        return Line.model_validate(dict(entry))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{where}: {name + ': ' if name else ''}{first['msg'].removeprefix('Value error, ')}"
        ) from error
