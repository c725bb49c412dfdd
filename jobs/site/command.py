"""`vlmsweep site`: an output as a static site."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import DataOfRun, Json, Outs, names
from jobs.shared.output import print_result
from pipelines.flags import Flag


@listed("Share", "site out --to site")
def site(
    out: Outs,
    to: Annotated[str, Flag("A new local folder, or one that `site` wrote.", "Output", kind="location")],
    data: DataOfRun = "",
    models: Annotated[str | None, Flag("Only these models' answers, comma-separated.", "Models", kind="models")] = None,
    benchmarks: Annotated[str | None, Flag("Only these benchmarks' samples.", "Data")] = None,
    media: Annotated[
        bool,
        Flag(
            "Include small copies of pictures and of clips' frames, where the benchmarks' licences allow it.",
            name="--media/--no-media",
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Write reports, leaderboard and all samples with their answers as a static site, without server and network."""
    from jobs.site.build import SiteFolder, build_site
    from pipelines.storage.lock import exclusive
    from pipelines.storage.store import Store

    SiteFolder(to)  # a place that cannot be a site is refused before it is locked
    with exclusive(Store(str(Path(to).expanduser().resolve())), "--to"):
        built = build_site(out, to, data=data, models=names(models), benchmarks=names(benchmarks), with_media=media)
    text = f"{built.index}  {built.rows:,} answers in {built.files:,} files, {built.bytes / 1e6:.1f} MB"
    print_result(json, asdict(built), text)
