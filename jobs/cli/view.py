"""`vlmsweep view`: outputs in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.flags import Json, OtherData, OutUris


def view(
    out: OutUris,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")] = 8001,
    data: OtherData = "",
    json: Json = False,
) -> int:
    """Show samples, answers and metrics of outputs in a browser on this machine, until interrupted; writes nothing."""
    from jobs.view.run import view_until_stopped

    return view_until_stopped(out, data, port, as_json=json)
