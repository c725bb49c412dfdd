"""Run the unit tests of what changed since `main`, nearest first: `make test-fast`; more arguments are pytest's.

A test file is taken where it changed, imports a changed module, or imports one that does; those in the folders of
the change come first. The nearest `MOST_FILES` run, which take a minute and a half of processor time at most.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.support.paths import ROOT

FOLDERS = ("cluster", "jobs", "models", "pipelines", "infra", "tests")
MOST_FILES = 20


def imports_of(root: Path) -> dict[str, set[str]]:
    """Map each file of the repository to the files that it imports, inside functions too."""
    files = [path.relative_to(root) for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    by_module = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path.as_posix() for path in files}
    graph = {}
    for path in files:
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        modules = {name for node in ast.walk(tree) for name in _modules(node)}
        graph[path.as_posix()] = {by_module[name] for name in modules if name in by_module}
    return graph


def _modules(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return set()


def select(changed: Collection[str], graph: Mapping[str, set[str]], most: int) -> tuple[list[str], int]:
    """Return the unit tests to run, nearest first, and how many further ones are left out."""
    near, ring = set(changed), {path for path, imported in graph.items() if imported & set(changed)}
    far = {path for path, imported in graph.items() if imported & ring}
    folders = [{*Path(path).parents} for path in changed]

    def distance(path: str) -> tuple[int, str]:
        mirrored = {*Path(path).relative_to("tests/unit").parents}
        return -max(len(mirrored & folder) for folder in folders), path

    tested = {path for path in graph if path.startswith("tests/unit/") and Path(path).name.startswith("test_")}
    rings = [sorted(paths & tested, key=distance) for paths in (near, ring, far)]
    tests = [*dict.fromkeys(path for paths in rings for path in paths)]
    return tests[:most], len(tests[most:])


def changed_files() -> set[str]:
    """Return the files that differ from the point where this branch left `main`, new ones included."""
    base = _git("merge-base", "main", "HEAD").strip()
    names = [*_git("diff", "--name-only", base).split(), *_git("ls-files", "--others", "--exclude-standard").split()]
    return {name for name in names if name.endswith(".py")}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main(arguments: list[str]) -> int:
    """Run pytest on the tests of what changed; return its exit code, 0 where nothing did."""
    tests, left_out = select(changed_files(), imports_of(ROOT), MOST_FILES)
    print(f"{len(tests)} files of tests" + (f", {left_out} further ones are left to `make test`" if left_out else ""))
    command = [sys.executable, "-m", "pytest", "-m", "not slow and not full and not fuzz", *arguments, *tests]
    return subprocess.run(command, cwd=ROOT).returncode if tests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
