"""Rules that printed numbers must follow, as data: each kind of relation once, filled in for a paper in `papers`.

A rule about numbers names a dimension of the key (`model`, `task`, `setting`, `subset`, `category` or `metric`); the
numbers that it relates are equal in all others. Numbers that it needs are looked up in the table of the checked one,
then in the paper's other tables; if one is not printed, nothing is checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Where: TypeAlias = Mapping[str, str]  # dimension, or `table` -> its value: the numbers that a rule is about


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A whole is the mean of its parts."""

    metrics: tuple[str, ...]
    dimension: str
    whole: str
    parts: tuple[str, ...] = ()  # empty: all others of the table
    weights: tuple[int, ...] = ()  # one per part, such as numbers of items; empty: equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Parts add up to a printed whole, or to a number; fractions that exclude each other to 1."""

    dimension: str
    parts: tuple[str, ...]
    whole: str | int
    metrics: tuple[str, ...] = ()  # where the dimension is not the metric
    where: Where = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change is the value in a setting minus that in its baseline, of another metric."""

    metric: str
    of: str
    baselines: Mapping[str, str]  # setting -> setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A percentage is a printed count divided by the number of items."""

    metric: str
    count: str
    items: Mapping[str, int]  # by subset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMost:
    """One measure cannot exceed another with the same key."""

    lower: str
    upper: str
    upper_task: str = ""  # where it is another


@dataclass(frozen=True, slots=True, kw_only=True)
class Granularity:
    """A percentage of n items is a multiple of 1/n."""

    metrics: tuple[str, ...]
    n: int
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Of two models, the one that wins more often has the higher score."""

    wins: str
    score: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbounded:
    """Measures that are no fractions and no coefficients: they have no upper end."""

    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherItems:
    """Tables on items of their own: their numbers are not those of other tables."""

    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSum:
    """Figures about the data add up."""

    whole: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactModels:
    """A table has as many models as the text says."""

    fact: str
    table: str
    excluded_rows: tuple[str, ...] = ()  # rows that are no models


Rule: TypeAlias = (
    Mean | Sum | Change | Share | AtMost | Granularity | Order | Unbounded | OtherItems | FactSum | FactModels
)
