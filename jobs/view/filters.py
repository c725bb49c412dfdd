"""The filter of a list of samples, parsed from a query string and written back to one."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self
from urllib.parse import urlencode

from pipelines.samples.outputs import OUTCOMES

JUDGED: Final = {"accepted": "accepted", "rejected": "rejected", "invalid": "unreadable", "failed": "failed"}
"""What the judge said -> as shown."""
SORTS: Final = {
    "": "benchmark, task, setting, sample_id, variant, item",
    "disagreement": "disagreement DESC, benchmark, task, setting, sample_id, variant, item",
    "latency": "latency_s DESC NULLS LAST, item",
}
"""Sort order in the address -> columns of `items`."""
_LONGEST_VALUE = 500  # characters of one value
_SEARCH = (
    "(contains(lower(output), lower(?)) OR contains(lower(sample_id), lower(?))"
    " OR (benchmark, sample_id) IN (SELECT benchmark, sample_id FROM questions WHERE contains(text, lower(?))))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects items; an empty value selects all. One answer must satisfy `out` to `q` together."""

    benchmark: str = ""
    task: str = ""
    setting: str = ""
    category: str = ""
    disagree: str = ""  # `1`: some models are right and some are wrong
    out: str = ""  # label of an output
    model: str = ""
    outcome: str = ""
    judge: str = ""
    q: str = ""  # part of an answer, of an id or of a sample's own fields
    sort: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Read a query string; a value that a choice does not have selects all."""
        choices = {"outcome": OUTCOMES, "judge": JUDGED, "sort": SORTS, "disagree": ("1",)}
        values = {field.name: query.get(field.name, "")[:_LONGEST_VALUE] for field in fields(cls)}
        return cls(
            **{name: "" if value not in choices.get(name, (value,)) else value for name, value in values.items()}
        )

    def values(self) -> dict[str, str]:
        """Return what is selected."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name))}

    def query(self, **changes: str) -> str:
        """Return the query string of this filter with some values changed."""
        return urlencode(replace(self, **changes).values())

    def where(self, out: int | None) -> tuple[str, list[Any]]:
        """Return a condition on `items` and its parameters; `out` is the number of the output that is selected."""
        conditions, parameters = ["true"], []
        for name in ("benchmark", "task", "setting", "category"):
            if value := getattr(self, name):
                conditions.append(f"{name} = ?")
                parameters.append(value)
        if self.disagree:
            conditions.append("correct > 0 AND wrong > 0")
        answer, values = self._answer_condition(out)
        if answer:
            conditions.append(f"item IN (SELECT item FROM answers WHERE {answer})")  # noqa: S608 - constants alone
        return " AND ".join(conditions), parameters + values

    def _answer_condition(self, out: int | None) -> tuple[str, list[Any]]:
        conditions, parameters = [], []
        for name, value in (("out", out), ("model", self.model), ("outcome", self.outcome), ("judge", self.judge)):
            if value not in ("", None):
                conditions.append(f"{name} = ?")
                parameters.append(value)
        if conditions or self.q:  # skips most blocks of a large table
            for name in ("benchmark", "task", "setting"):
                if value := getattr(self, name):
                    conditions.append(f"{name} = ?")
                    parameters.append(value)
        if self.q:
            conditions.append(_SEARCH)
            parameters += [self.q] * 3
        return " AND ".join(conditions), parameters
