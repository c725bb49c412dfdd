"""Reduce the lock file to what an image needs, with the standard library alone.

`requirements.lock` holds the development tools as well, and says by whom each package is wanted. Followed from the
product's own entry, that gives what runs and nothing else; every line keeps its hashes.

Usage:
    requirements.py requirements.lock            what runs, for the CUDA image
    requirements.py --cpu requirements.lock      the same without torch and CUDA's libraries
    requirements.py --torch requirements.lock    torch and torchvision by version, for a CPU-only index
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = "vlmsweep (pyproject.toml)"
CUDA_ONLY = re.compile(r"(nvidia-|cuda-|triton$|torch$|torchvision$)")
TORCH = ("torch", "torchvision")


def blocks(text: str) -> dict[str, tuple[str, set[str]]]:
    """Return package -> its lines and its dependants; a package with several versions, one per Python, has all."""
    results: dict[str, tuple[str, set[str]]] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip("\n")):
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==", block)
        if not match:
            raise SystemExit(f"not an entry of a lock file: {block[:80]!r}")
        expected = {line.strip().lstrip("# ").removeprefix("via").strip() for line in block.splitlines() if "#" in line}
        before, other_entries = results.get(match[1].lower(), ("", set()))
        results[match[1].lower()] = (f"{before}\n{block}".lstrip(), other_entries | {item for item in expected if item})
    return results


def runtime(text: str, *, cpu: bool) -> list[str]:
    """Return the entries that the product needs to run."""
    entries = blocks(text)
    retained: set[str] = set()
    grown = True
    while grown:
        more = {
            name for name, (_, expected) in entries.items() if name not in retained and expected & (retained | {ROOT})
        }
        retained |= more
        grown = bool(more)
    if cpu:
        retained = {name for name in retained if not CUDA_ONLY.match(name)}
    return [entries[name][0] for name in sorted(retained)]


def main(arguments: list[str]) -> None:
    """Print the entries."""
    text = Path(arguments[-1]).read_text(encoding="utf-8")
    if "--torch" in arguments:
        entries = blocks(text)
        lines = [re.match(r"\S+==[0-9.]+", entries[name][0])[0] for name in TORCH]  # type: ignore[index]
    else:
        lines = runtime(text, cpu="--cpu" in arguments)
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
