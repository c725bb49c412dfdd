"""What an endpoint's replies say beside answers: other models, as of gateways that fall back, and thoughts alone."""

import logging
import re

from models.messages import Answer

log = logging.getLogger(__name__)

_VERSION = r"(?:[-@:](?:v?\d{3,}[\d.-]*|latest|preview|exp)\b.*)?"
"""Ending of a name that a provider adds or resolves, such as a date."""


class ReplyRemarks:
    """What is odd about the replies to requests for one model: whom they name, and where their text is."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._names: list[str] = []
        self._thoughts_alone = self._uncounted = 0

    def note(self, answer: Answer) -> None:
        """Remember a reply's name and whether it thinks and says nothing; log the name where it is another model's."""
        name = answer.served_model
        self._thoughts_alone += bool(answer.finish_reason == "stop" and not answer.text and answer.reasoning)
        self._uncounted += not answer.is_counted
        if name and name not in self._names:
            self._names.append(name)
            if not _is_same(self._model, name):
                log.warning("%s", self._other(name))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each name of another model, for versions that differ, thoughts alone, and no counts."""
        same = [name for name in self._names if _is_same(self._model, name)]
        changes = f"{self._model}: replies come from several versions: {', '.join(sorted(same))}"
        others = [self._other(name) for name in self._names if name not in same]
        thoughts = f"{self._model}: replies hold reasoning and no answer; look at the reasoning parser of its server"
        uncounted = f"{self._model}: replies have no readable counts of tokens; with a price, their cost is estimated"
        return (
            *others,
            *[changes] * (len(same) > 1),
            *[thoughts] * (self._thoughts_alone > 0),
            *[uncounted] * (self._uncounted > 0),
        )

    def _other(self, name: str) -> str:
        return f"{self._model}: the endpoint answers as {name!r}, which is another model; see `served_model`"


def _is_same(first: str, second: str) -> bool:
    """Return whether two names differ in a provider's prefix, in case or in a version alone."""
    short, long = sorted((_bare(first), _bare(second)), key=len)
    return re.fullmatch(re.escape(short) + _VERSION, long) is not None


def _bare(name: str) -> str:
    return name.rpartition("/")[2].lower().removesuffix("-latest")
