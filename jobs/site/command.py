"""`vlmsweep site`: an output as a static site."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.flags import Json, OtherData, OutUris
from jobs.options import names
from jobs.output import print_json, print_line


def site(
    out: OutUris,
    to: Annotated[str, typer.Option("--to", help="A new local folder, or one that `site` wrote.")],
    data: OtherData = "",
    models: Annotated[str | None, typer.Option("--models", help="Only these models' answers, comma-separated.")] = None,
    benchmarks: Annotated[str | None, typer.Option("--benchmarks", help="Only these benchmarks' samples.")] = None,
    media: Annotated[
        bool,
        typer.Option(
            "--media/--no-media",
            help="Include small copies of pictures and of clips' frames, where the benchmarks' licences allow it.",
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Write reports, leaderboard and all samples with their answers as a static site, without server and network."""
    from jobs.site.build import build_site

    built = build_site(out, to, data=data, models=names(models), benchmarks=names(benchmarks), with_media=media)
    if json:
        print_json({"index": built.index, "rows": built.rows, "files": built.files, "bytes": built.bytes})
        return
    print_line(f"{built.index}  {built.rows:,} answers in {built.files:,} files, {built.bytes / 1e6:.1f} MB")
