"""UNPIE's tables in the paper's layout, ours next to the published ones: Tables 4 to 6 (arXiv 2410.01023).

Where more than 1% of our requests are excluded, our rows are in a table of their own without published numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from pipelines.benchmarks.results import Key, Results, Source, section, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS
from pipelines.benchmarks.unpie.extra_tables import extra_tables
from pipelines.benchmarks.unpie.published_tables import published_tables
from pipelines.benchmarks.unpie.results import INPUTS, PAIRS, TYPES, UnpieResults

_CATEGORIES: Final = (*KINDS, ALL)
_VICUNA: Final = (
    "The paper's Vicuna is 13B in its text and 7B in its appendix; its GPT-4 rows with pictures name no endpoint."
)
_HUMAN: Final = "Human scores on the three tasks: not published."
_ONE_PICTURE: Final = (
    "all printed values are multiples of 0.2, as with 500 rows: these may rest on one picture a pun, ours on both"
)
_NO_ENDPOINT: Final = "the endpoint that the paper names takes no pictures"
_LOW_COVERAGE: Final = (
    "More than 1% of the requests lack a picture or a caption, so they are not compared with published numbers."
)
_RECONSTRUCTION_METRICS: Final = ("correct_pct", "delta_vs_lm", "bleu4", "meteor")


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 4 to 6, then tables that the paper does not have, then those without any number of ours."""
    unpie = UnpieResults(results)
    return [
        *_with_low_coverage(unpie, _grounding_table),
        *_with_low_coverage(unpie, _disambiguation_table),
        *_with_low_coverage(unpie, _reconstruction_table),
        *extra_tables(unpie),
        *published_tables(unpie),
    ]


def _with_low_coverage(unpie: UnpieResults, make: Callable[..., Table]) -> Iterator[Table]:
    """Yield the table, and one without published numbers for our rows of low coverage."""
    yield make(unpie, low_coverage=False)
    table = make(unpie, low_coverage=True)
    if with_our_rows([table]):
        yield replace(table, id=f"{table.id}_low_coverage", title=f"{table.title}, of rows with low coverage")


def _models(unpie: UnpieResults, keys: Sequence[Key], *, low_coverage: bool) -> list[tuple[Source, str]]:
    """Return the models of a block: published ones first, then ours; ours alone in a table of low coverage.

    Ours without any value, such as one without a scorer, keep their row, whose cells say why.
    """
    task, setting = keys[0].task, keys[0].setting
    ours = [model for model in unpie.models() if any(unpie.find(key.of(model)) for key in keys)]
    ours = [model for model in ours if unpie.has_low_coverage(model, task, setting) == low_coverage]
    published = [] if low_coverage else [m for m in unpie.results.models_with(keys, "published") if m != "Random"]
    return [*(("published", model) for model in published), *(("ours", model) for model in ours)]


def _notes(unpie: UnpieResults, task: str, *, low_coverage: bool) -> tuple[str, ...]:
    return (_LOW_COVERAGE,) if low_coverage else (_VICUNA, _HUMAN, *unpie.subset_notes(task))


def _row_note(source: Source, model: str, setting: str, task: str) -> str:
    if source == "published" and model == "GPT-4" and setting == "vlm":
        return _NO_ENDPOINT
    return _ONE_PICTURE if (source, task, setting) == ("published", "disambiguation", "sm") else ""


def _better(unpie: UnpieResults, task: str, marked: Sequence[bool]) -> tuple[Literal["higher", ""], ...]:
    if unpie.subset_notes(task):
        return ()
    return tuple("higher" if is_marked else "" for is_marked in marked)


def _grounding_table(unpie: UnpieResults, *, low_coverage: bool) -> Table:
    task = "grounding"
    rows = [] if low_coverage else _random_phrase(unpie)
    for setting, label in TYPES.items():
        keys = [Key("exact_match", task, setting, category=kind) for kind in KINDS]
        rows += section(
            label,
            (
                TableRow(
                    label=model,
                    cells=(INPUTS[setting], *(_with_delta(unpie, key.of(model), source) for key in keys)),
                    origin=source,
                    note=_row_note(source, model, setting, task),
                )
                for source, model in _models(unpie, keys, low_coverage=low_coverage)
            ),
        )
    return Table(
        id="unpie_table4",
        title="UNPIE Table 4: exact match of the pun's phrase",
        columns=("Inputs", *KINDS),
        rows=tuple(rows),
        style="percent1",
        better=_better(unpie, task, (False, True, True)),
        notes=(
            "Percent; in brackets the change against LM.",
            *_notes(unpie, task, low_coverage=low_coverage),
        ),
    )


