"""Tables at growing sizes: processor time and memory of each command from the source to the report.

    python -m tests.bench.scale.tables --rows 100000,1000000 --folder BIG

A table of choices without pictures in 20 categories, and a file of answers to it. Each command is a process of its own;
its figures are those that the kernel has of it and of its children. Files that exist are kept, so that a command can be
measured again: `--only score`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.bench.results import show

_OPTIONS: Final = "ABCD"
_COMMANDS: Final = {
    "ingest": "ingest table {folder}/table.jsonl --as big --data {folder}/data",
    "dry-run": "run --dry-run --models random --benchmarks big --data {folder}/data --out {folder}/out",
    "score": "score --predictions {folder}/answers.{form} --data {folder}/data --out {folder}/out",
    "report": "report {folder}/out",
    "status": "status {folder}/out",
}


def write_files(folder: Path, rows: int, form: str) -> None:
    """Write the table, and answers to it in another order than the table's."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "table.jsonl").exists():
        with (folder / "table.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(_question(number))}\n" for number in range(rows))
    if not (folder / "answers.jsonl").exists():
        step = next(step for step in range(7919, 8920, 2) if rows % step)
        with (folder / "answers.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(_answer(number * step % rows))}\n" for number in range(rows))
    if form == "parquet" and not (folder / "answers.parquet").exists():
        import pyarrow.json
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.json.read_json(folder / "answers.jsonl"), folder / "answers.parquet")


def _question(number: int) -> dict[str, Any]:
    options = {letter: f"{number * (index + 3) % 10_007} apples" for index, letter in enumerate(_OPTIONS)}
    question = f"How many apples are in basket {number} of the row?"
    category = f"category {number % 20}"
    return {"id": f"q{number:07d}", "question": question, **options, "answer": _right(number), "category": category}


def _right(number: int) -> str:
    return _OPTIONS[number * 2_654_435_761 // 65_536 % len(_OPTIONS)]


def _answer(number: int) -> dict[str, Any]:
    letter = _right(number) if number % 4 else _OPTIONS[number // 4 % len(_OPTIONS)]
    identity = {"benchmark": "big", "model": "elsewhere", "task": "choice", "setting": "default"}
    return {**identity, "sample_id": f"q{number:07d}", "variant": "", "output": f"The answer is ({letter})."}


def measure(command: str) -> dict[str, Any]:
    """Run a command; return its processor seconds and its largest resident size in MB."""
    arguments = [sys.executable, "-m", "jobs.cli", *command.split()]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    return {"cpu_s": round(cpu, 1), "max_mb": round(memory), "exit": process.returncode}


def main() -> None:
    """Measure each command at each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="20000,100000", help="sizes, comma-separated")
    parser.add_argument("--folder", type=Path, required=True, help="for tables, data and outputs, a folder a size")
    parser.add_argument("--form", choices=("jsonl", "parquet"), default="jsonl", help="of the answers")
    parser.add_argument("--only", default=",".join(_COMMANDS), help="commands, comma-separated")
    args = parser.parse_args()
    results = []
    for size in map(int, args.rows.split(",")):
        folder = args.folder / str(size)
        write_files(folder, size, args.form)
        for name in args.only.split(","):
            result = measure(_COMMANDS[name].format(folder=folder, form=args.form))
            results.append({"rows": size, "command": name, **result, "rows_a_s": round(size / result["cpu_s"])})
            print(results[-1], flush=True)
    show("tables", list(results[0]), [list(row.values()) for row in results])


if __name__ == "__main__":
    main()
