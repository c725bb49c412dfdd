"""`vlmsweep annotate`: forms in which people answer, label or judge."""

import re
from pathlib import Path
from typing import Annotated

from jobs.shared.commands import listed
from jobs.shared.options import Json, names
from jobs.shared.output import print_result
from models.messages import DEFAULT_SEED
from pipelines.errors import UsageError
from pipelines.flags import Argument, Flag

_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_MAX_PEOPLE = 50


@listed("Share", "annotate out --benchmark maia --n 50 --people 3 --to forms")
def annotate(
    out: Annotated[str, Argument("The --out of the run to annotate.", kind="location")],
    benchmark: Annotated[str, Flag("The benchmark.")],
    n: Annotated[int, Flag("Number of items to draw.", low=1)],
    to: Annotated[Path, Flag("A local folder for the forms.", "Output")],
    by: Annotated[str | None, Flag("Strata, comma-separated, such as subset,label. [the benchmark's own]")] = None,
    people: Annotated[str, Flag("How many people, or their codes, comma-separated; one form per person.")] = "2",
    models: Annotated[str | None, Flag("Only answers of these models.", "Models", kind="models")] = None,
    tasks: Annotated[str | None, Flag("Only these tasks.", "Data")] = None,
    settings: Annotated[str | None, Flag("Only these settings.", "Data")] = None,
    suspects: Annotated[Path | None, Flag("The items.csv of `items`: only its suspect labels are drawn.")] = None,
    seed: Annotated[int, Flag("The same seed draws the same items.")] = DEFAULT_SEED,
    json: Json = False,
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
