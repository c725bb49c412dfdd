"""Benchmarks, one file each, found by their modules' `BENCHMARK` attribute."""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from pipelines.benchmarks.base import Benchmark

__all__ = ["UnknownNameError", "benchmark", "benchmark_names", "closest"]


class UnknownNameError(ValueError):
    """Something was named that does not exist; the nearest known name is offered."""


def closest(kind: str, name: str, known: list[str]) -> UnknownNameError:
    """The error for an unknown name."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UnknownNameError(f"unknown {kind} {name!r}{hint} Known: {', '.join(known)}")


def _found() -> dict[str, Benchmark]:
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    found = [module.BENCHMARK for module in modules if hasattr(module, "BENCHMARK")]
    return {one.name: one for one in sorted(found, key=lambda one: one.name)}


def benchmark_names() -> list[str]:
    """Names of all benchmarks."""
    return list(_found())


def benchmark(name: str) -> Benchmark:
    """A benchmark by name.

    Raises:
        UnknownNameError: there is none of this name.
    """
    found = _found()
    if name not in found:
        raise closest("benchmark", name, list(found))
    return found[name]
