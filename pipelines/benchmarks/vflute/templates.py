"""The 21 instructions that V-FLUTE's paper prints (Table 8), as versions of the wording, and results by instruction.

The data assign one to each row. `--prompt-version vflute-instruction-data-v1=vflute-instruction-paper-07` gives all
rows one of them instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.benchmarks.vflute.source_text import CLAIM_TOKEN

_QUESTIONS: Final = (
    (
        "Does the image's narrative confirm or disprove the claim REPLACE_CLAIM",
        "Discuss your reasoning and identify it as either entailment or contradiction.",
    ),
    (
        "Does this image confirm or deny the claim REPLACE_CLAIM",
        "Discuss your reasoning and determine a label: entailment or contradiction.",
    ),
    (
        "Is the image's message supporting or opposing the claim REPLACE_CLAIM",
        "Discuss your rationale and determine the appropriate label: entailment or contradiction.",
    ),
    (
        "Is there agreement or disagreement between the image and the claim REPLACE_CLAIM",
        "Provide your analysis and choose between entailment or contradiction.",
    ),
    (
        "Does the visual evidence support or counter the claim REPLACE_CLAIM",
        "Provide your explanation and assign it a label of entailment or contradiction.",
    ),
    (
        "Does the image agree with or dispute the claim REPLACE_CLAIM",
        "Explain your analysis and mark it as entailment or contradiction.",
    ),
    (
        "Does the illustration affirm or contest the claim REPLACE_CLAIM",
        "Provide your argument and choose a label: entailment or contradiction.",
    ),
    (
        "Is the visual content in agreement or disagreement with the claim REPLACE_CLAIM",
        "Offer your explanation and categorize it under entailment or contradiction.",
    ),
    (
        "Is the image in harmony with or in conflict with the statement REPLACE_CLAIM",
        "Explain your justification and label it as entailment or contradiction.",
    ),
    (
        "Is the portrayal in the image consistent with or contradictory to the claim REPLACE_CLAIM",
        "Offer your insights and select between entailment or contradiction.",
    ),
    (
        "Does the image's depiction validate or refute the claim REPLACE_CLAIM",
        "Explain your point of view and select a label: entailment or contradiction.",
    ),
    (
        "Is the content of the image endorsing or challenging the claim REPLACE_CLAIM",
        "Justify your position and label it as entailment or contradiction.",
    ),
    (
        "Is the image consistent with the statement REPLACE_CLAIM",
        "Justify your answer and classify it as either entailment or contradiction.",
    ),
    (
        "Does the illustration affirm or negate the claim REPLACE_CLAIM",
        "Articulate your reasoning and apply a label: entailment or contradiction.",
    ),
    (
        "Does the picture support or refute the assertion REPLACE_CLAIM",
        "Offer your rationale and select a label: entailment or contradiction.",
    ),
    (
        "Is the visual portrayal compatible with or adverse to the claim REPLACE_CLAIM",
        "Justify your viewpoint and label it as entailment or contradiction.",
    ),
    (
        "Does the image corroborate or dispute the claim REPLACE_CLAIM",
        "Outline your reasoning and categorize it under entailment or contradiction.",
    ),
    (
        "Is the depiction aligned with or against the claim REPLACE_CLAIM",
        "Share your evaluation and identify it as either entailment or contradiction.",
    ),
    (
        "Does the image entail or contradict the claim REPLACE_CLAIM",
        "Explain your reasoning and provide a label between entailment or contradiction.",
    ),
    (
        "Can the image be seen as validating or opposing the claim REPLACE_CLAIM",
        "Explain your thought process and assign a label of entailment or contradiction",
    ),
    (
        "Is the image's representation supportive of or contradictory to the claim REPLACE_CLAIM",
        "Articulate your analysis and assign the label: entailment or contradiction.",
    ),
)
"""Question up to its question mark, and demand, in the order of the table."""
PAPER_TEMPLATES: Final[Mapping[str, str]] = {
    f"vflute-instruction-paper-{number:02}": f"{question}? {demand}"
    for number, (question, demand) in enumerate(_QUESTIONS, start=1)
}
"""Instructions by version name, with `CLAIM_TOKEN` for the claim."""
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
