"""`python -m jobs.sweep ...`: the same as `vlmsweep run ...`, for Ray jobs and schedulers."""

import sys

from jobs.cli.main import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
