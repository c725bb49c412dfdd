"""`vlmsweep gate`, `power`, `items` and `stress`: conclusions from outputs, from items and from perturbed inputs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Json, Out, Outs, RunOptions, names
from jobs.shared.output import print_result
from pipelines.errors import UsageError
from pipelines.flags import Flag, flag


@listed("Understand", "gate out --policy POLICY.yaml --baseline LAST_OUT")
def gate(
    out: Out,
    policy: Annotated[Path, Flag("YAML file: a list of lines that must hold, and `alpha`.", "Limits")],
    baseline: Annotated[str | None, Flag("The --out that models are compared with.", "Limits", kind="location")] = None,
    json: Json = False,
) -> int:
    """Decide by a policy whether a model may be released: exit code 0 for GO, 1 for NO-GO, 4 for INCONCLUSIVE."""
    from jobs.shared.render import show_gate
    from pipelines.decisions.gate import EXIT_CODES, read_policy
    from pipelines.decisions.gate import gate as decide
    from pipelines.storage.store import Store

    result = decide(Store(out), read_policy(policy), Store(baseline) if baseline else None)
    show_gate(result, as_json=json)
    return EXIT_CODES[result.decision]


@listed("Understand", "power out --difference 0.02")
def power(
    out: Out,
    difference: Annotated[float, Flag("The difference to be found, such as 0.02.")],
    metric: Annotated[str, Flag("Default: each benchmark's headline.")] = "",
    models: Annotated[str | None, Flag("Only these models, comma-separated.", "Models", kind="models")] = None,
    json: Json = False,
) -> None:
    """Show how many rows and clusters a difference of models needs, and which difference these data can show."""
    from jobs.analysis.power import power as estimate
    from jobs.analysis.power import show_power
    from pipelines.storage.store import Store

    show_power(estimate(Store(out), difference, metric, names(models)), difference, as_json=json)


@listed("Understand", "items out OTHER_OUT --to items")
def items(
    out: Outs,
    to: Annotated[
        str, Flag("Folder or s3://bucket/key for items.html, items.csv, compact.txt.", "Output", kind="location")
    ],
    benchmarks: Annotated[str | None, Flag("Only these benchmarks.", "Data")] = None,
    json: Json = False,
) -> None:
    """List suspect labels, shortcuts and duplicates, and choose a compact subset, from the answers of many models."""
    from jobs.analysis.items.create import describe_items, write_items
    from pipelines.storage.store import Store

    reports = describe_items(out, names(benchmarks))
    addresses = write_items(reports, Store(to))
    counts = [
        {
            **{name: getattr(report.matrix, name) for name in ("benchmark", "task", "setting")},
            "models": len(report.matrix.models),
            "items": len(report.matrix.items),
            **{name: sum(getattr(row, name) for row in report.rows) for name in ("suspect", "shortcut")},
            "duplicates": None if report.not_searched else sum(bool(row.duplicate_of) for row in report.rows),
            "not_searched": report.not_searched,
            "compact": len(report.compact.places),
            "compact_error": report.compact.error,
            "compact_is_random": report.compact.is_random,
        }
        for report in reports
    ]
    lines = [
        f"{count['benchmark']} {count['task']} {count['setting']}: {count['items']:,} items, {count['models']} "
        f"models; {count['suspect']} suspect labels, {count['shortcut']} shortcuts, "
        f"{'no search for' if count['not_searched'] else count['duplicates']} duplicates; "
        f"{count['compact']} samples {'drawn at random ' if count['compact_is_random'] else ''}stand for all, with an "
        f"error of {count['compact_error']:.3f} for new models"
        for count in counts
    ]
    problems = dict.fromkeys(report.not_searched for report in reports if report.not_searched)
    lines += [f"Duplicates were not looked for: {problem}" for problem in problems]
    print_result(json, {"files": addresses, "items": counts}, *lines, *addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class StressOptions(RunOptions):
    """Options of `stress`."""

    stress: tuple[str, ...] = flag(
        "Conditions, comma-separated, with a number or without: order and letters (draws), frames (percent of "
        "their distance), jpeg (quality), pixels (percent), such as order-1,order-2,jpeg-10.",
        "Limits",
        "--conditions",
        default=("order", "letters", "frames", "jpeg", "pixels"),
    )


@listed(
    "Evaluate",
    "stress --models qwen2.5-vl-7b --benchmarks maia --data data --out out --conditions order,letters",
)
def stress(options: StressOptions) -> int:
    """Re-run under perturbed inputs and show which rankings and differences change.

    Accepts the options of `run`. What is done is not asked again, nor is a prompt that a condition leaves as it is. Run
    the same command again to do what is missing.
    """
    from jobs.analysis.stress.section import stress_result
    from jobs.cli.run import run_stages

    if not options.stress:
        raise UsageError("--conditions: name at least one, such as order or jpeg-30")
    return run_stages(options, "predict", "score", "report", further=stress_result)
