"""Register the commands of the command line; their help has options in groups and an example."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand

from jobs.cli.annotate import annotate
from jobs.cli.audit import audit
from jobs.cli.compare import compare
from jobs.cli.demo import demo
from jobs.cli.doctor import doctor
from jobs.cli.export import export
from jobs.cli.generate import generate
from jobs.cli.ingest import ingest
from jobs.cli.leaderboard import leaderboard
from jobs.cli.list import list_
from jobs.cli.nightly import nightly
from jobs.cli.run import predict, report, run, score, stress
from jobs.cli.serve import serve
from jobs.cli.status import status
from jobs.cli.submit import submit
from jobs.cli.view import view
from jobs.decisions.commands import gate, items, power, twin
from jobs.finetune.command import finetune
from jobs.options import group_of, with_common_flags
from jobs.site.command import site

_SWEEP = "--models Qwen/Qwen2.5-VL-3B-Instruct --benchmarks maia --data data --out out"
_COMMANDS: tuple[tuple[Callable[..., int | None], str], ...] = (  # each with an example
    (list_, "list models"),
    (ingest, "ingest maia MAIA_FOLDER --data data"),
    (run, f"run {_SWEEP} --limit 100"),
    (predict, f"predict {_SWEEP}"),
    (score, f"score {_SWEEP} --judge qwen2.5-7b"),
    (report, f"report {_SWEEP}"),
    (status, "status out"),
    (compare, "compare out other-out"),
    (gate, "gate out --policy policy.yaml --baseline last-release"),
    (power, "power out --difference 0.02"),
    (stress, f"stress {_SWEEP} --conditions order,letters"),
    (twin, "twin out twin-out"),
    (items, "items out other-out --to items"),
    (annotate, "annotate out --benchmark maia --n 50 --people 3 --to forms"),
    (leaderboard, "leaderboard out --to leaderboard"),
    (audit, "audit mate"),
    (submit, f"submit {_SWEEP} --address http://127.0.0.1:8265"),
    (nightly, "nightly --models open --data data --out out --budget-usd 50"),
    (generate, "generate mate --examples 100 --out mate"),
    (finetune, "finetune vflute --variant vf --data data --out tuned"),
    (doctor, "doctor --models qwen2.5-vl-7b"),
    (serve, "serve qwen2.5-vl-7b --no-key"),
    (view, "view out"),
    (site, "site out --to site"),
    (demo, "demo --out demo-out"),
)

_GROUPS = ("Models", "Data", "Judging", "Limits", "Cluster", "Output")


class GroupedCommand(TyperCommand):
    """A command whose help lists arguments first, then options by group, then the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group that has options."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *_GROUPS, "Options")}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            group = "Arguments" if isinstance(parameter, TyperArgument) else group_of(parameter.name or "")
            if record is not None:
                sections[group or "Options"].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def _example(arguments: str) -> str:
    return f"\b\nExample:\n  vlmsweep {arguments}"  # the first character keeps the lines as they are


def register(app: typer.Typer) -> None:
    """Add all commands to the app."""
    for form in export.registered_commands:
        form.cls, form.epilog = GroupedCommand, _example(f"export {form.name} out exported")
        form.callback = with_common_flags(form.callback) if form.callback else None
    app.add_typer(export, name="export")
    for command, example in _COMMANDS:
        name = example.partition(" ")[0]
        app.command(name, cls=GroupedCommand, epilog=_example(example))(with_common_flags(command))
