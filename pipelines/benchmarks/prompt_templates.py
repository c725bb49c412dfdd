"""Wording of prompts by version, with a user's own wording in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pipelines.errors import UsageError


class PromptTexts:
    """The wording of a benchmark's prompts by version name, with a user's own wording laid over it."""

    def __init__(
        self,
        texts: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        """Lay the user's choices over the benchmark's texts.

        Args:
            texts: the benchmark's wording by version.
            overrides: the user's own wording by version.
            instead: version -> another version of the benchmark to use in its place.

        Raises:
            UsageError: a version that the benchmark does not have.
        """
        self._texts, self._overrides, self._instead = dict(texts), dict(overrides or {}), dict(instead or {})
        for version in (*self._overrides, *self._instead, *self._instead.values()):
            if version not in self._texts:
                raise UsageError(f"no prompt is named {version!r}; there are {', '.join(sorted(texts))}")

    def fill(self, version: str, **fields: str) -> str:
        """The words of a version with `{name}` fields filled in, in one pass: braces in data stay as they are."""
        version = self._instead.get(version, version)
        template = self._overrides.get(version, self._texts[version])
        return re.sub(r"\{(\w+)\}", lambda match: fields.get(match[1], match[0]), template)

    def version(self, version: str) -> str:
        """The name of the version in force, for ids and reports; a user's own wording is marked."""
        version = self._instead.get(version, version)
        return f"{version}+custom" if version in self._overrides else version
