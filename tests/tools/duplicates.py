"""Report blocks of code that occur twice in the product: `python -m tests.tools.duplicates [--lines 8] [FOLDER ...]`.

Compared are the lines of function bodies and classes as the formatter left them, without comments, docstrings,
imports, signatures and lines that hold only brackets. Exit codes: 0 no duplicate, 1 at least one.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PRODUCT = ("cluster", "jobs", "models", "pipelines")
Line = tuple[int, str]
Block = tuple[Path, int, int]
"""File, first and last line."""


def code_lines(source: str) -> list[Line]:
    """Return (line number, text) of the lines that are compared."""
    skipped = set(_skipped(ast.parse(source)))
    comments = {
        token.start[0]: token.start[1]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    lines = []
    for number, text in enumerate(source.splitlines(), start=1):
        code = text[: comments.get(number)].strip()
        if number not in skipped and any(character.isalnum() for character in code):
            lines.append((number, code))
    return lines


def _skipped(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from range(node.lineno, node.body[0].lineno)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def duplicates(files: Iterable[Path], length: int) -> list[tuple[Block, Block]]:
    """Return pairs of blocks of at least `length` equal lines, each pair once and as long as it gets."""
    lines = {path: code_lines(path.read_text(encoding="utf-8")) for path in files}
    windows: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path, entries in lines.items():
        for start in range(len(entries) - length + 1):
            windows[tuple(text for _, text in entries[start : start + length])].append((path, start))
    pairs = {
        (first, second)
        for locations in windows.values()
        for index, first in enumerate(locations)
        for second in locations[index + 1 :]
        if first[0] != second[0] or second[1] - first[1] >= length
    }
    blocks = []
    for (path, start), (other, other_start) in sorted(pairs):
        if ((path, start - 1), (other, other_start - 1)) in pairs:
            continue
        steps = length
        while ((path, start + steps - length + 1), (other, other_start + steps - length + 1)) in pairs:
            steps += 1
        blocks.append((_block(path, lines[path], start, steps), _block(other, lines[other], other_start, steps)))
    return blocks


def _block(path: Path, lines: Sequence[Line], start: int, steps: int) -> Block:
    return path, lines[start][0], lines[start + steps - 1][0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the duplicates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path(folder) for folder in PRODUCT])
    parser.add_argument("--lines", type=int, default=8, help="shortest block that is reported")
    options = parser.parse_args(arguments)
    files = sorted(path for folder in options.folders for path in folder.rglob("*.py"))
    blocks = duplicates(files, options.lines)
    for (path, start, end), (other, other_start, other_end) in blocks:
        print(f"{path}:{start}-{end} equals {other}:{other_start}-{other_end}")
    sys.stderr.write(f"duplicates: {len(blocks)} blocks in {len(files)} files\n")
    return 1 if blocks else 0


if __name__ == "__main__":
    sys.exit(main())
