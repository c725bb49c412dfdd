"""Register the commands of the command line; their help has options in groups and an example."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

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
from jobs.options import as_command
from jobs.site.command import site

_WHAT = "--models qwen2.5-vl-7b --benchmarks maia"
_SWEEP = f"{_WHAT} --data data --out out"
_COMMANDS: dict[str, tuple[tuple[Callable[..., int | None], str], ...]] = {
    # By section of the help, each with an example; capitals are the user's.
    "Evaluate": (
        (run, f"run {_SWEEP} --limit 100"),
        (predict, f"predict {_SWEEP}"),
        (score, f"score {_SWEEP} --judge qwen2.5-7b"),
        (report, f"report {_SWEEP}"),
        (status, "status out"),
        (stress, f"stress {_SWEEP} --conditions order,letters"),
        (submit, f"submit {_WHAT} --data s3://BUCKET/data --out s3://BUCKET/out --address http://127.0.0.1:8265"),
        (nightly, "nightly --models open --data data --out out --budget-usd 50"),
    ),
    "Understand": (
        (view, "view out"),
        (compare, "compare out OTHER_OUT"),
        (gate, "gate out --policy POLICY.yaml --baseline LAST_OUT"),
        (power, "power out --difference 0.02"),
        (items, "items out OTHER_OUT --to items"),
        (twin, "twin out TWIN_OUT"),
        (audit, "audit mate"),
    ),
    "Share": (
        (site, "site out --to site"),
        (leaderboard, "leaderboard out --to leaderboard"),
        (annotate, "annotate out --benchmark maia --n 50 --people 3 --to forms"),
    ),
    "Set up": (
        (demo, "demo --out demo-out"),
        (list_, "list models"),
        (ingest, "ingest maia MAIA_FOLDER --data data"),
        (generate, "generate mate --examples 100 --out mate"),
        (doctor, "doctor --models qwen2.5-vl-7b"),
        (serve, "serve qwen2.5-vl-7b --no-key"),
        (finetune, "finetune vflute --variant vf --data VFLUTE_FOLDER --out tuned"),
    ),
}
_SHARED = ("export",)  # commands of the section "Share" that have commands of their own

_GROUPS = ("Models", "Data", "Judging", "Limits", "Cluster", "Output")


class GroupedCommand(TyperCommand):
    """A command whose help lists arguments first, then options by group, then the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group that has options."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *_GROUPS, "Options")}
        arguments = [each for each in self.get_params(ctx) if isinstance(each, TyperArgument)]
        options = [each for each in self.get_params(ctx) if not isinstance(each, TyperArgument)]
        for parameter in [*arguments, *sorted(options, key=lambda each: (not each.required, each.opts[0]))]:
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = getattr(parameter, "rich_help_panel", None)  # `--help` has none
                sections["Arguments" if parameter in arguments else group or "Options"].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


class CommandSections(TyperGroup):
    """The program, whose help lists the commands by section, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  as click calls it
        """Write a section for each kind of command."""
        for title, entries in _COMMANDS.items():
            names = [example.partition(" ")[0] for _, example in entries] + [*(_SHARED if title == "Share" else ())]
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=200)) for name in names])


def _example(arguments: str) -> str:
    return f"\b\nExample:\n  vlmsweep {arguments}"  # the first character keeps the lines as they are


def register(app: typer.Typer) -> None:
    """Add all commands to the app."""
    for form in export.registered_commands:
        form.cls, form.epilog = GroupedCommand, _example(f"export {form.name} out exported")
        form.callback = as_command(form.callback) if form.callback else None
    app.add_typer(export, name="export")
    for command, example in (entry for section in _COMMANDS.values() for entry in section):
        name = example.partition(" ")[0]
        app.command(name, cls=GroupedCommand, epilog=_example(example))(as_command(command))
