"""Wording of the papers as versions beside ours, and V-FLUTE's results by instruction."""

from __future__ import annotations

from dataclasses import replace
from statistics import stdev

import pytest

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import TableValue
from pipelines.benchmarks.vflute.metrics import reduce_scores
from pipelines.benchmarks.vflute.prompts import PAPER_TEMPLATES, build_prompt, template_name
from pipelines.benchmarks.vflute.tables import make_tables
from tests.support import vflute_rows
from tests.support.many_samples import many
from tests.support.vflute_rows import Scored

FIRST = next(iter(PAPER_TEMPLATES.values()))
UNPIE = benchmark("unpie").prompt_texts


def test_there_are_21_different_instructions_each_with_one_claim() -> None:
    assert len(set(PAPER_TEMPLATES.values())) == 21
    assert all(text.count("REPLACE_CLAIM") == 1 and text.count("?") == 1 for text in PAPER_TEMPLATES.values())
    names = [template_name(text) for text in PAPER_TEMPLATES.values()]
    assert names == [f"template {number:02}" for number in range(1, 22)]


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        (FIRST.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}").removesuffix("."), "template 01"),
        ("Is REPLACE_CLAIM  so?\nSay why.", "Is REPLACE_CLAIM so? Say why."),
        ("", ""),
    ],
)  # fmt: skip
def test_instructions_are_numbered_as_in_the_paper(instruction: str, name: str) -> None:
    assert template_name(instruction) == name


def test_a_version_of_the_paper_replaces_the_instruction_of_every_row() -> None:
    version = "vflute-instruction-paper-02"
    texts = PromptTexts(benchmark("vflute").prompt_texts, instead={"vflute-instruction-data-v1": version})
    (sample,) = many("vflute", 1)
    sample = replace(sample, data={**sample.data, "prompt": "Is REPLACE_CLAIM so? Say why."})
    prompt = build_prompt(sample, "zero-shot", texts)
    expected = f'Does this image confirm or deny the claim "{sample.data["claim"]}"? Discuss your reasoning and'
    assert prompt.version == version
    assert expected in str(prompt.steps[0].turns)


def test_every_cell_of_unpie_has_the_papers_wording_with_the_same_fields() -> None:
    ours = [name for name in UNPIE if name.endswith("-v1") and "judge" not in name]
    fields = ("{sentence}", "{caption}", "{language}", "{translation}")
    for name in ours:
        paper = UNPIE[name.replace("-v1", "-paper")]
        assert [field in paper for field in fields] == [field in UNPIE[name] for field in fields], name
    assert UNPIE["unpie-disambiguation-sm-paper"].splitlines() == [
        "[English]: {sentence}",
        "Translate the given English sentence into {language}, given the",
        'image as context "{caption}". Please respond using the format',
        "below:",
        "[LANGUAGE]:",
    ]


def test_results_by_instruction_with_mean_and_spread() -> None:
    first, second = list(PAPER_TEMPLATES.values())[:2]
    rows = [Scored(label=label) for label in (1, 1, 1, 0)] + [Scored(label=label) for label in (1, 0)]
    samples = vflute_rows.samples(rows)
    for index, sample in enumerate(samples.values()):
        sample.data["prompt"] = first if index < 4 else second  # type: ignore[index] - a dictionary in tests
    metrics = reduce_scores(vflute_rows.frame(rows), samples)
    values = {m.category: (m.value, m.n) for m in metrics if m.metric == "accuracy_by_template"}
    assert values == {"template 01": (3 / 4, 4), "template 02": (1 / 2, 2)}
    tables = {table.id: table for table in make_tables(Results.of("vflute", {"m": metrics}, []))}
    lines = {row.label: row.cells for row in tables["vflute_templates"].rows if row.cells}
    assert list(lines) == ["template 01", "template 02", "Mean", "Standard deviation"]
    assert isinstance(lines["template 01"][1], TableValue)
    assert (lines["template 01"][0], lines["template 01"][1].value) == (4, 3 / 4)
    assert lines["Mean"][1] == 5 / 8
    assert lines["Standard deviation"][1] == pytest.approx(stdev([3 / 4, 1 / 2]))
    # all gold is entailment: right answers have F1 6/7 and 2/3, errors add a class with F1 0
    assert lines["Mean"][2] == pytest.approx((3 / 7 + 1 / 3) / 2)
    for sample in samples.values():
        sample.data["prompt"] = first  # type: ignore[index] - a dictionary in tests
    assert not [m for m in reduce_scores(vflute_rows.frame(rows), samples) if m.metric == "accuracy_by_template"]
