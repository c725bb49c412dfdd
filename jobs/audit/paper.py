"""A paper as it is audited, and what the audit finds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.audit.cells import PrintedValue, PrintedValues, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A printed number, or a line of them, that contradicts others."""

    paper: str
    table: str
    rule: str
    model: str = ""
    task: str = ""
    setting: str = ""
    subset: str = ""
    category: str = ""
    metric: str = ""
    printed: str
    expected: str


@dataclass(frozen=True, slots=True)
class Paper:
    """The printed numbers of a paper, its figures about the data, and what they must obey."""

    name: str
    numbers: PrintedValues
    facts: Mapping[str, str]
    rules: tuple[Rule, ...]

    def finding(self, number: PrintedValue, rule: str, expected: str, **changes: str) -> Finding:
        """Return a finding about a number."""
        names = ("table", "model", "task", "setting", "subset", "category", "metric")
        texts = {name: getattr(number.row, name) for name in names}
        return Finding(
            **{"paper": self.name, "rule": rule, "printed": number.text, "expected": expected, **texts, **changes}
        )

    def select(self, kind: type[Any]) -> Iterator[Any]:
        """Yield the rules of one kind."""
        yield from (rule for rule in self.rules if isinstance(rule, kind))
