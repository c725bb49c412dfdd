"""Filters and lists of items: one page with every model's answer, their neighbours, and what can be chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self
from urllib.parse import urlencode

from jobs.view.index import Index
from pipelines.errors import PipelineError
from pipelines.samples.outputs import OUTCOMES, Output, by_label
from pipelines.samples.prompts import SHARDS, Brief, SampleReader, brief_of

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


PAGE: Final = 50
_PREVIEW: Final = 300  # characters of an answer in a list
_LAST_ROW: Final = 100_000_000  # of an address that was written by hand
_IDENTITY: Final = ("benchmark", "task", "setting", "sample_id", "variant")


@dataclass(slots=True, kw_only=True)
class Item:
    """A prompt of a sample, with the answer of each model."""

    row: Mapping[str, Any]
    at: int  # index in the list, from 0
    answers: list[dict[str, Any]] = field(default_factory=list)
    brief: Brief | None = None  # none where the sample's data are gone or not read yet

    def identity(self) -> dict[str, str]:
        """Return what names it in an address."""
        return {name: str(self.row[name]) for name in _IDENTITY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One page of a list."""

    items: Sequence[Item]
    total: int
    page: int
    pages: int


def paged(total: int, page: int) -> tuple[int, int]:
    """Return the page of a list nearest to a number, counted from 1, and the number of pages, at least one."""
    pages = max(1, -(-total // PAGE))
    return min(max(1, page), pages), pages


class Samples:
    """Reads lists from the index."""

    def __init__(self, index: Index, outputs: Sequence[Output]) -> None:
        self._index, self._outputs = index, outputs

    def page(self, chosen: Filter, page: int) -> Listing:
        """Return a page, counted from 1, of what a filter selects; the last one where it has fewer."""
        where, parameters = self._where(chosen)
        (count,) = self._index.rows(f"SELECT count(*) AS n FROM items WHERE {where}", parameters)  # noqa: S608
        page, pages = paged(count["n"], page)
        items = self._slice(chosen, (page - 1) * PAGE, PAGE)
        self._add_answers(items)
        return Listing(items=items, total=count["n"], page=page, pages=pages)

    def add_briefs(self, items: Sequence[Item], reader: SampleReader) -> None:
        """Add to the items of a page what they ask, of as many shards as the reader holds in memory."""
        names = [item.row["sample_id"] for item in items]
        shards: dict[tuple[str, str], str] = {
            (row["benchmark"], row["sample_id"]): row["shard"]
            for row in self._index.rows(
                "SELECT benchmark, sample_id, shard FROM questions WHERE sample_id IN (SELECT unnest(?))", [names]
            )
        }
        read = list(dict.fromkeys(shards.values()))[:SHARDS]
        for item in filter(lambda item: item.answers, items):  # a part may be gone since the items were grouped
            benchmark, sample_id = item.row["benchmark"], item.row["sample_id"]
            output, shard = self._outputs[item.answers[0]["out"]], shards.get((benchmark, sample_id), "")
            dataset = output.dataset(benchmark)
            if dataset and shard in read:
                try:
                    sample = reader.find(dataset, sample_id, shard)
                except (PipelineError, FileNotFoundError) as error:
                    output.note(f"samples of {benchmark}", str(error))
                    continue
                item.brief = brief_of(output, {**item.row, **item.answers[0]}, sample)

    def neighbours(self, chosen: Filter, at: int) -> tuple[Item | None, Item | None]:
        """Return the items before and after index `at` in a list."""
        at = min(max(0, at), _LAST_ROW)
        around = {item.at: item for item in self._slice(chosen, max(0, at - 1), 3)}
        return around.get(at - 1), around.get(at + 1)

    def item(self, identity: Mapping[str, str]) -> Item | None:
        """Return one item with its answers, each with the part that holds it; None where there is none."""
        where = " AND ".join(f"{name} = ?" for name in _IDENTITY)
        values = [identity.get(name, "") for name in _IDENTITY]
        rows = self._index.rows(f"SELECT * FROM items WHERE {where}", values)  # noqa: S608 - constants alone
        if not rows:
            return None
        item = Item(row=rows[0], at=0)
        item.answers = self._index.rows(
            "SELECT a.*, p.path FROM answers a JOIN parts p USING (part) WHERE item = ? ORDER BY a.out, model",
            [item.row["item"]],
        )
        return item

    def choices(self, chosen: Filter) -> dict[str, list[str]]:
        """Return what each name of a filter can be, given the benchmark that is chosen."""
        choices = {"out": [output.label for output in self._outputs]}
        for name in ("benchmark", "task", "setting", "category", "model"):
            within = [chosen.benchmark] if chosen.benchmark and name not in ("benchmark", "model") else []
            source = "answers" if name == "model" else "items WHERE benchmark = ?" if within else "items"
            query = f"SELECT DISTINCT {name} AS value FROM {source} ORDER BY value"  # noqa: S608 - constants alone
            choices[name] = [row["value"] for row in self._index.rows(query, within) if row["value"]]
        return choices

    def _where(self, chosen: Filter) -> tuple[str, list[Any]]:
        output = by_label(self._outputs).get(chosen.out) if chosen.out else None
        return chosen.where(None if not chosen.out else output.number if output else 255)

    def _slice(self, chosen: Filter, start: int, count: int) -> list[Item]:
        where, parameters = self._where(chosen)
        rows = self._index.rows(
            f"SELECT * FROM items WHERE {where} ORDER BY {SORTS[chosen.sort]} LIMIT ? OFFSET ?",  # noqa: S608
            [*parameters, count, start],
        )
        return [Item(row=row, at=start + index) for index, row in enumerate(rows)]

    def _add_answers(self, items: Sequence[Item]) -> None:
        if not items:
            return
        by_item = {item.row["item"]: item for item in items}
        rows = self._index.rows(
            "SELECT item, out, model, outcome, judge, answer, left(output, ?) AS output, latency_s FROM answers"
            " WHERE item IN (SELECT unnest(?)) ORDER BY out, model",
            [_PREVIEW, [*by_item]],
        )
        for row in rows:
            by_item[row["item"]].answers.append(row)
