"""`vlmsweep compare`: what differs between two runs, or between a run and the papers."""

from jobs.shared.commands import listed
from jobs.shared.options import names, refuse
from pipelines.errors import UsageError
from pipelines.registry import extension


@listed("Understand", "compare out OTHER_OUT")
def compare(
    out_a: str,
    out_b: str | None = None,
    models: str | None = None,
    published: bool = False,
    margin: float | None = None,
    explained: bool = False,
    metric: str | None = None,
    benchmarks: str | None = None,
    tasks: str | None = None,
    settings: str | None = None,
    reading: str | None = None,
    data: str | None = None,
    tool: str | None = None,
    json: bool = False,
) -> None:
    """Show what differs between two runs on the same rows, with paired tests and intervals; or see --published."""
    from jobs.shared.render import show_comparison, show_reproduction
    from pipelines.report.compare import compare as compared
    from pipelines.report.reproduction import MARGIN, load_reproduction
    from pipelines.storage.store import Store

    if explained:
        if published and out_b is not None:
            raise UsageError("--published compares one output with the papers")
        refuse({"margin": margin is not None}, "only with OUT --published")
        selection = {"metrics": metric, "benchmarks": benchmarks, "tasks": tasks, "settings": settings}
        extension("explain_comparison")(
            out_a,
            "published" if published else out_b,
            names(models),
            {key: names(value) for key, value in {**selection, "readings": reading}.items() if value},
            data=data or "",
            tool=tool,
            as_json=json,
        )
        return
    flags = {"metric": metric, "benchmarks": benchmarks, "tasks": tasks, "settings": settings, "reading": reading}
    refuse({**flags, "data": data, "from": tool}, "only with --explain; without it all that both scored is compared")
    if published and out_b is None:
        margin = MARGIN if margin is None else margin
        show_reproduction(load_reproduction(Store(out_a), names(models), margin), margin, as_json=json)
        return
    refuse({"margin": margin is not None}, "only with OUT --published")
    if published:
        raise UsageError("--published compares one output with the papers")
    show_comparison(compared(Store(out_a), Store(out_b) if out_b else None, names(models)), as_json=json)
