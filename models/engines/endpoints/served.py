"""The models that an endpoint's replies name: gateways fall back to others without a word."""

import logging
import re

log = logging.getLogger(__name__)

_VERSION = r"(?:[-@:](?:v?\d{3,}[\d.-]*|latest|preview|exp)\b.*)?"
"""Ending of a name that a provider adds or resolves, such as a date."""


class ServedModels:
    """The names in the replies to requests for one model; a warning each where it is another's, or changes."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._names: list[str] = []

    def note(self, name: str | None) -> None:
        """Remember the name of a reply, and log it where it is another model's."""
        if name and name not in self._names:
            self._names.append(name)
            if not _is_same(self._model, name):
                log.warning("%s", self._other(name))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each name of another model, and for versions that differ."""
        same = [name for name in self._names if _is_same(self._model, name)]
        changes = f"{self._model}: replies come from several versions: {', '.join(sorted(same))}"
        others = [self._other(name) for name in self._names if name not in same]
        return (*others, changes) if len(same) > 1 else tuple(others)

    def _other(self, name: str) -> str:
        return f"{self._model}: the endpoint answers as {name!r}, which is another model; see `served_model`"


def _is_same(first: str, second: str) -> bool:
    """Return whether two names differ in a provider's prefix, in case or in a version alone."""
    short, long = sorted((_bare(first), _bare(second)), key=len)
    return re.fullmatch(re.escape(short) + _VERSION, long) is not None


def _bare(name: str) -> str:
    return name.rpartition("/")[2].lower().removesuffix("-latest")
