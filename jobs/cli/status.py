"""`vlmsweep status`: how far a run is."""

import time
from datetime import UTC, datetime
from typing import Annotated, Final

from jobs.shared.commands import listed
from jobs.shared.options import Json, Out
from jobs.shared.output import clear_screen, print_json, print_line, table
from pipelines.flags import Flag
from pipelines.progress import span

WATCH_S = 5.0
_HEADS: Final = ("model", "benchmark", "task", "setting", "requests", "pending", "running", "done", "failed")
_TOTALS: Final = (("done", "failed"), ("pending", "running"))


@listed("Evaluate", "status out")
def status(
    uri: Out,
    watch: Annotated[bool, Flag("Show it again every few seconds, until nothing is left to do.")] = False,
    json: Json = False,
) -> None:
    """Show the progress of a run, once or until it is done."""
    from pipelines.sweep.status import status_rows

    start, done_before = time.monotonic(), None
    while True:
        updated, rows = status_rows(uri)
        done, left = (sum(row[name] + row[other] for row in rows) for name, other in _TOTALS)
        if json:
            print_json({"updated": updated, "cells": rows})
        else:
            if watch:
                clear_screen()
            print_line(table(_HEADS, [[row[head] for head in _HEADS] for row in rows]))
            rate = 0.0 if done_before is None else (done - done_before) / (time.monotonic() - start)
            speed = f"; {rate:.3g}/s, {span(left / rate)} left" if rate > 0 else ""
            life = f"; last sign of life {span(_age_s(updated))} ago" if any(row["running"] for row in rows) else ""
            print_line(f"as of {updated}: {done:,} of {done + left:,} done{speed}{life}")
        if not watch or not left:
            return
        done_before = done if done_before is None else done_before
        time.sleep(WATCH_S)


def _age_s(moment: str) -> float:
    """Return the seconds since a moment, for a killed run is not seen to have ended at once."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
