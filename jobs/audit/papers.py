"""The rules of each paper (`pipelines.benchmarks.published` names them) in `rules.yaml`, and their audit."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import TypeAdapter

from jobs.audit.cells import PrintedValues
from jobs.audit.checks import audit_paper
from jobs.audit.paper import Finding, Paper
from jobs.audit.rules import OtherItems, Rule
from models.catalog_loader import load_models
from models.errors import suggest
from models.strict_yaml import read_yaml
from pipelines.benchmarks import benchmark, benchmark_names
from pipelines.benchmarks.published import load_dataset_facts
from pipelines.errors import UsageError

_KINDS: Final[Mapping[str, TypeAdapter[Any]]] = {kind.__name__: TypeAdapter(kind) for kind in get_args(Rule)}


def _load_rules() -> dict[str, tuple[Rule, ...]]:
    raw, _ = read_yaml(Path(str(files("jobs.audit") / "rules.yaml")), "file", is_shipped=True)
    return {
        name: tuple(_KINDS[kind].validate_python(fields) for rule in rules for kind, fields in rule.items())
        for name, rules in raw.items()
    }


RULES: Final[Mapping[str, tuple[Rule, ...]]] = _load_rules()  # rules by benchmark


def papers() -> tuple[str, ...]:
    """Return the benchmarks with published numbers, under whose names their papers are audited."""
    return tuple(name for name in benchmark_names() if benchmark(name).published)


def audit(names: Sequence[str] = ()) -> tuple[list[Finding], dict[str, int]]:
    """Return the findings in the papers of these benchmarks, and how many numbers of each were checked.

    Without names all papers; UsageError for one that is not there. Case and hyphens of names do not count.
    """
    known_names = papers()
    chosen = [name.lower().replace("-", "") for name in names]
    for name, given_name in zip(chosen, names, strict=True):
        if name not in known_names:
            raise UsageError(f"no published tables of {given_name!r}{suggest(given_name, known_names)}")
    checked = {name: load_paper(name) for name in chosen or known_names}
    findings = [finding for paper in checked.values() for finding in audit_paper(paper)]
    return findings, {name: len(paper.numbers.numbers) for name, paper in checked.items()}


def load_paper(name: str) -> Paper:
    """Return the printed numbers of one paper with its rules."""
    rules = RULES.get(name, ())
    tables = tuple(table for rule in rules if isinstance(rule, OtherItems) for table in rule.tables)
    aliases = {
        printed.name: model
        for model, spec in load_models().items()
        for printed in spec.published_as
        if printed.benchmark == name
    }
    return Paper(name, PrintedValues(benchmark(name).published, aliases, tables), load_dataset_facts(name), rules)
