"""`vlmsweep audit`: the published tables against themselves."""

from dataclasses import asdict
from operator import attrgetter
from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Json
from jobs.shared.output import print_result, table
from pipelines.flags import Argument


@listed("Understand", "audit mate")
def audit(
    paper: Annotated[str | None, Argument("The benchmark of a paper; all papers without it.")] = None,
    json: Json = False,
) -> None:
    """Check the papers' printed numbers against each other; needs no run, data, model or network."""
    from jobs.audit.cells import DIMENSIONS
    from jobs.audit.checks import audit as audited

    findings, numbers = audited([paper] if paper else [])
    place = attrgetter(*DIMENSIONS)
    rows = [
        (item.paper, item.table, " ".join(filter(None, place(item))), item.rule, item.printed, item.expected)
        for item in findings
    ]
    lines = []
    if rows:
        lines = [table(("paper", "table", "number", "rule", "printed", "by the rule"), rows)]
        lines += ["Percent are shown as fractions. Of the numbers that a rule relates, one at least is wrong."]
    for name, count in numbers.items():
        contradictions = sum(finding.paper == name for finding in findings)
        lines.append(f"{name}: {count:,} printed numbers, {contradictions} contradictions beyond rounding")
    print_result(json, {"findings": [asdict(finding) for finding in findings], "numbers": numbers}, *lines)
