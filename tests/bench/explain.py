"""Explain the difference of two outputs of many rows: seconds of processor time, reading from disk included.

`python -m tests.bench.explain [--rows 20000]`; both outputs hold answers made elsewhere to a table of questions.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from jobs.cli.main import run

FORMS = ("{}", "The answer is {}.", "({})", "Either A or {}", "I would say that the right one is {}, as it seems to me")


def write_output(folder: Path, name: str, rows: int, seed: int) -> str:
    """Score answers to a table of questions, right in seven of ten; return the output."""
    rng = np.random.default_rng(seed)
    right, forms = rng.random(rows) < 0.7, rng.integers(len(FORMS), size=rows)
    cell = {"benchmark": "many", "model": "m", "task": "choice", "setting": "default"}
    answers = [
        {**cell, "sample_id": str(n), "output": FORMS[forms[n]].format("ABCD"[n % 4 if right[n] else (n + 1) % 4])}
        for n in range(rows)
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, answers)))
    arguments = ["score", "--predictions", str(folder / f"{name}.jsonl"), "--data", str(folder / "data")]
    assert run([*arguments, "--out", str(folder / name)]) == 0
    return str(folder / name)


def main() -> None:
    """Print the processor time of one explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    rows = parser.parse_args().rows
    with TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as printed:
        folder = Path(name)
        with (folder / "questions.csv").open("w") as file:
            lines = csv.writer(file)
            lines.writerow(("id", "question", "A", "B", "C", "D", "answer"))
            options = ("a {} thing", "b {} thing", "c {} thing", "d {} thing")
            lines.writerows(
                (n, f"Which is {n}?", *(text.format(n) for text in options), "ABCD"[n % 4]) for n in range(rows)
            )
        ingest = ["ingest", "table", str(folder / "questions.csv"), "--as", "many", "--data", str(folder / "data")]
        assert run(ingest) == 0
        outs = [write_output(folder, side, rows, seed) for seed, side in enumerate("ab")]
        start = time.process_time()
        assert run(["compare", *outs, "--explain", "--json"]) == 0
        seconds = time.process_time() - start
    first = json.loads(printed.getvalue().splitlines()[-1])[0]
    print(f"{rows:,} rows: {seconds:.1f} s of processor time for a difference of {first['difference']:+.4f}")


if __name__ == "__main__":
    main()
