"""`vlmsweep power`: how much data a difference needs."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.flags import Json


def power(
    out: Annotated[str, typer.Argument(help="The --out of a run.")],
    difference: Annotated[float, typer.Option("--difference", help="The difference to be found, such as 0.02.")],
    metric: Annotated[str, typer.Option("--metric", help="Default: each benchmark's headline.")] = "",
    json: Json = False,
) -> None:
    """Tell how many rows and clusters a difference needs, and what difference this data can show."""
    from jobs.decisions.render import show_power
    from pipelines.decisions.power import power as estimate
    from pipelines.storage.store import Store

    show_power(estimate(Store(out), difference, metric), difference, as_json=json)
