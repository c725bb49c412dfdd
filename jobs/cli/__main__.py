"""`python -m jobs.cli ...`: the same as `vlmsweep ...`."""

from jobs.cli.main import main

if __name__ == "__main__":
    main()
