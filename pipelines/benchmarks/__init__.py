"""The benchmarks: one package each, found by its attribute `BENCHMARK`.

Modules of other packages join by the entry point group `vlmsweep.benchmarks`, wherever the package is installed. Table
benchmarks are data (`known_tables`): their definitions come with data sets and outputs.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Final

from models.errors import suggest
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.known_tables import TableDefinition, known_tables
from pipelines.errors import UnknownNameError, UsageError

ENTRY_POINT_GROUP: Final = "vlmsweep.benchmarks"  # entry points by which other packages add benchmarks


def unknown_name(kind: str, name: str, known_names: list[str]) -> UnknownNameError:
    """Return the error for an unknown name, with the nearest known one."""
    return UnknownNameError(f"unknown {kind} {name!r}{suggest(name, known_names)}")


@lru_cache(maxsize=4)
def _definitions(paths: tuple[str, ...]) -> dict[str, BenchmarkDefinition]:
    """Return all benchmarks by name; cached, because workers need one with every batch."""
    definitions: dict[str, BenchmarkDefinition] = {}
    modules: dict[str, str] = {}
    for module_name in _module_names(paths):
        definition = getattr(importlib.import_module(module_name), "BENCHMARK", None)
        if definition is None:
            continue
        name = definition.name
        if name in definitions:
            raise UsageError(
                f"{modules[name]} and {module_name} both define a benchmark named {name!r}; uninstall one of them"
            )
        definitions[name], modules[name] = definition, module_name
    return dict(sorted(definitions.items()))


def _module_names(paths: tuple[str, ...]) -> Iterator[str]:
    yield from (f"{__name__}.{info.name}" for info in pkgutil.iter_modules(paths) if info.ispkg)
    yield from sorted({entry.module for entry in entry_points(group=ENTRY_POINT_GROUP)})


def code_benchmarks() -> list[str]:
    """Return the names of the benchmarks that are code, here or in another package."""
    return list(_definitions(tuple(__path__)))


def benchmark_names() -> list[str]:
    """Return the names of all benchmarks, the known table benchmarks last."""
    return [*code_benchmarks(), *known_tables()]


def benchmark(name: str) -> BenchmarkDefinition:
    """Return a benchmark by name, or raise UnknownNameError."""
    definitions = _definitions(tuple(__path__))
    if name in definitions:
        return definitions[name]
    tables = known_tables()
    if name in tables:
        return table_benchmark(tables[name])
    gallery = importlib.import_module(f"{__name__}.gallery")
    if name in gallery.gallery_names():
        raise UnknownNameError(f"{name} is not ingested; run `vlmsweep ingest {name} SOURCE --data URI` first")
    raise unknown_name("benchmark", name, [*benchmark_names(), *gallery.gallery_names()])


def table_benchmark(definition: TableDefinition) -> BenchmarkDefinition:
    """Return the benchmark that a definition of a table describes."""
    entry = _MADE.get(definition.name)
    if entry is None or entry[0] != definition:
        module = importlib.import_module(f"{__name__}.table.benchmark")
        entry = _MADE[definition.name] = (definition, module.table_definition(definition))
    return entry[1]


_MADE: Final[dict[str, tuple[TableDefinition, BenchmarkDefinition]]] = {}  # workers need one with every batch
