"""Ten thousand damaged rows through every ingest: `python -m tests.chaos.rows`, part of `make chaos`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from pipelines.benchmarks import benchmark_names
from tests.chaos.results import RESULTS, read_results, write_results
from tests.support.mutated_sources import ingest_damaged


def main() -> int:
    """Ingest them; an exception here is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--only", default="", help="benchmarks, comma-separated")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = read_results(options.results)
    for name in options.only.split(",") if options.only else benchmark_names():
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="vlmsweep-rows-") as folder:
            rows, rejected = ingest_damaged(name, Path(folder), options.rows)
        results["rows"][name] = {"rows": rows, "rejected": rejected, "used": rows - rejected}
        write_results(results, options.results)
        seconds = time.monotonic() - started
        sys.stdout.write(f"{name}: {rejected:,} of {rows:,} damaged rows rejected, in {seconds:.0f} s\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
