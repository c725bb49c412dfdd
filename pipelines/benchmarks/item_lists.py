"""Lists of the items behind a table's numbers, such as the questions with a right pool and a wrong open answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedItem:
    """One item of one model."""

    request_id: str  # the request whose output is shown
    sample_id: str
    category: str
    task: str
    setting: str
    variant: str
    question: str
    expected: str
    answer: str  # as it was read
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """The items of one model in one list."""

    id: str  # file name without ending, such as `maia_pool_only`
    title: str
    about: str  # which numbers of which table they are
    items: Sequence[ListedItem]


def listed(row: Mapping[str, Any], *, question: str, expected: str, answer: str, detail: str = "") -> ListedItem:
    """Return an item from a row of scores."""
    names = ("request_id", "sample_id", "category", "task", "setting", "variant")
    texts = {name: str(row[name]) for name in names}
    return ListedItem(**texts, question=question, expected=expected, answer=answer, detail=detail)


def rows_of(frame: "pd.DataFrame") -> Iterable[dict[str, Any]]:
    """Yield the rows of scores as mappings, in the order of setting, sample and variant; what was not read is ''."""
    readable = frame.assign(answer=frame["answer"].where(frame["answer"].notna(), ""))
    ordered = readable.sort_values(["setting", "task", "sample_id", "variant"], kind="stable")
    return ({str(name): value for name, value in row.items()} for row in ordered.to_dict("records"))
