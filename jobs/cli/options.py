"""Flags that commands share, and `--config`: a file of the same flags, over which the command line wins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ANYWHERE = "--log-format"
"""Belongs to the program and not to a command, yet may stand behind one."""


def normalize_arguments(arguments: list[str]) -> list[str]:
    """Flags with `_` written as `-`: both are accepted. What may stand anywhere is put in front."""
    made: list[str] = []
    front: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if argument == "--":
            return [*front, *made, argument, *left]
        flag, equals, value = argument.partition("=")
        flag = flag.replace("_", "-") if flag.startswith("--") else flag
        if flag == ANYWHERE:
            front += [flag + equals + value, *([left.pop(0)] if not equals and left else [])]
        else:
            made.append(flag + equals + value)
    return [*front, *made]


def names(text: str | None) -> tuple[str, ...]:
    """A comma-separated list, blanks dropped, repeats dropped."""
    return tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Models = Annotated[str, typer.Option("--models", help="Models by name, comma-separated.")]
Benchmarks = Annotated[str, typer.Option("--benchmarks", help="Benchmarks, comma-separated.")]
Tasks = Annotated[str | None, typer.Option("--tasks", help="Only these tasks.")]
Settings = Annotated[str | None, typer.Option("--settings", help="Only these settings.")]
LimitText = Annotated[str | None, typer.Option("--limit", help="First N samples, a share (0.1), or a range (11-20).")]
SampleIds = Annotated[list[str] | None, typer.Option("--sample-id", help="Only this sample; may be repeated.")]
Data = Annotated[str, typer.Option("--data", help="Where the canonical data is: a folder or s3://bucket/key.")]
Out = Annotated[str, typer.Option("--out", help="Where results go: a folder or s3://bucket/key.")]
ModelsFile = Annotated[
    list[Path] | None, typer.Option("--models-file", help="YAML of models, laid over the catalog; may be repeated.")
]
JudgeName = Annotated[str | None, typer.Option("--judge", help="The model that judges open answers.")]
Captioner = Annotated[
    str | None,
    typer.Option("--captioner", help="The model that captions for text-only models; self: each model for itself."),
]
Scorers = Annotated[
    list[str] | None,
    typer.Option("--scorer", help="bertscore=DIR_OR_HUB_ID[:layer] or bleurt=DIR_OR_HUB_ID; may be repeated."),
]
Address = Annotated[
    str | None, typer.Option("--address", help="A Ray cluster; RAY_ADDRESS or an embedded one otherwise.")
]
FailOnError = Annotated[
    str,
    typer.Option("--fail-on-error", help="End with 1 when rows failed: true, false, a fraction, or a count allowed."),
]
CostLimit = Annotated[
    str | None,
    typer.Option("--cost-limit", help="Dollars that this run may spend, by the prices of the models file."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of draws such as the order of options.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", help="Folder of own wording: DIR/BENCHMARK/VERSION.txt.")]
Instead = Annotated[
    list[str] | None,
    typer.Option("--prompt-version", help="OLD=NEW: use another version of a prompt; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")]
Human = Annotated[
    list[str] | None,
    typer.Option(
        "--human",
        help="BENCHMARK=FILE.csv or BENCHMARK=FOLDER of people's answers, labels or judgements, local or s3://; may be "
        "repeated. Forms: docs/human-files.md.",
    ),
]
