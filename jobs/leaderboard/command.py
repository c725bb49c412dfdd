"""`vlmsweep leaderboard`: outputs and published rows in one table."""

from collections import Counter
from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Json, Outs, names
from jobs.shared.output import print_result
from pipelines.flags import Flag


@listed("Share", "leaderboard out --to leaderboard")
def leaderboard(
    out: Outs,
    to: Annotated[
        str, Flag("Folder or s3://bucket/key for leaderboard.html and leaderboard.csv.", "Output", kind="location")
    ],
    benchmarks: Annotated[str | None, Flag("Only these benchmarks.", "Data")] = None,
    allow_mixed: Annotated[
        bool, Flag("Mark rows that were measured on other data, prompts or settings, instead of refusing them.")
    ] = False,
    eee: Annotated[
        list[str] | None,
        Flag(
            "Every Eval Ever record or folder of records, local or s3://: adds its metrics to the table without a "
            "rank. May be repeated.",
            kind="location",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Join the headline metrics of outputs with the published ones: one sortable page without network, and CSV."""
    from jobs.leaderboard.create import join_outputs, write_leaderboard
    from jobs.leaderboard.rows import EXTERNAL_ORIGINS
    from pipelines.benchmarks import benchmark_names
    from pipelines.plan.run_manifest import load_existing_runs
    from pipelines.plan.selection import check_names
    from pipelines.storage.lock import exclusive
    from pipelines.storage.store import Store

    chosen = names(benchmarks)
    load_existing_runs([Store(uri) for uri in out])  # their table benchmarks are known from then on
    check_names("benchmark", chosen, benchmark_names())
    with exclusive(Store(to), "--to", below=False):
        joined = join_outputs(out, chosen, allow_mixed=allow_mixed, reported=eee or ())
        page, table = write_leaderboard(joined, Store(to))
    origins = Counter(
        row.origin if row.origin in EXTERNAL_ORIGINS else "measured" for row in joined.rows if row.origin != "chance"
    )
    conflicts = [str(conflict) for conflict in joined.conflicts]
    rows = {name: origins[name] for name in ("measured", *EXTERNAL_ORIGINS)}
    result = {"page": page, "csv": table, "rows": rows, "conflicts": conflicts}
    others = f", {origins['reported']:,} reported by others" if eee else ""
    counts = f"{origins['measured']:,} measured and {origins['published']:,} published rows{others}"
    print_result(json, result, *(f"marked: {conflict}" for conflict in conflicts), counts, page, table)
