"""Answers of a file on their way to the parts of a plan, kept on disk: a file may have millions of rows."""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, Self, TypeAlias
from unicodedata import normalize

from models.scratch import scratch
from pipelines.benchmarks.records import Rejection
from pipelines.logged_answers.readers import verdict
from pipelines.plan.selection import TaskSetting
from pipelines.plan.stored_plan import PlanRow
from pipelines.schemas import without_surrogates

GIVEN: Final = ("bertscore_f1", "bertscore_f1_rescaled", "bertscore_0", "bertscore_1", "bleurt", "human")
"""Columns that stand in for a scorer's output or a person's label; others of the file are ignored."""

OTHER_VERDICT: Final = ("their_correct", "their_answer", "their_rule")
"""Columns of the verdict of the harness that logged an answer."""

_SCHEMA: Final = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE answers (
        place INTEGER PRIMARY KEY, group_id INTEGER, sample_id TEXT, variant TEXT, file TEXT, line INTEGER, fields TEXT,
        UNIQUE (group_id, sample_id, variant)
    );
"""
_Group: TypeAlias = tuple[str, str, str, str]  # benchmark, model, task and setting


class AnswerSpool:
    """Holds the answers of a file, one a request, until a plan takes them; and the rows that cannot be used."""

    def __init__(self, path: str) -> None:
        self._rows = sqlite3.connect(path, isolation_level=None)
        self._rows.executescript(_SCHEMA)
        self._rows.execute("BEGIN")
        self._group_ids: dict[_Group, int] = {}
        self._is_taken = bytearray(1)  # by place
        self.counts: Counter[_Group] = Counter()  # answers by benchmark, model, task and setting
        self.rejections: list[Rejection] = []

    @classmethod
    @contextmanager
    def temporary(cls) -> Iterator[Self]:
        """Yield a spool in a scratch folder, which goes with it."""
        with scratch() as folder, closing(cls(str(folder / "answers.sqlite"))) as spool:
            yield spool

    def groups(self) -> list[tuple[str, str]]:
        """Return benchmark and model of the answers, sorted."""
        return sorted({group[:2] for group in self._group_ids})

    def task_settings(self, benchmark: str, model: str) -> set[TaskSetting]:
        """Return which tasks and settings a model answers."""
        return {TaskSetting(*group[2:]) for group in self._group_ids if group[:2] == (benchmark, model)}

    def add(self, line: int, row: Mapping[str, Any]) -> None:
        """Add a row of a predictions file; one whose request has an answer is rejected."""
        group = (row["benchmark"], row["model"], row["task"], row["setting"])
        file = without_surrogates(row.get("file") or "")
        name = normalize("NFC", row["sample_id"])  # ids of files and of data may have different Unicode forms
        values = (self._group_ids.setdefault(group, len(self._group_ids)), name, row["variant"])
        added = self._rows.execute(  # `rowcount` depends on the locale: it is -1 where I is not lowered to i
            "INSERT OR IGNORE INTO answers (group_id, sample_id, variant, file, line, fields) "
            "VALUES (?, ?, ?, ?, ?, ?) RETURNING place",
            (*values, file, line, json.dumps(_answer_fields(row))),
        ).fetchone()
        if added:
            self._is_taken.append(False)
            self.counts[group] += 1
        else:
            key = (*group[2:], row["sample_id"], row["variant"])
            self._reject(file, line, key, "a second answer to the same request; the first stays")

    def take(self, benchmark: str, model: str, row: PlanRow) -> dict[str, Any] | None:
        """Return the columns of a prediction that an answer gives; None where the file has none to this request."""
        group = self._group_ids.get((benchmark, model, row.task, row.setting))
        answer = self._rows.execute(
            "SELECT place, fields FROM answers WHERE group_id = ? AND sample_id = ? AND variant = ?",
            (group, normalize("NFC", row.sample_id), row.variant),
        ).fetchone()
        if answer is None:
            return None
        place, fields = answer
        self._is_taken[place] = True
        columns = json.loads(fields)
        return {**columns, "given": [*columns["given"].items()]}

    def reject_rest(self, benchmark: str, model: str) -> None:
        """Reject the answers of a model that the plan has not taken."""
        for group, number in self._group_ids.items():
            if group[:2] == (benchmark, model):
                rows = self._rows.execute(
                    "SELECT place, file, line, sample_id, variant FROM answers WHERE group_id = ? ORDER BY place",
                    (number,),
                )
                for place, file, line, *key in rows:
                    if not self._is_taken[place]:
                        self._reject(file, line, (*group[2:], *key), f"{benchmark} has no such sample or variant")

    def _reject(self, file: str, line: int, key: tuple[str, ...], reason: str) -> None:
        self.rejections.append(Rejection(file=file, item=f"line {line}: {'/'.join(key)}", reason=reason))

    def close(self) -> None:
        """Close the file."""
        self._rows.close()


def _answer_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row gives a prediction, as JSON types; values of other types than a column's are left out."""
    output = row["output"]
    given = {name: _number(row.get(name)) for name in GIVEN}
    their_correct, *texts = (row.get(name) for name in OTHER_VERDICT)
    read = (without_surrogates(text) if isinstance(text, str) else None for text in texts)
    status, reason = row.get("status"), without_surrogates(str(row.get("error") or ""))
    outcome = ("ok", "", "")
    if status == "excluded":  # in our own form: it was never sent
        output, outcome = None, ("excluded", "excluded", reason)
    elif status == "error":  # what stands in place of an answer says why there is none
        reason = reason or without_surrogates(output or "") or "the file says that this request failed"
        kind = without_surrogates(str(row.get("error_type") or "")) or "failed_elsewhere"
        output, outcome = None, ("error", kind, reason)
    elif output is None:
        outcome = ("error", "no_output", "the file holds no output for this request")
    return {
        "output": None if output is None else without_surrogates(output),
        **dict(zip(("status", "error_type", "error"), outcome, strict=True)),
        "given": {name: value for name, value in given.items() if value is not None},
        **dict(zip(OTHER_VERDICT, (verdict(their_correct), *read), strict=True)),
    }


def _number(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None
