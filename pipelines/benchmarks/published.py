"""Published numbers of a benchmark: the rows of its `published.csv`, in the nouns of `metrics.json`.

Sources, as printed:

- `maia`: All-in-one, Findings of EMNLP 2025, arXiv 2502.16989; Tables 1 to 5, section 4.2.
- `vague`: ICCV 2025, arXiv 2411.14137; Tables 1, 2, 3, H3 and H4.
- `vflute`: NAACL 2025, arXiv 2405.01474; Tables 4, 6, 7, 17 and 18, sections 5.1 and 5.3, appendix J.
- `mate`: ACL 2025, arXiv 2503.03854; Tables 1 to 5, 8 and 9, sections 6.2 and 6.4.
- `unpie`: EMNLP 2024, arXiv 2410.01023; Tables 2 to 9, section 2.3.

Percent are stored as fractions; the average over categories has category '' (UNPIE's `All` keeps its name, since '' is
its pooled value); V-FLUTE's fine-tuned checkpoints have settings of their own, which
`Publication.settings` maps to ours. A note that begins
with a word of `DOUBTFUL_NOTES` marks a number that cannot be right: it is shown, and nothing is compared with it.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.resources import files

from pipelines.benchmarks.records import PublishedValue


@cache
def load_published(benchmark: str) -> tuple[PublishedValue, ...]:
    """Read the published numbers of a benchmark; empty for one without a file of them."""
    path = files(__package__).joinpath(benchmark, "published.csv")
    return parse_published(path.read_text(encoding="utf-8")) if path.is_file() else ()


def parse_published(text: str) -> tuple[PublishedValue, ...]:
    """Read a CSV of published numbers, whose columns are the fields of `PublishedValue`; what is left out is empty."""
    return tuple(map(_parse_row, csv.DictReader(io.StringIO(text, newline=""))))


@cache
def load_dataset_facts(benchmark: str) -> dict[str, str]:
    """Read a paper's figures about its data: key -> value as printed."""
    with files(__package__).joinpath("dataset_facts.csv").open("r", encoding="utf-8") as file:
        return {row["key"]: row["value"] for row in csv.DictReader(file) if row["benchmark"] == benchmark}


def printed_steps(rows: Iterable[PublishedValue]) -> Mapping[tuple[str, str], Fraction]:
    """Return (table, metric) -> unit of the last digit that the table prints for it, 0 for counts.

    It is that of the number with most digits: the file drops trailing zeros.
    """
    digits: dict[tuple[str, str], int] = {}
    counts: set[tuple[str, str]] = set()
    for row in rows:
        key = (row.table, row.metric)
        if row.unit == "count":
            counts.add(key)
        if row.value is not None:
            exponent = Decimal(repr(row.value)).normalize().as_tuple().exponent
            digits[key] = max(digits.get(key, 0), -int(exponent))
    return {key: Fraction(0) if key in counts else Fraction(1, 10**decimals) for key, decimals in digits.items()}


def _parse_row(row: dict[str, str]) -> PublishedValue:
    value = float(row["value"]) if row["value"] else None
    texts = {name: row.get(name) or "" for name in PublishedValue.__slots__ if name != "value"}
    return PublishedValue(value=value, **texts)
