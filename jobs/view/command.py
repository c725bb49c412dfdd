"""`vlmsweep view`: outputs in a browser."""

from jobs.shared.commands import listed


@listed("Understand", "view out")
def view(out: list[str], port: int = 8001, data: str = "", json: bool = False) -> int:
    """Show samples, answers and metrics of outputs in a browser on this machine, until interrupted; writes nothing."""
    from jobs.view.run import view_until_stopped

    return view_until_stopped(out, data, port, as_json=json)
