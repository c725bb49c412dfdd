"""What a number would be if other harnesses' readers had read the answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from jobs.analysis.explain.rows import Side, keys_of, read_rows
from pipelines.benchmarks.readers.harnesses import HARNESS_READERS, HarnessReading
from pipelines.benchmarks.records import Row
from pipelines.report.measured import MetricKey

OURS: Final = "ours"
READINGS: Final = (OURS, *HARNESS_READERS)
_NOTHING: Final = ""  # what our reader is given in place of a reply from which a harness takes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherReading:
    """A number by another reader."""

    reading: str
    value: float
    n_changed: int  # rows whose answer is another than ours
    n_guessed: int  # rows in which the reader guesses


def other_readings(
    side: Side, key: MetricKey, frame: pd.DataFrame, names: Sequence[str] = READINGS
) -> Iterator[OtherReading]:
    """Yield a metric of some rows by each reading that applies: all but ours need letters, or yes and no."""
    ours = side.read_again(frame)
    for name in names:
        guessed, read = (0, ours) if name == OURS else _read_by(name, side, frame)
        value = None if read is None else side.value(key, read)
        if read is not None and value is not None:
            changed = sum(first != second for first, second in zip(read["answer"], ours["answer"], strict=True))
            yield OtherReading(reading=name, value=value, n_changed=changed, n_guessed=guessed)


def _read_by(name: str, side: Side, frame: pd.DataFrame) -> tuple[int, pd.DataFrame | None]:
    """Return rows as a harness reads them, and how many it guesses; None where no row has options."""
    rows = [side.rows.get(key) for key in keys_of(frame)]
    readings = [_harness_reading(name, side, row) for row in rows]
    if not any(readings):
        return 0, None
    read = [
        replace(row, output=reading.answer or _NOTHING, dropped=()) if row and reading else row
        for row, reading in zip(rows, readings, strict=True)
    ]
    return sum(reading.is_guess for reading in readings if reading), read_rows(frame, read, side.definition)


def _harness_reading(name: str, side: Side, row: Row | None) -> HarnessReading | None:
    if row is None or row.status != "ok" or side.definition.options is None:
        return None
    options: Mapping[str, str] = side.definition.options(row)
    return HARNESS_READERS[name](row.output or "", options) if options else None
