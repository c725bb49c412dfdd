"""The page of a fresh twin: the gap between published scenes and new ones of equal parameters."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from pipelines.benchmarks.tables import TableRow, TableValue
from pipelines.errors import StoreError
from pipelines.json_records import MalformedError, dump_checked, load_checked, read_record
from pipelines.report.model import Section
from pipelines.report.tables.worded import worded, words_of
from pipelines.storage.store import Store

PATH: Final = "twin.json"
MEANING: Final[tuple[str, ...]] = words_of("twin")["notes"][1:]  # what a gap may mean, and what it cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One number of a model on the published scenes and on their twin."""

    model: str
    task: str
    setting: str
    n: int  # rows of both where they are paired, else of the twin
    published: float
    twin: float
    gap: float  # twin minus published
    ci_low: float
    ci_high: float
    is_paired: bool

    @property
    def reading(self) -> str:
        """What the interval says."""
        if self.ci_high < 0:
            return "lower on fresh scenes"
        return "higher on fresh scenes" if self.ci_low > 0 else "no gap shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinRecord:
    """What `twin` measured."""

    fingerprint: str  # of the published data: another one makes the record obsolete
    gaps: tuple[Gap, ...]
    shared: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Parameter -> scenes or questions in which it is equal, and of how many."""


def save_twin(out: Store, record: TwinRecord) -> None:
    """Write the record of an output, which its reports show from then on."""
    out.put(PATH, dump_checked(asdict(record)))


def twin_section(out: Store, fingerprint: str) -> tuple[Section, ...]:
    """Return the page of an output's record; none without one, or with one of other data. StoreError if damaged."""
    try:
        record = read_record(TwinRecord, load_checked(out.get(PATH)))
    except FileNotFoundError:
        return ()
    except MalformedError as error:
        raise StoreError(
            f"{out.uri}/{PATH}: damaged ({error}); move it away, `vlmsweep twin` writes it again"
        ) from error
    if record.fingerprint != fingerprint:
        return ()
    shares = [
        TableRow(label=name, cells=(equal, total, equal / total if total else None))
        for name, (equal, total) in record.shared.items()
    ]
    tables = (worded("twin_parameters", shares),) if shares else ()
    gaps = worded("twin", map(_row, record.gaps))
    return (Section(name="twin", title="Fresh twin of MATE", summary=(gaps,), tables=tables),)


def _row(row: Gap) -> TableRow:
    gap = TableValue(value=row.gap, low=row.ci_low, high=row.ci_high)
    cells = (row.task, row.setting, gap, row.reading, row.published, row.twin, row.n, row.is_paired)
    return TableRow(label=row.model, cells=cells)
