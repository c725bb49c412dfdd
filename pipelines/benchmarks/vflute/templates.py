"""The 21 instructions that V-FLUTE's paper prints (Table 8), as versions of the wording, and results by instruction.

The data assign one to each row. `--prompt-version vflute-instruction-data-v1=vflute-instruction-paper-07` gives all
rows one of them instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import yaml

from pipelines.benchmarks.vflute.source_text import CLAIM_TOKEN

PAPER_TEMPLATES: Final[Mapping[str, str]] = {
    f"vflute-instruction-paper-{number:02}": line
    for number, line in enumerate(yaml.safe_load(files(__package__).joinpath("templates.yaml").read_bytes()), start=1)
}
"""Instructions by version name, in the order of the table, with `CLAIM_TOKEN` for the claim."""
PAPER_TEXTS: Final[Mapping[str, str]] = {
    name: text.replace(CLAIM_TOKEN, "{claim}") for name, text in PAPER_TEMPLATES.items()
}
"""Instructions by version name as prompt texts."""


def template_name(instruction: str) -> str:
    """Return `template 07` for the seventh of the paper's table, else the instruction itself on one line."""
    number = _NUMBERS.get(_letters(instruction))
    return " ".join(instruction.split()) if number is None else f"template {number:02}"


def _letters(instruction: str) -> str:
    """Drop what editions differ in: kinds of apostrophes, blanks, the final full stop."""
    return " ".join(instruction.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()).removesuffix(".").casefold()


_NUMBERS: Final = {_letters(text): number for number, text in enumerate(PAPER_TEMPLATES.values(), start=1)}
