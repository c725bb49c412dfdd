"""`vlmsweep site`: an output as a static site."""

from dataclasses import asdict
from pathlib import Path

from jobs.shared.commands import listed
from jobs.shared.options import names
from jobs.shared.output import print_result


@listed("Share", "site out --to site")
def site(
    out: list[str],
    to: str,
    data: str = "",
    models: str | None = None,
    benchmarks: str | None = None,
    media: bool = True,
    json: bool = False,
) -> None:
    """Write reports, leaderboard and all samples with their answers as a static site, without server and network."""
    from jobs.site.build import build_site
    from jobs.site.folder import SiteFolder
    from pipelines.storage.lock import exclusive
    from pipelines.storage.store import Store

    SiteFolder(to)  # a place that cannot be a site is refused before it is locked
    with exclusive(Store(str(Path(to).expanduser().resolve())), "--to"):
        built = build_site(out, to, data=data, models=names(models), benchmarks=names(benchmarks), with_media=media)
    text = f"{built.index}  {built.rows:,} answers in {built.files:,} files, {built.bytes / 1e6:.1f} MB"
    print_result(json, asdict(built), text)
