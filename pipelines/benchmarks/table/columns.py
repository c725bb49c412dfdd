"""Which columns of a source are what: by the columns file, else by the usual names whatever their case."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from models.errors import suggest
from pipelines.benchmarks.prompt_templates import load_facts
from pipelines.errors import SourceError

USUAL: Final[Mapping[str, tuple[str, ...]]] = load_facts(__package__, "kinds.yaml")["columns"]
SYNONYMS: Final[Mapping[str, str]] = {"image": "media", "video": "media", "answers": "answer"}
"""Names that a columns file may use for ours."""
MAPPED: Final = (*USUAL, *SYNONYMS, "cluster", "start", "end", "subtitles", "precision", "size", "turns")
_SEVERAL: Final = ("media", "options", "ignore")  # keys that may name several columns
_NUMBERED = re.compile(r"(image|img|picture|photo|video|media)_?(\d{1,3})")
_FAMILY_NAME = re.compile(r"(.*[a-z].*?)_?((?<=_)[a-j]|\d{1,2})")
OPTION_LETTERS: Final = ascii_uppercase  # columns of an option each, as far as they go
_MAX_OPTION_LETTERS: Final = 10  # letters of which none may be left out


def find_columns(
    columns: Sequence[str], mapped: Mapping[str, tuple[str, ...]], where: str, unmapped: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the source's columns by our names; SourceError where one is missing, or two may be the same.

    Names in `unmapped` have no column, whatever the columns are called.
    """
    by_form: dict[str, list[str]] = {}
    for column in columns:
        by_form.setdefault(_form(column), []).append(column)
    roles = {
        role: tuple(_given(role, name, columns, by_form, where) for name in names) for role, names in mapped.items()
    }
    taken = {column for names in roles.values() for column in names}
    for role, usual in USUAL.items():
        if role in roles or role in unmapped:
            continue
        candidates = [column for name in usual for column in by_form.get(name, ()) if column not in taken]
        if role == "id":
            candidates = candidates or [column for column in columns if column == "@key"]
        if len(candidates) > 1:
            raise SourceError(
                f"{where}: {len(candidates)} columns may be the {role}: {', '.join(candidates)}; name the right one "
                f"in a columns file (`{role}: {candidates[0]}`, --columns FILE.yaml)"
            )
        if candidates:
            roles[role] = (candidates[0],)
            taken.add(candidates[0])
    if "media" not in (*roles, *unmapped) and (numbered := _numbered(columns, taken)):
        roles["media"] = numbered
        taken |= {*numbered}
    lettered = () if "options" in (*mapped, *unmapped) else _lettered(columns, taken, where)
    if lettered and "options" in roles:
        raise SourceError(
            f"{where}: columns {', '.join(lettered)} and column {roles['options'][0]} may both be the options; "
            f"name the right ones in a columns file (`options: {roles['options'][0]}`, --columns FILE.yaml)"
        )
    return {**roles, "options": lettered} if lettered else roles


def _given(role: str, name: str, columns: Sequence[str], by_form: Mapping[str, Sequence[str]], where: str) -> str:
    if name in columns:
        return name
    matching = by_form.get(_form(name), ())
    if len(matching) == 1:
        return matching[0]
    raise SourceError(f"{where}: no column {name!r}, which the columns file gives for {role}{suggest(name, columns)}")


def _form(name: str) -> str:
    """Return a name without regard to case, and to blanks and hyphens in place of underscores."""
    return re.sub(r"[\s-]+", "_", name.strip().casefold())


def _numbered(columns: Sequence[str], taken: set[str]) -> tuple[str, ...]:
    """Return columns such as `image_1` to `image_7` by number; none where they have several stems."""
    matches = {column: match for column in columns if (match := _NUMBERED.fullmatch(_form(column)))}
    free = {column: match for column, match in matches.items() if column not in taken}
    if len({match[1] for match in free.values()}) != 1:
        return ()
    return tuple(sorted(free, key=lambda column: int(free[column][2])))


def _lettered(columns: Sequence[str], taken: set[str], where: str) -> tuple[str, ...]:
    """Return the columns A, B, ... as far as they go; none unless there are two, SourceError for a gap in three."""
    for letters in (OPTION_LETTERS, OPTION_LETTERS.lower()):
        free = {*columns} - taken
        names = tuple(takewhile(free.__contains__, letters))
        present = [letter for letter in letters[: max(len(names), _MAX_OPTION_LETTERS)] if letter in free]
        if names and len(present) > max(2, len(names)):
            raise SourceError(
                f"{where}: columns {', '.join(present)} may be options, and {letters[len(names)]} is missing; name "
                f"them in a columns file (`options: [{', '.join(present)}]`, --columns FILE.yaml)"
            )
        if len(names) > 1:
            return names
    return ()


def option_families(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return columns that differ by a letter or number at the end alone and count from `a`, 0 or 1, as `choice_a`."""
    families: dict[str, dict[str, str]] = {}
    for column in columns:
        if match := _FAMILY_NAME.fullmatch(_form(re.sub(r"(?<=[a-z])(?=[A-J]$)", "_", column.strip()))):
            families.setdefault(match[1], {})[match[2]] = column
    found = []
    for members in families.values():
        for marks in (ascii_lowercase, map(str, range(100)), map(str, range(1, 100))):
            names = tuple(members[mark] for mark in takewhile(members.__contains__, marks))
            if len(names) > 1:
                found.append(names)
                break
    return found


def described(columns: Sequence[str], most: int = 40) -> str:
    """Return columns for a message."""
    return ", ".join(columns[:most]) + (f" and {len(columns) - most} more" if len(columns) > most else "") or "none"


def may_have_several(role: str) -> bool:
    """Return whether a role may have several columns."""
    return role in _SEVERAL
