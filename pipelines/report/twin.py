"""The page of a fresh twin: the gap between published scenes and new ones of equal parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.errors import StoreError
from pipelines.json_records import MalformedError, dump_checked, load_checked, read_record
from pipelines.report.model import Section
from pipelines.storage.store import Store

PATH: Final = "twin.json"
_GAP: Final = (
    "Gap: twin minus published, of exact match; in brackets its 95% interval: jackknife over scenes with Student's t. "
    "Paired: a scene and its twin have one id and are one cluster; else all scenes are independent."
)
_MAY_MEAN: Final = (
    "A model that does worse on the twin may know published scenes or their answers: that is what a twin is for. It "
    "may as well find our pictures harder, which are drawn and not rendered, or our prompts, where their words differ. "
    "txt2txt shows no picture and img2img no text: a gap in txt2txt alone is not due to pictures, one that img2img has "
    "too may be due to them."
)
_CANNOT_MEAN: Final = (
    "A gap that all models share, models among them that are older than the published data, is due to the scenes. No "
    "gap does not show that a model has not seen the data: only that what it may have seen is worth no more than the "
    "interval says, on questions of this kind. Equal parameters are no equal difficulty: what the table below does not "
    "name, such as positions, may differ."
)
_SHARED: Final = (
    "Scenes of both data sets with one id. Attributes that link: of the cross-modal question with the most solved "
    "examples; in other settings the published data may ask about another object."
)
MEANING: Final = (_MAY_MEAN, _CANNOT_MEAN)


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
    return (Section(name="twin", title="Fresh twin of MATE", summary=(_gaps(record),), tables=(*_shared(record),)),)


def _gaps(record: TwinRecord) -> Table:
    return Table(
        id="mate_twin",
        title="MATE: published scenes and fresh scenes of equal parameters",
        columns=("Task", "Setting", "Gap, points", "Reading", "Published %", "Twin %", "n", "Paired"),
        rows=tuple(
            TableRow(
                label=row.model,
                cells=(
                    *(row.task, row.setting, TableValue(value=row.gap, low=row.ci_low, high=row.ci_high), row.reading),
                    *(row.published, row.twin, row.n, row.is_paired),
                ),
            )
            for row in record.gaps
        ),
        style="percent1",
        notes=(_GAP, *MEANING),
    )


def _shared(record: TwinRecord) -> Iterator[Table]:
    if record.shared:
        yield Table(
            id="mate_twin_parameters",
            title="Parameters that published scenes and their twins share",
            label_head="Parameter",
            columns=("Equal", "Of", "Share %"),
            rows=tuple(
                TableRow(label=name, cells=(equal, total, equal / total if total else None))
                for name, (equal, total) in record.shared.items()
            ),
            style="percent1",
            notes=(_SHARED,),
        )
