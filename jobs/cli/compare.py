"""`vlmsweep compare`: what differs between two runs, or between a run and the papers."""

from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Json, names, refuse
from pipelines.errors import UsageError
from pipelines.flags import Argument, Flag
from pipelines.registry import extension


@listed("Understand", "compare out OTHER_OUT")
def compare(
    out_a: Annotated[str, Argument("The --out of a run.", kind="location")],
    out_b: Annotated[str | None, Argument("The --out of another run. Default: OUT itself.", kind="location")] = None,
    models: Annotated[
        str | None,
        Flag("One model, or A,B: A of the first, B of the second; A:SETTING,B:SETTING.", "Models", kind="models"),
    ] = None,
    published: Annotated[bool, Flag("Compare one run with its models' rows in the papers, cell by cell.")] = False,
    margin: Annotated[
        float | None, Flag("With --published: how far a reproduced value may be from the paper's. [0.03]", low=0)
    ] = None,
    explained: Annotated[
        bool, Flag("Why a number differs, stage by stage; of OUT, OUT:MODEL, LOG, published.", name="--explain")
    ] = False,
    metric: Annotated[str | None, Flag("With --explain: the metric, or A's and B's. [the headline]")] = None,
    benchmarks: Annotated[str | None, Flag("With --explain: only these.", "Data")] = None,
    tasks: Annotated[str | None, Flag("With --explain: only these.", "Data")] = None,
    settings: Annotated[str | None, Flag("With --explain: only these.", "Data")] = None,
    reading: Annotated[str | None, Flag("With --explain: by these readers too: ours, lmms-eval, vlmevalkit.")] = None,
    data: Annotated[
        str | None, Flag("With --explain: the ingested questions that a log answers. [B's]", "Data", kind="location")
    ] = None,
    tool: Annotated[
        str | None, Flag("With --explain: the harness of a log that is not recognised.", "Judging", "--from")
    ] = None,
    json: Json = False,
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
