"""Report names with a leading underscore that nobody uses: `python -m tests.tools.private_names [FOLDER ...]`.

Vulture leaves such variables out. Counted are functions, classes, constants and attributes, as used in their own file;
decorated functions are not reported, for the decorator may call them. Exit codes: 0 none, 1 at least one.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PRODUCT = ("cluster", "jobs", "models", "pipelines", "infra", "examples")


def unused_names(source: str) -> list[tuple[int, str]]:
    """Return line and name of each private definition of a file that the file does not use."""
    tree = ast.parse(source)
    used = set(_used(tree))
    names = sorted((line, name) for line, name in _defined(tree) if name.startswith("_") and name.strip("_"))
    return [(line, name) for line, name in names if name not in used and not name.endswith("__")]


def _defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.decorator_list:
            yield node.lineno, node.name
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        for statement in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = (name for target in targets for name in ast.walk(target))
                yield from ((name.lineno, name.id) for name in names if isinstance(name, ast.Name))


def _used(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.replace(":", " ").replace(".", " ").split()  # annotations and dotted names as text


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the unused private names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path(folder) for folder in PRODUCT])
    files = sorted(path for folder in parser.parse_args(arguments).folders for path in folder.rglob("*.py"))
    lines = [
        f"{path}:{line}: {name} is not used"
        for path in files
        for line, name in unused_names(path.read_text(encoding="utf-8"))
    ]
    print("".join(f"{line}\n" for line in lines), end="")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
