"""People's judgements of models' explanations on V-FLUTE, from a CSV file.

Columns `id,system,annotator,adequate,error_type,preferred`: adequate and preferred are 0 or 1, and an explanation that
is not adequate has one of four errors. Two annotators judge every explanation.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipelines.metrics.agreement import cohen_kappa
from pipelines.metrics.f1 import PrecisionRecall, precision_recall

ERRORS: Final = ("hallucination", "unsound", "incomplete", "verbosity")
_JUDGED_COLUMNS: Final = ("id", "system", "annotator", "adequate", "error_type", "preferred")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStudy:
    """What two annotators found of one system; fractions, None where there is nothing to divide by."""

    adequacy: float | None
    """Both adequate, of the items on which they agree."""
    preference: float | None
    """Both prefer it, of the items on which both prefer the same system or none."""
    kappa: float | None
    errors: Mapping[str, float]
    """Shares among what both reject; {} where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """People's judgements of explanations."""

    systems: Mapping[str, SystemStudy]
    items: int
    kappa: float | None
    """Mean over the systems that have one."""
    pr: PrecisionRecall | None
    """Of the explanation score, on all agreed judgements together; None without scores or without adequate ones."""
    curve: tuple[tuple[float, float], ...] = ()
    """Recall and precision at each threshold."""


@dataclass(slots=True)
class _Judged:
    """Two annotators' marks of one explanation, by annotator."""

    adequate: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    preferred: dict[str, int] = field(default_factory=dict)

    @property
    def agreed(self) -> int | None:
        marks = set(self.adequate.values())
        return marks.pop() if len(marks) == 1 else None


def study_of(text: str, scores: Mapping[tuple[str, str], float] | None = None) -> Study:
    """Read judgements and reckon with them.

    Args:
        text: CSV with columns id, system, annotator, adequate, error_type, preferred.
        scores: (id, system) -> explanation score.

    Raises:
        ValueError: a column or a value is missing or wrong, an explanation has not two annotators, or an annotator
            prefers two systems for one item.
    """
    judged = _judgements(text)
    preferred = _preferences(judged)
    agreed = [choice for choice in preferred.values() if choice is not None]
    systems = {}
    for name in dict.fromkeys(system for _, system in judged):
        own = [one for (_, system), one in judged.items() if system == name]
        marks = [one.agreed for one in own if one.agreed is not None]
        pairs = [[one.adequate[who] for who in sorted(one.adequate)] for one in own]
        systems[name] = SystemStudy(
            adequacy=sum(marks) / len(marks) if marks else None,
            preference=agreed.count(name) / len(agreed) if agreed else None,
            kappa=cohen_kappa([a for a, _ in pairs], [b for _, b in pairs]),
            errors=_errors([one for one in own if one.agreed == 0]),
        )
    kappas = [one.kappa for one in systems.values() if one.kappa is not None]
    pr, curve = _predicts(judged, scores or {})
    mean = math.fsum(kappas) / len(kappas) if kappas else None
    return Study(systems=systems, items=len({item for item, _ in judged}), kappa=mean, pr=pr, curve=curve)


def _preferences(judged: Mapping[tuple[str, str], _Judged]) -> dict[str, str | None]:
    """Item -> the system that both annotators prefer, '' where both prefer none, None where they differ."""
    chosen: dict[str, dict[str, str]] = {}
    for (item, system), one in judged.items():
        for who, preferred in one.preferred.items():
            own = chosen.setdefault(item, {})
            if preferred and own.get(who):
                raise ValueError(f"item {item!r}: {who!r} prefers {own[who]!r} and {system!r}")
            own[who] = system if preferred else own.get(who, "")
    return {item: next(iter(own.values())) if len(set(own.values())) == 1 else None for item, own in chosen.items()}


def _errors(rejected: Sequence[_Judged]) -> dict[str, float]:
    marks = [error for one in rejected for error in one.errors.values()]
    return {name: marks.count(name) / len(marks) for name in ERRORS} if marks else {}


def _predicts(
    judged: Mapping[tuple[str, str], _Judged], scores: Mapping[tuple[str, str], float]
) -> tuple[PrecisionRecall | None, tuple[tuple[float, float], ...]]:
    known = [(one.agreed, scores[key]) for key, one in judged.items() if one.agreed is not None and key in scores]
    adequate, given = [mark for mark, _ in known if mark is not None], [score for _, score in known]
    if not any(adequate):
        return None, ()
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(adequate, given)
    points = tuple((float(r), float(p)) for r, p in zip(recall, precision, strict=True))
    return precision_recall(adequate, given), points


def _judgements(text: str) -> dict[tuple[str, str], _Judged]:
    found: dict[tuple[str, str], _Judged] = {}
    for line, row in csv_rows(text, _JUDGED_COLUMNS, may_be_empty="error_type"):
        for name in ("adequate", "preferred"):
            if row[name] not in ("0", "1"):
                raise ValueError(f"line {line}: {name} is {row[name]!r}, wanted 0 or 1")
        one, who = found.setdefault((row["id"], row["system"]), _Judged()), row["annotator"]
        if who in one.adequate:
            raise ValueError(f"line {line}: {who!r} judges {row['system']!r} on {row['id']!r} twice")
        one.adequate[who], one.preferred[who] = int(row["adequate"]), int(row["preferred"])
        if row["adequate"] == "0":
            if row["error_type"] not in ERRORS:
                raise ValueError(f"line {line}: error_type is {row['error_type']!r}, wanted {', '.join(ERRORS)}")
            one.errors[who] = row["error_type"]
    for (item, system), one in found.items():
        if len(one.adequate) != 2:
            raise ValueError(f"item {item!r}, system {system!r}: {len(one.adequate)} annotators, wanted two")
    return found


def csv_rows(text: str, columns: tuple[str, ...], may_be_empty: str = "") -> list[tuple[int, dict[str, str]]]:
    """Lines of a CSV file by number, blanks around values dropped.

    Raises:
        ValueError: a column is missing, or a value of any but `may_be_empty`.
    """
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    absent = [name for name in columns if name not in (reader.fieldnames or ())]
    if absent:
        raise ValueError(f"no column {', '.join(absent)}; the header must have {', '.join(columns)}")
    found = []
    for raw in reader:
        row = {name: (raw[name] or "").strip() for name in columns}
        empty = [name for name in columns if not row[name] and name != may_be_empty]
        if empty:
            raise ValueError(f"line {reader.line_num}: {', '.join(empty)} must have a value")
        found.append((reader.line_num, row))
    return found