def _random_phrase(unpie: UnpieResults) -> list[TableRow]:
    """Return the row of a blind guess of one word, which depends on the sentences and not on the model."""
    for key in unpie.results.ours:
        if key.metric == "random_exact_match":
            values = [unpie.value(key._replace(category=kind)) for kind in KINDS]
            note = "one word of the sentence at random; not printed in the paper"
            return [TableRow(label="Random", cells=("", *values), baseline=True, note=note)]
    return []


def _with_delta(unpie: UnpieResults, key: Key, source: Source) -> TableCell:
    return without_interval(unpie.find(key, source), unpie.find(key._replace(metric="delta_vs_lm"), source))


def _disambiguation_table(unpie: UnpieResults, *, low_coverage: bool) -> Table:
    task = "disambiguation"
    pairs = PAIRS[task]

    def cells(model: str, setting: str, source: Source) -> Iterator[TableCell]:
        for pair in pairs:
            for category in _CATEGORIES:
                yield without_interval(unpie.find(Key("accuracy", task, setting, pair, category, model), source))

    random = TableRow(label="Random", cells=("", *cells("Random", "", "published")), origin="published", baseline=True)
    rows = [] if low_coverage else [random]
    for setting in ("sm", "vlm"):
        keys = [Key("accuracy", task, setting, pair, category) for pair in pairs for category in _CATEGORIES]
        rows += section(
            TYPES[setting],
            (
                TableRow(
                    label=model,
                    cells=(INPUTS[setting], *cells(model, setting, source)),
                    origin=source,
                    note=_row_note(source, model, setting, task),
                )
                for source, model in _models(unpie, keys, low_coverage=low_coverage)
            ),
        )
    return Table(
        id="unpie_table5",
        title="UNPIE Table 5: translations closer to the meaning that the picture shows",
        columns=("Inputs", *_CATEGORIES * len(pairs)),
        groups=(("", 1), *((pair, len(_CATEGORIES)) for pair in pairs)),
        rows=tuple(rows),
        style="percent1",
        better=_better(unpie, task, (False, *[True] * len(_CATEGORIES) * len(pairs))),
        second="table",
        notes=(
            "Percent; ties are wrong. All is the mean of Homo and Hetero.",
            "BERTScore F1 of bert-base-multilingual-cased, layer 9, is our choice: the paper names no model.",
            *_notes(unpie, task, low_coverage=low_coverage),
        ),
    )


def _reconstruction_table(unpie: UnpieResults, *, low_coverage: bool) -> Table:
    task = "reconstruction"
    rows: list[TableRow] = []
    for pair in PAIRS[task]:
        block: list[TableRow] = []
        for setting, label in TYPES.items():
            metrics = ("correct_pct", "bleu4")
            keys = [Key(metric, task, setting, pair, category) for metric in metrics for category in _CATEGORIES]
            block += [
                TableRow(
                    label=model,
                    cells=(label, INPUTS[setting], *_reconstruction_cells(unpie, keys[0].of(model), source)),
                    origin=source,
                    note=_row_note(source, model, setting, task),
                )
                for source, model in _models(unpie, keys, low_coverage=low_coverage)
            ]
        rows += section(pair, block)
    return Table(
        id="unpie_table6",
        title="UNPIE Table 6: puns reconstructed from one translation",
        columns=("Type", "Inputs", *("Correct %", "Change", "BLEU-4", "METEOR") * len(_CATEGORIES)),
        groups=(("", 2), *((category, len(_RECONSTRUCTION_METRICS)) for category in _CATEGORIES)),
        rows=tuple(rows),
        style="percent1",
        better=_better(unpie, task, (False, False, *(False, True, False, False) * len(_CATEGORIES))),
        best_of="block",
        notes=(
            "Percent. Change: of Correct % against LM, the largest gain of each block in bold.",
            "All is the mean of Homo and Hetero, of BLEU-4, too.",
            (
                "Other judge: the published Correct % are gpt-4-0613's by an unpublished prompt, ours those "
                "of the run's judge. The paper names no variant of BLEU and METEOR."
            ),
            *_notes(unpie, task, low_coverage=low_coverage),
        ),
    )


def _reconstruction_cells(unpie: UnpieResults, key: Key, source: Source) -> Iterator[TableCell]:
    for category in _CATEGORIES:
        for metric in _RECONSTRUCTION_METRICS:
            number = unpie.find(key._replace(metric=metric, category=category), source)
            if number is None and metric == "meteor":
                value = unpie.value(key._replace(metric="meteor_nowordnet", category=category), source)
                yield None if value is None else TableValue(value=value, note="METEOR without WordNet's synonyms")
            else:
                yield without_interval(number)
