"""`vlmsweep twin`: what a fresh twin of MATE says."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from jobs.flags import ReportFlags
from jobs.output import print_result
from jobs.tables import table

_HEADS: Final = ("model", "task", "setting", "published", "twin", "gap", "95%", "n", "paired", "reading")


def twin(out: str, fresh: str, json: bool = False) -> None:
    """Measure the gap between published scenes and fresh ones of equal parameters, and write it into the report."""
    from jobs.spec_builder import report_spec
    from pipelines.decisions.twin import measure_twin
    from pipelines.report.twin import MEANING, save_twin
    from pipelines.storage.store import Store
    from pipelines.sweep.run import report_again

    record = measure_twin(Store(out), Store(fresh))
    save_twin(Store(out), record)
    report_again(report_spec(ReportFlags(out=out)))
    rows = [
        [
            *(row.model, row.task, row.setting, f"{row.published:.3f}", f"{row.twin:.3f}", f"{row.gap:+.3f}"),
            *(f"[{row.ci_low:+.3f}, {row.ci_high:+.3f}]", f"{row.n:,}", "yes" if row.is_paired else "no", row.reading),
        ]
        for row in record.gaps
    ]
    result = {**asdict(record), "gaps": [{**asdict(row), "reading": row.reading} for row in record.gaps]}
    print_result(json, result, table(_HEADS, rows), *MEANING)
