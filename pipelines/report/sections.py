"""Sections of the report that installed packages add: functions from `ReportInputs` to sections, by entry points."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.plan.run_manifest import RunManifest
from pipelines.registry import load_all
from pipelines.report.entry_results import EntryResults
from pipelines.report.model import Section
from pipelines.storage.store import Store

GROUP: Final = "vlmsweep.report_sections"


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """What a section may be made from."""

    out: Store
    run: RunManifest
    benchmarks: Sequence[str]  # with numbers
    results: Sequence[EntryResults]


def registered_sections(inputs: ReportInputs) -> Iterator[Section]:
    """Yield the sections of all packages, sorted by the names that they are registered under."""
    for make in load_all(GROUP).values():
        yield from make(inputs)
