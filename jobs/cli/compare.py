"""`vlmsweep compare`: what differs between two runs, or between a run and the papers."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.flags import Json
from jobs.options import names, refuse
from pipelines.errors import UsageError


def compare(
    out_a: Annotated[str, typer.Argument(help="The --out of a run.")],
    out_b: Annotated[str | None, typer.Argument(help="The --out of another run; left out, the same.")] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="One model, or A,B: A of the first, B of the second; A:SETTING,B:SETTING."),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Compare one run with its models' rows in the papers, cell by cell.")
    ] = False,
    explained: Annotated[
        bool,
        typer.Option("--explain", help="Why a number differs, stage by stage; of OUT, OUT:MODEL, LOG, published."),
    ] = False,
    metric: Annotated[
        str | None, typer.Option("--metric", help="With --explain: the metric, or A's and B's. [the headline]")
    ] = None,
    benchmarks: Annotated[str | None, typer.Option("--benchmarks", help="With --explain: only these.")] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", help="With --explain: only these.")] = None,
    settings: Annotated[str | None, typer.Option("--settings", help="With --explain: only these.")] = None,
    reading: Annotated[
        str | None, typer.Option("--reading", help="With --explain: by these readers too: ours, lmms-eval, vlmevalkit.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="With --explain: the ingested questions that a log answers. [B's]")
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--from", help="With --explain: the harness of a log that is not recognised.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what differs between two runs on the same rows, with paired tests and intervals; or see --published."""
    from jobs.render import show_comparison, show_reproduction
    from pipelines.report.compare import compare as compared
    from pipelines.report.reproduction import load_reproduction
    from pipelines.storage.store import Store

    if explained:
        if (out_b is None) != published:
            raise UsageError("--explain needs two sides: outputs, OUT:MODEL, a harness's log, or published[:ROW]")
        refuse({"models": models}, "--explain takes the models of outputs as OUT:MODEL")
        from jobs.decisions.explain import explain
        from pipelines.decisions.explain.create import Selection
        from pipelines.decisions.explain.readings import READINGS

        selection = Selection(
            metrics=names(metric),
            benchmarks=names(benchmarks),
            tasks=names(tasks),
            settings=names(settings),
            readings=names(reading) or READINGS,
            data=data or "",
            tool=tool,
        )
        explain(out_a, out_b or "published", selection, as_json=json)
        return
    flags = {"metric": metric, "benchmarks": benchmarks, "tasks": tasks, "settings": settings, "reading": reading}
    refuse({**flags, "data": data, "from": tool}, "only with --explain; without it all that both scored is compared")
    if published and out_b is None:
        show_reproduction(load_reproduction(Store(out_a), names(models)), as_json=json)
        return
    if published or (out_b is None and len(names(models)) != 2):
        raise UsageError("give two outputs, one output and --models A,B, or one output and --published")
    show_comparison(compared(Store(out_a), Store(out_b or out_a), names(models)), as_json=json)
