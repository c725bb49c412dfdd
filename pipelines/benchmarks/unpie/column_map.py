"""UNPIE's fields by our names, wherever in a row of the source they lie.

A path such as `translation1.de` or `meta.photos[0]` leads through structs by dots and through lists by places. A name
with dots that stands in the row as it is, as in flattened tables, is taken as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from models.errors import suggest

LANGUAGES: Final[Mapping[str, str]] = {"de": "German", "fr": "French", "ko": "Korean"}

_DEFAULTS: Final[Mapping[str, str]] = {
    "sample_id": "",
    "category": "category",
    "sentence": "pun_sentence",
    "phrase": "pun_phrase",
    "alt_sentence": "alter_sentence",
    "alt_phrase": "alter_phrase",
    "gloss[0]": "meaning1",
    "gloss[1]": "meaning2",
    "exp_image": "pun_exp_image",
    "disamb_image[0]": "disamb_image1",
    "disamb_image[1]": "disamb_image2",
    "freq_rank": "freq_rank",
    **{f"translation[{i}].{lang}": f"translation{i + 1}.{lang}" for i in range(2) for lang in LANGUAGES},
}
"""The source's path of each field as distributed; '' is none."""
_GROUPS: Final = ("gloss", "disamb_image", "translation", "translation[0]", "translation[1]")
"""Names that stand for several fields at once."""

MAP_NAMES: Final = (*_DEFAULTS, *_GROUPS)
"""What a column map may name."""

Shape = dict[str, Any] | list[Any] | None
"""What a row holds: fields by name, the shape of a list's items, or None for a value."""

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_ABSENT: Final = object()
_NAMED = 40


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each field lies; made once a source."""

    paths: Mapping[str, str]
    """Our name of a field -> the source's path; '' for none."""
    named: frozenset[str]
    """Fields that the user's map speaks of."""

    @classmethod
    def of(cls, column_map: Mapping[str, str] | None) -> Columns:
        """The usual paths with the user's over them; the more exact of two names wins.

        Raises:
            ValueError: a name that is not ours.
        """
        given = dict(column_map or {})
        for name in given:
            if name not in MAP_NAMES:
                raise ValueError(f"column map: {name!r} is no name of ours; names: {', '.join(MAP_NAMES)}")
        paths, named = dict(_DEFAULTS), set[str]()
        for group in sorted(given, key=len):
            for field in _DEFAULTS:
                if field == group or (group in _GROUPS and field.startswith((f"{group}[", f"{group}."))):
                    paths[field] = given[group] + field.removeprefix(group)
                    named.add(field)
        return cls(paths, frozenset(named))

    def check(self, shape: Shape, where: str) -> frozenset[str]:
        """Fields that this file has not.

        Raises:
            ValueError: one of them was named by the user; lists what there is, and the nearest.
        """
        absent = frozenset(field for field, path in self.paths.items() if not _has(shape, path))
        for field in self.paths:
            if field in self.named & absent:
                raise ValueError(f"column map: {self.unknown(field, shape, where)}")
        return absent

    def unknown(self, field: str, shape: Shape, where: str) -> str:
        """Words for a field that a file has not: what it has, and the nearest of it."""
        there, path = list(_flat(shape)), self.paths[field]
        hint = suggest(path, there).partition("; known:")[0]
        return f"{where} has no {path!r} for {field!r}{hint}; columns found: {', '.join(there[:_NAMED]) or 'none'}"

    def get(self, row: Mapping[str, Any], field: str) -> Any:
        """A field's value, None where the row has none."""
        path = self.paths[field]
        found = _walk(row, path) if path else _ABSENT
        return None if found is _ABSENT else found


def shape_of(value: Any) -> Shape:
    """What a value holds; text that is JSON counts as what it says."""
    value = _opened(value)
    if isinstance(value, Mapping):
        return {str(name): shape_of(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [merged(shape_of(inner) for inner in value)]
    return None


def merged(shapes: Iterable[Shape]) -> Shape:
    """All that any of these shapes holds."""
    found: Shape = None
    for shape in shapes:
        if isinstance(found, dict) and isinstance(shape, dict):
            for name, inner in shape.items():
                found[name] = merged([found.get(name), inner])
        elif isinstance(found, list) and isinstance(shape, list):
            found = [merged([*found, *shape])]
        elif found is None:
            found = shape
    return found


def _opened(value: Any) -> Any:
    """A struct or list that a table without such types holds as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _has(shape: Shape, path: str) -> bool:
    if not path:
        return False
    if isinstance(shape, dict) and path in shape:
        return True
    step = _STEP.match(path)
    if not step:
        return False
    rest = path[step.end() :]
    if step[2] is not None:
        return isinstance(shape, list) and (not rest or _has(shape[0], rest))
    return isinstance(shape, dict) and step[1] in shape and (not rest or _has(shape[step[1]], rest.lstrip(".")))


def _walk(value: Any, path: str) -> Any:
    while path:
        value = _opened(value)
        if isinstance(value, Mapping) and path in value:
            return value[path]
        step = _STEP.match(path)
        if not step:
            return _ABSENT
        path = path[step.end() :].removeprefix(".")
        if step[2] is not None:
            place = int(step[2])
            if not isinstance(value, list) or place >= len(value):
                return _ABSENT
            value = value[place]
        elif isinstance(value, Mapping) and step[1] in value:
            value = value[step[1]]
        else:
            return _ABSENT
    return value


def _flat(shape: Shape, before: str = "") -> Iterator[str]:
    """Paths of a shape; a struct is named by itself and by its fields."""
    if isinstance(shape, dict):
        for name, inner in shape.items():
            path = f"{before}.{name}" if before else name
            yield path
            yield from _flat(inner, path)
    elif isinstance(shape, list):
        yield from _flat(shape[0], f"{before}[0]")
