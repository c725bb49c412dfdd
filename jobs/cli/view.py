"""`vlmsweep view`: outputs in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.flags import Json


def view(
    out: Annotated[list[str], typer.Argument(help="The --out of one run or of several: folders or s3://bucket/key.")],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")] = 8001,
    data: Annotated[
        str, typer.Option("--data", help="Location of the ingested data, if it is not where the run read it.")
    ] = "",
    json: Json = False,
) -> int:
    """Show samples, answers and metrics of outputs in a browser on this machine, until interrupted; writes nothing."""
    from jobs.view.run import view_until_stopped

    return view_until_stopped(out, data, port, as_json=json)
