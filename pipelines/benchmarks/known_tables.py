"""Table benchmarks: their definitions as data, and those that this process has read from data sets and outputs.

A table benchmark has no code. Its `TableDefinition` is stored with its data and with every plan of it; whoever reads
either makes it known here, so that its name works like that of any other benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from pipelines.benchmarks.records import PublishedValue

Kind: TypeAlias = Literal["choice", "yes-no", "label", "text", "number", "open"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
DEFAULT_TOLERANCE: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """What a table benchmark is: stored as JSON, so all fields are texts, numbers, and lists of them."""

    name: str
    kind: Kind
    title: str = ""
    citation: str = ""
    headline: str = ""  # '': that of the kind
    prompt: str = ""  # the user's own wording; '': that of the kind
    max_new_tokens: int = 0  # 0: those of the kind
    tolerance: float = DEFAULT_TOLERANCE  # of numbers, relative
    labels: tuple[str, ...] = ()  # the closed set of `label`
    first_index: int = 0  # of answers that are indices of options
    has_media: bool = False
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # our name -> those of the source
    published: tuple[PublishedValue, ...] = ()


_KNOWN: Final[dict[str, TableDefinition]] = {}


def add_table(definition: TableDefinition) -> None:
    """Make a table benchmark known to this process, in place of an earlier one of its name."""
    _KNOWN[definition.name] = definition


def known_tables() -> Mapping[str, TableDefinition]:
    """Return the table benchmarks that this process knows, by name."""
    return dict(sorted(_KNOWN.items()))
