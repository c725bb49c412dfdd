"""`vlmsweep demo`: the main job on sample data."""

import time
from typing import Annotated, Final

from jobs.cli.run import exit_code, print_result
from jobs.shared.commands import listed
from jobs.shared.options import Json, Verbose
from jobs.shared.output import print_line, results_only_on_stdout
from jobs.shared.progress import Progress
from pipelines.flags import Flag

_SHOWN_PHASE_S: Final = 5.0


@listed("Set up", "demo --out demo-out")
def demo(
    out: Annotated[str, Flag("A local folder for data, model and results.", "Output", kind="location")] = "demo-out",
    all_settings: Annotated[
        bool, Flag("Run every setting of the benchmarks, not one of each, and print all tables.", name="--all")
    ] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Run all benchmarks on sample data with a tiny trained model and a baseline that guesses."""
    from jobs.demo.main import run_demo
    from jobs.demo.screen import screen

    start = time.monotonic()
    min_s = 0.0 if verbose or all_settings else _SHOWN_PHASE_S
    with Progress(quiet=json, min_s=min_s) as progress, results_only_on_stdout():
        spec, result = run_demo(out, all_settings=all_settings, progress=progress)
    if json or all_settings or result.unavailable:
        return print_result(result, spec, as_json=json)
    print_line(screen(result, spec, out, time.monotonic() - start))
    return exit_code(result, spec)
