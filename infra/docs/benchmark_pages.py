"""One page a benchmark: what it asks, in which words, what it reads and which numbers it gives."""

from __future__ import annotations

from collections.abc import Iterator

from infra.docs.markdown import code, explanations, fence, page, table
from infra.docs.records import metric_table
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.results import Results


def benchmark_pages() -> dict[str, str]:
    """Return path -> page of the benchmarks of this repository."""
    described = explanations("benchmarks")
    return {
        f"reference/benchmarks/{name}.md": _page(benchmark(name)) for name in benchmark_names() if name in described
    }


def _page(definition: BenchmarkDefinition) -> str:
    texts = explanations("benchmarks")[definition.name]
    metrics = explanations("metrics")
    ingest = fence(f"vlmsweep ingest {definition.name} SOURCE --data data", "sh")
    return page(
        definition.title,
        f"{definition.measure} Source: {definition.citation}.",
        "## What `ingest` reads",
        ingest,
        table(("file", "content"), texts["files"]),
        _column_map(definition),
        "## Tasks and settings",
        table(("task", "settings"), _tasks(definition)),
        table(("setting", "what a model sees", ""), _settings(definition, texts["settings"])),
        "## Parts that need a model",
        table(("part", "flag", "used by"), _helpers(definition)),
        "## Metrics",
        f"The headline is {code(definition.headline)}.",
        metric_table(metrics[definition.name] | metrics["every benchmark"]),
        "## Tables",
        "Tables of the paper; `report/tables/` also has those of our own numbers.",
        table(("file", "table"), _tables(definition)),
        "## People",
        f"Files of `--human` and annotation forms: [human files](../../human-files.md#{_anchor(definition)}).",
        "## Prompts",
        _prompt_sets(definition),
        *_prompts(definition),
    )


def _column_map(definition: BenchmarkDefinition) -> str:
    names = ", ".join(code(name) for name in definition.column_map_names)
    return f"Names that `--column-map` accepts: {names}." if names else ""


def _tasks(definition: BenchmarkDefinition) -> Iterator[tuple[str, str]]:
    for task, settings in definition.tasks.items():
        yield code(task), ", ".join(code(setting) for setting in settings)
    for task, sources in definition.derived_tasks.items():
        yield code(task), f"computed from {', '.join(code(source) for source in sources)}"


def _settings(definition: BenchmarkDefinition, texts: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    named = {*definition.explicit_settings, *definition.people_settings}
    for setting in (*dict.fromkeys(name for names in definition.tasks.values() for name in names), *sorted(named)):
        if setting in texts:
            yield code(setting), texts.pop(setting), "only where `--settings` names it" if setting in named else ""


def _helpers(definition: BenchmarkDefinition) -> Iterator[tuple[str, str, str]]:
    if definition.judge:
        yield "judge", "`--judge`", ", ".join(code(name) for name in definition.judged_metrics)
    if definition.captions.settings:
        yield "captioner", "`--captioner`", ", ".join(code(name) for name in definition.captions.settings)
    for kind, model in definition.default_scorers.items():
        yield f"scorer {kind}, by default {code(model)}", f"`--scorer {kind}=...`", "similarity of texts"
    if not (definition.judge or definition.captions.settings or definition.default_scorers):
        yield "none", "", ""


def _tables(definition: BenchmarkDefinition) -> list[tuple[str, str]]:
    results = Results.of(definition.name, {}, definition.published)
    return [(code(f"{item.id}.csv"), item.title) for item in definition.tables(results)]


def _anchor(definition: BenchmarkDefinition) -> str:
    return definition.title.lower()


def _prompt_sets(definition: BenchmarkDefinition) -> str:
    if not definition.prompt_sets:
        return ""
    sets = ", ".join(code(name) for name in definition.prompt_sets)
    return f"Sets that `--prompt-version {definition.name}=SET` asks in, beside `default`: {sets}."


def _prompts(definition: BenchmarkDefinition) -> Iterator[str]:
    """Yield each version; `{name}` stands for a field of the sample."""
    for version, text in definition.prompt_texts.items():
        yield f"### {version}\n\n{fence(text)}"
