"""Wording of prompts by version, with the user's overrides."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

from pipelines.errors import UsageError

_FIELD = re.compile(r"\{(\w+)\}")


def load_yaml(package: str, name: str) -> Any:
    """Read a data file of a benchmark's package."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # every process reads them: the one in C takes no time
    return yaml.load(files(package).joinpath(name).read_bytes(), Loader=loader)  # noqa: S506 - both are safe


def load_facts(package: str, name: str) -> Any:
    """Read a data file of a benchmark's package, with tuples in place of lists."""
    return _frozen(load_yaml(package, name))


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def load_texts(package: str) -> Mapping[str, str]:
    """Read the wording of a benchmark's prompts by version: its package's `prompts.yaml`."""
    texts: Mapping[str, str] = load_yaml(package, "prompts.yaml")
    return texts


def check_placeholders(text: str, original: str, where: str) -> None:
    """Raise UsageError unless a user's wording has the placeholders of the text that it replaces, and no other."""
    expected, given = {*_FIELD.findall(original)}, {*_FIELD.findall(text)}
    names = ", ".join(f"{{{name}}}" for name in sorted(expected)) or "none"
    for kind, different in (("lacks the", expected - given), ("has the unknown", given - expected)):
        if different:
            raise UsageError(
                f"{where}: the text {kind} placeholder {{{min(different)}}}; this prompt's placeholders: {names}"
            )


class PromptTexts:
    """The wording of a benchmark's prompts by version name, with the user's overrides."""

    def __init__(
        self,
        texts: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        """Override versions by the user's wording, or by another version (`instead`); UsageError for an unknown one."""
        self._texts, self._overrides, self._instead = dict(texts), dict(overrides or {}), dict(instead or {})
        self._pieces: dict[str, list[str]] = {}
        """Version -> its literal texts and, between them, the names of its fields."""
        for version in (*self._overrides, *self._instead, *self._instead.values()):
            if version not in self._texts:
                raise UsageError(f"no prompt is named {version!r}; there are {', '.join(sorted(texts))}")

    def template(self, version: str) -> str:
        """Return the text of a version with its placeholders, in the user's wording if there is one."""
        name = self._instead.get(version, version)
        return self._overrides.get(name, self._texts[name])

    def fill(self, version: str, **fields: str) -> str:
        """Fill the `{name}` fields of a version in one pass: braces in data stay as they are."""
        pieces = self._pieces.get(version)
        if pieces is None:
            pieces = self._pieces[version] = _FIELD.split(self.template(version))
        filled = pieces.copy()
        filled[1::2] = [fields.get(field, f"{{{field}}}") for field in pieces[1::2]]
        return "".join(filled)

    def version(self, version: str) -> str:
        """Return the version in force, for ids and reports; a user's own wording is marked."""
        version = self._instead.get(version, version)
        return f"{version}+custom" if version in self._overrides else version
