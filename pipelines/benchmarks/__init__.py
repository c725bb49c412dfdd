"""Benchmarks, one file each, found by their modules' `BENCHMARK` attribute.

A benchmark outside of this folder is a module with the same attribute in any installed package, which names it as an
entry point of the group `vlmsweep.benchmarks`; workers find it wherever that package is installed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Final

from models.errors import suggest
from pipelines.benchmarks.base import Benchmark
from pipelines.errors import UnknownNameError, UsageError

__all__ = ["GROUP", "UnknownNameError", "benchmark", "benchmark_names", "closest"]

GROUP: Final = "vlmsweep.benchmarks"
"""Entry points by which other packages bring benchmarks of their own."""


def closest(kind: str, name: str, known: list[str]) -> UnknownNameError:
    """The error for an unknown name."""
    return UnknownNameError(f"unknown {kind} {name!r}{suggest(name, known)}")


@lru_cache(maxsize=4)
def _found(paths: tuple[str, ...]) -> dict[str, Benchmark]:
    """All benchmarks by name, looked for once a process: workers ask for one again with every batch."""
    found: dict[str, Benchmark] = {}
    for module in _modules(paths):
        one = getattr(module, "BENCHMARK", None)
        if one is None:
            continue
        if one.name in found:
            other = type(found[one.name]).__module__
            raise UsageError(f"{other} and {module.__name__} both bring a benchmark named {one.name!r}; uninstall one")
        found[one.name] = one
    return dict(sorted(found.items()))


def _modules(paths: tuple[str, ...]) -> Iterator[ModuleType]:
    """Those of this folder, then those that installed packages name."""
    for info in pkgutil.iter_modules(paths):
        if info.ispkg:
            yield importlib.import_module(f"{__name__}.{info.name}")
    outside = entry_points(group=GROUP)
    for module in sorted({entry.module for entry in outside}):
        yield importlib.import_module(module)


def benchmark_names() -> list[str]:
    """Names of all benchmarks."""
    return list(_found(tuple(__path__)))


def benchmark(name: str) -> Benchmark:
    """A benchmark by name.

    Raises:
        UnknownNameError: there is none of this name.
    """
    found = _found(tuple(__path__))
    if name not in found:
        raise closest("benchmark", name, list(found))
    return found[name]
