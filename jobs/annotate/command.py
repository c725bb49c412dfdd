"""`vlmsweep annotate`: forms in which people answer, label or judge."""

import re
from pathlib import Path

from jobs.shared.commands import listed
from jobs.shared.options import names
from jobs.shared.output import print_result
from models.messages import DEFAULT_SEED
from pipelines.errors import UsageError

_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_MAX_PEOPLE = 50


@listed("Share", "annotate out --benchmark maia --n 50 --people 3 --to forms")
def annotate(
    out: str,
    benchmark: str,
    n: int,
    to: Path,
    by: str | None = None,
    people: str = "2",
    models: str | None = None,
    tasks: str | None = None,
    settings: str | None = None,
    suspects: Path | None = None,
    seed: int = DEFAULT_SEED,
    json: bool = False,
) -> None:
    """Draw items, spread over strata, and write one self-contained form per person; `--human` reads what they save."""
    from jobs.annotate.create import AnnotationSpec, create_forms
    from pipelines.benchmarks import benchmark_names
    from pipelines.plan.run_manifest import load_existing_run
    from pipelines.plan.selection import check_names
    from pipelines.storage.lock import exclusive
    from pipelines.storage.store import Store

    spec = AnnotationSpec(
        out=out,
        benchmark=benchmark,
        n=n,
        people=_codes(people),
        strata=names(by),
        models=names(models),
        tasks=names(tasks),
        settings=names(settings),
        suspects=suspects,
        seed=seed,
    )
    load_existing_run(Store(out))  # its table benchmarks are known from then on
    check_names("benchmark", [benchmark], benchmark_names())
    with exclusive(Store(str(to)), "--to", below=False):
        paths = create_forms(spec, to)
    forms, hint = [str(path) for path in paths], f"Read the saved files back with --human {benchmark}=FOLDER."
    print_result(json, {"forms": forms, "draw": str(to / "draw.json")}, *forms, hint)


def _codes(text: str) -> tuple[str, ...]:
    """Return the codes of people; UsageError unless they are a small number, or distinct and usable in file names."""
    if text.strip().isdecimal():
        if not 1 <= int(text) <= _MAX_PEOPLE:
            raise UsageError(f"--people {text}: give 1 to {_MAX_PEOPLE}")
        return tuple(f"p{number}" for number in range(1, int(text) + 1))
    codes = [code for part in text.split(",") if (code := part.strip())]
    invalid = [code for code in codes if not _CODE.fullmatch(code)]
    if invalid or len(set(codes)) < len(codes) or not codes:
        raise UsageError(f"--people {text}: give a number, or distinct codes of letters, digits, _ and -")
    return tuple(codes)
