"""The shape of the product: imports run one way, folders are small.

The floors themselves are import-linter contracts in pyproject.toml; here they are run, and what they cannot say is
checked.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PRODUCT = ("cluster", "jobs", "models", "pipelines")
MOST_FLOORS = 10
MOST_FILES = 25


def parse(*folders: str) -> dict[Path, ast.Module]:
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def sources() -> Mapping[Path, ast.Module]:
    return parse(*PRODUCT)


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def import_graph() -> Mapping[str, set[str]]:
    """Map modules to the product modules they import, inside functions and for typing too."""
    names = {module_name(path) for path in sources()}
    graph: dict[str, set[str]] = {}
    for path, tree in sources().items():
        module = module_name(path)
        imports = {target for node in ast.walk(tree) for target in _targets(node, names) if target != module}
        graph[module] = imports
    return graph


def _targets(node: ast.AST, names: set[str]) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            yield from {submodule if submodule in names else node.module} & names
    elif isinstance(node, ast.Import):
        yield from {alias.name for alias in node.names} & names


def find_cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle, or nothing."""
    finished: set[str] = set()
    for start in graph:
        stack = [(start, iter(sorted(graph[start])))]
        trail = [start]
        while stack and start not in finished:
            node, targets = stack[-1]
            target = next((target for target in targets if target not in finished), None)
            if target is None:
                finished.add(node)
                stack.pop()
                trail.pop()
            elif target in trail:
                return [*trail[trail.index(target) :], target]
            else:
                stack.append((target, iter(sorted(graph[target]))))
                trail.append(target)
    return []


def test_imports_have_no_cycle() -> None:
    assert len(import_graph()) > 200
    assert find_cycle(import_graph()) == []


def test_find_cycle_sees_a_cycle() -> None:
    assert find_cycle({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]


def test_no_module_imports_from_a_floor_above() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout[-4000:]


def test_floors_are_at_most_ten_and_name_every_package() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (floors,) = (contract["layers"] for contract in contracts if contract["name"] == "floors")
    assert len(floors) <= MOST_FLOORS
    modules = {module.strip(" \n()") for floor in floors for module in re.split(r"[:|]", floor)}
    expected = {
        name
        for package in ("jobs", "pipelines")
        for name in import_graph()
        if name.startswith(f"{package}.") and name.count(".") == 1
    }
    assert modules == expected | {"models", "cluster"}


def test_folders_have_at_most_25_files() -> None:
    folders = {path.parent for path in sources()}
    crowded = {
        str(folder): count
        for folder in folders
        if (count := sum(path.is_file() for path in (ROOT / folder).iterdir())) > MOST_FILES
    }
    assert crowded == {}


@pytest.mark.parametrize("package", ["pipelines", "models", "cluster"])
def test_public_names_exist(package: str) -> None:
    module = importlib.import_module(package)
    lazy = [name for names in module._MODULES.values() for name in names.split()]
    assert sorted(module.__all__) == sorted(lazy)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    typed = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert set(module.__all__) <= set(typed)
    for name in module.__all__:
        value = getattr(module, name)
        assert name == "__version__" or value.__doc__, f"{package}.{name} has no docstring"
        assert getattr(module, name) is value, f"a module hides {package}.{name} once it is imported"
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = module.missing


def test_only_package_faces_have_all() -> None:
    assert [str(p) for p, tree in sources().items() if p.name != "__init__.py" and "__all__" in ast.dump(tree)] == []


def test_every_module_has_a_docstring() -> None:
    missing = [str(path) for path, tree in sources().items() if (ast.get_docstring(tree) or "TODO").startswith("TODO")]
    assert missing == []


def test_annotations_are_deferred_only_where_they_name_what_comes_later(tmp_path: Path) -> None:
    line = "from __future__ import annotations\n"
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in sources()}
    deferred = {tmp_path / path: text.replace(line, "") for path, text in texts.items() if line in text}
    for path, text in deferred.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    rules = ["--isolated", "--target-version", "py311", "--select", "F821,TC004", "--output-format", "json"]
    run = subprocess.run([sys.executable, "-m", "ruff", "check", *rules, tmp_path], capture_output=True, text=True)
    needed = {Path(problem["filename"]).resolve() for problem in json.loads(run.stdout)}
    assert [path for path in deferred if path.resolve() not in needed] == []
