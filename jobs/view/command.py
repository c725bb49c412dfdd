"""`vlmsweep view`: outputs in a browser."""

from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import DataOfRun, Json, Outs
from pipelines.flags import Flag


@listed("Understand", "view out")
def view(
    out: Outs,
    port: Annotated[int, Flag("TCP port; 0 takes a free one.", "Cluster", low=0, high=65535)] = 8001,
    data: DataOfRun = "",
    json: Json = False,
) -> int:
    """Show samples, answers and metrics of outputs in a browser on this machine, until interrupted; writes nothing."""
    from jobs.view.run import view_until_stopped

    return view_until_stopped(out, data, port, as_json=json)
