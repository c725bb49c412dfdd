"""Write what a GPU machine measured into docs/benchmarks.md, between its two marks.

    python -m tests.bench.gpu_page [bench-results.json]

The file is that of `python -m pytest tests/gpu` and `python -m tests.bench.gpu`; a way that failed has its error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.bench.results import FILE, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- results of a GPU: tests/bench/gpu_page.py -->\n", "<!-- end of the results of a GPU -->\n"


def lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the section."""
    if tests := results.get("gpu-tests"):
        passed = sum(outcome.startswith("passed") for outcome in tests["tests"].values())
        yield f"`tests/gpu` on {tests['device']}, torch {tests['torch']}: {passed} of {len(tests['tests'])} passed."
        yield from (f"- `{name}`: {outcome.splitlines()[0]}" for name, outcome in tests["tests"].items()
                    if not outcome.startswith("passed"))  # fmt: skip
        yield ""
    if bench := results.get("gpu"):
        yield f"{bench['device']}, torch {bench['torch']}, {bench['dtype']}, answers of {bench['new_tokens']} tokens:"
        yield ""
        yield "| shape | way | questions/s | tokens/s | TFLOP/s | of peak | peak memory |"
        yield "|---|---|---|---|---|---|---|"
        for shape, result in bench["shapes"].items():
            for name, way in result.get("ways", {}).items():
                yield f"| {shape} | {name} | {_cells(way)} |"
            if isinstance(result.get("vllm"), Mapping):
                rates = [f"{result['vllm'][key]:.4g}" for key in ("questions_per_second", "tokens_per_second")]
                yield f"| {shape} | vllm | {' | '.join(rates)} | | | |"
            elif "vllm" in result:
                yield f"| {shape} | vllm | {result['vllm']} | | | | |"
            if "error" in result:
                yield f"| {shape} | | {result['error']} | | | | |"
        yield ""


def _cells(way: Mapping[str, Any]) -> str:
    if "error" in way:
        return f"{way['error'].splitlines()[0]} | | | | "
    median = [
        way[name]["median"] if way[name] else "" for name in ("questions_per_second", "tokens_per_second", "tflops")
    ]
    share = f"{way['share_of_peak']:.0%}" if way["share_of_peak"] else ""
    memory = f"{way['peak_memory_bytes'] / 1e9:.1f} GB" if way["peak_memory_bytes"] else ""
    return " | ".join([*(f"{value:.4g}" if value else "" for value in median), share, memory])


def write_page(results: Mapping[str, Any], page: Path = PAGE) -> None:
    """Replace what is between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(
        before + BEGIN + "\n" + "".join(f"{line}\n" for line in lines(results)) + END + after, encoding="utf-8"
    )


if __name__ == "__main__":
    write_page(json.loads(Path(sys.argv[1] if len(sys.argv) > 1 else FILE).read_text()))
