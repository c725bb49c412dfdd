"""`vlmsweep gate`, `power`, `items` and `twin`: what follows from outputs, from their items, and from fresh scenes."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

from jobs.options import Json, Out, Outs, RunOptions, names
from jobs.output import print_result
from jobs.tables import table
from pipelines.flags import Argument, Flag

_HEADS: Final = ("model", "task", "setting", "published", "twin", "gap", "95%", "n", "paired", "reading")


def gate(
    out: Out,
    policy: Annotated[Path, Flag("YAML file: a list of lines that must hold, and `alpha`.", "Limits")],
    baseline: Annotated[str | None, Flag("The --out that models are compared with.", "Limits", kind="location")] = None,
    json: Json = False,
) -> int:
    """Decide by a policy whether a model may be released: exit code 0 for GO, 1 for NO-GO, 4 for INCONCLUSIVE."""
    from jobs.decisions.render import show_gate
    from pipelines.decisions.gate import EXIT_CODES
    from pipelines.decisions.gate import gate as decide
    from pipelines.decisions.policy import read_policy
    from pipelines.storage.store import Store

    result = decide(Store(out), read_policy(policy), Store(baseline) if baseline else None)
    show_gate(result, as_json=json)
    return EXIT_CODES[result.decision]


def power(
    out: Out,
    difference: Annotated[float, Flag("The difference to be found, such as 0.02.")],
    metric: Annotated[str, Flag("Default: each benchmark's headline.")] = "",
    models: Annotated[
        str | None,
        Flag("Only these models, comma-separated.", "Models", kind="models"),
    ] = None,
    json: Json = False,
) -> None:
    """Show how many rows and clusters a difference of models needs, and which difference these data can show."""
    from jobs.decisions.render import show_power
    from pipelines.decisions.power import power as estimate
    from pipelines.storage.store import Store

    show_power(estimate(Store(out), difference, metric, names(models)), difference, as_json=json)


def items(
    out: Outs,
    to: Annotated[
        str, Flag("Folder or s3://bucket/key for items.html, items.csv, compact.txt.", "Output", kind="location")
    ],
    benchmarks: Annotated[str | None, Flag("Only these benchmarks.", "Data")] = None,
    json: Json = False,
) -> None:
    """List suspect labels, shortcuts and duplicates, and choose a compact subset, from the answers of many models."""
    from pipelines.decisions.items.create import describe_items, write_items
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


def twin(
    out: Annotated[str, Argument("The --out of a run on published MATE.", kind="location")],
    fresh: Annotated[
        str, Argument("The --out of a run of the same models on its twin.", kind="location", metavar="TWIN_OUT")
    ],
    json: Json = False,
) -> None:
    """Measure the gap between published scenes and fresh ones of equal parameters, and write it into the report."""
    from jobs.spec_builder import report_spec
    from pipelines.decisions.twin import measure_twin
    from pipelines.report.twin import MEANING, save_twin
    from pipelines.storage.store import Store
    from pipelines.sweep.run import report_again

    record = measure_twin(Store(out), Store(fresh))
    save_twin(Store(out), record)
    report_again(report_spec(RunOptions(out=out)))
    rows = [
        [
            *(row.model, row.task, row.setting, f"{row.published:.3f}", f"{row.twin:.3f}", f"{row.gap:+.3f}"),
            *(f"[{row.ci_low:+.3f}, {row.ci_high:+.3f}]", f"{row.n:,}", "yes" if row.is_paired else "no", row.reading),
        ]
        for row in record.gaps
    ]
    result = {**asdict(record), "gaps": [{**asdict(row), "reading": row.reading} for row in record.gaps]}
    print_result(json, result, table(_HEADS, rows), *MEANING)
