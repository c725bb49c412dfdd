"""UNPIE's tables in the paper's layout, ours beside the published ones.

Tables 4 to 6 of Chung et al., EMNLP 2024, arXiv 2410.01023. Where more than 1% of our requests could not be asked, our
rows stand in a table of their own, without any published number. The other tables are in `unpie_own_tables` and
`unpie_static_tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS
from pipelines.benchmarks.unpie.extra_tables import own_tables
from pipelines.benchmarks.unpie.published_tables import static_tables
from pipelines.benchmarks.unpie.results import INPUTS, PAIRS, TYPES, Key, Origin, Results, without_interval

_COLUMNS: Final = (*KINDS, ALL)
_VICUNA: Final = (
    "The paper's Vicuna is 13B in its text and 7B in its appendix; its GPT-4 rows with pictures name no endpoint."
)
_HUMAN: Final = "Human scores on the three tasks: not published."
_ONE_PICTURE: Final = (
    "all printed values are multiples of 0.2, as with 500 rows: these may rest on one picture a pun, ours on both"
)
_NO_ENDPOINT: Final = "the endpoint that the paper names takes no pictures"

Rows = Callable[[Origin, str, str, str], TableRow]
"""Makes the row of (origin, model, setting, subset)."""


def make_tables(results: ReportResults) -> list[Table]:
    """Tables 4 to 6, what is ours, then those that nothing of ours belongs in."""
    book = Results.of(*to_frames(results))
    return [*_grounding(book), *_disambiguation(book), *_reconstruction(book), *own_tables(book), *static_tables(book)]


def _who(book: Results, keys: Sequence[Key], task: str, *, thin: bool) -> list[tuple[Origin, str]]:
    """Models for a block: published first, then ours; of the thin table ours alone."""
    setting = keys[0].setting
    ours = [model for model in book.with_values("ours", keys) if book.thin(model, task, setting) == thin]
    published = [] if thin else [name for name in book.with_values("published", keys) if name != "Random"]
    return [*(("published", name) for name in published), *(("ours", name) for name in ours)]


def _twice(book: Results, task: str, make: Callable[[bool], Table]) -> Iterator[Table]:
    """The table, and one without published numbers for rows that do not cover enough."""
    yield make(False)
    if any(book.thin(model, task, setting) for model in book.models["ours"] for setting in TYPES):
        table = make(True)
        if any(row.origin == "ours" for row in table.rows):
            yield table


def _thin_notes(task: str, book: Results, *, thin: bool) -> tuple[str, ...]:
    few = "More than 1% of the requests lack a picture or a caption, so nothing published stands beside these."
    return (few,) if thin else (_VICUNA, _HUMAN, *book.subset_notes(task))


def _row_note(origin: Origin, model: str, setting: str, task: str) -> str:
    if origin == "published" and model == "GPT-4" and setting == "vlm":
        return _NO_ENDPOINT
    return _ONE_PICTURE if (origin, task, setting) == ("published", "disambiguation", "sm") else ""


def _better(book: Results, task: str, marked: Sequence[bool]) -> tuple[Literal["higher", ""], ...]:
    """Nothing is marked as the best where ours cannot be compared with the published."""
    if book.subset_notes(task):
        return ()
    return tuple("higher" if one else "" for one in marked)


def _grounding(book: Results) -> Iterator[Table]:
    task = "grounding"

    def make(thin: bool) -> Table:  # noqa: FBT001 - which of the two tables
        rows: list[TableRow] = [] if thin else _random_phrase(book)
        for setting, words in TYPES.items():
            keys = [Key(task, setting, "exact_match", "", kind) for kind in KINDS]
            block = [
                TableRow(
                    label=model,
                    cells=(INPUTS[setting], *(_with_delta(book, origin, model, key) for key in keys)),
                    origin=origin,
                    note=_row_note(origin, model, setting, task),
                )
                for origin, model in _who(book, keys, task, thin=thin)
            ]
            rows += [TableRow(label=words, origin="heading"), *block] if block else []
        return Table(
            id="unpie_table4_low_coverage" if thin else "unpie_table4",
            title="UNPIE Table 4: exact match of the pun's phrase" + _of_few(thin),
            columns=("Inputs", *KINDS),
            rows=tuple(rows),
            style="percent1",
            better=_better(book, task, (False, True, True)),
            notes=("Percent; in brackets the change against LM.", *_thin_notes(task, book, thin=thin)),
        )

    yield from _twice(book, task, make)


def _of_few(thin: bool) -> str:  # noqa: FBT001 - as above
    return ", of rows with low coverage" if thin else ""


def _random_phrase(book: Results) -> list[TableRow]:
    """A blind guess of one word, which depends on the sentences and not on the model."""
    for origin, model, key in book.numbers:
        if origin == "ours" and key.metric == "random_exact_match":
            found = [book.value("ours", model, key._replace(category=kind)) for kind in KINDS]
            note = "one word of the sentence at random; not printed in the paper"
            return [TableRow(label="Random", cells=("", *found), origin="reference", note=note)]
    return []


def _with_delta(book: Results, origin: Origin, model: str, key: Key) -> TableCell:
    return without_interval(book.find(origin, model, key), book.find(origin, model, key._replace(metric="delta_vs_lm")))


def _disambiguation(book: Results) -> Iterator[Table]:
    task = "disambiguation"
    pairs = PAIRS[task]

    def cells(origin: Origin, model: str, setting: str) -> tuple[TableCell, ...]:
        keys = [Key(task, setting, "accuracy", pair, kind) for pair in pairs for kind in _COLUMNS]
        return tuple(without_interval(book.find(origin, model, key)) for key in keys)

    def make(thin: bool) -> Table:  # noqa: FBT001 - as above
        random = TableRow(label="Random", cells=("", *cells("published", "Random", "")), origin="reference")
        rows = [] if thin else [random]
        for setting in ("sm", "vlm"):
            keys = [Key(task, setting, "accuracy", pair, kind) for pair in pairs for kind in _COLUMNS]
            block = [
                TableRow(
                    label=model,
                    cells=(INPUTS[setting], *cells(origin, model, setting)),
                    origin=origin,
                    note=_row_note(origin, model, setting, task),
                )
                for origin, model in _who(book, keys, task, thin=thin)
            ]
            rows += [TableRow(label=TYPES[setting], origin="heading"), *block] if block else []
        return Table(
            id="unpie_table5_low_coverage" if thin else "unpie_table5",
            title="UNPIE Table 5: translations closer to the meaning that the picture shows" + _of_few(thin),
            columns=("Inputs", *_COLUMNS * len(pairs)),
            groups=(("", 1), *((pair, len(_COLUMNS)) for pair in pairs)),
            rows=tuple(rows),
            style="percent1",
            better=_better(book, task, (False, *[True] * len(_COLUMNS) * len(pairs))),
            second="table",
            notes=(
                "Percent; ties are wrong. All is the mean of Homo and Hetero.",
                "BERTScore F1 of bert-base-multilingual-cased, layer 9, is our choice: the paper names no model.",
                *_thin_notes(task, book, thin=thin),
            ),
        )

    yield from _twice(book, task, make)


_RECONSTRUCTED: Final = ("correct_pct", "delta_vs_lm", "bleu4", "meteor")


def _reconstruction(book: Results) -> Iterator[Table]:
    task = "reconstruction"

    def make(thin: bool) -> Table:  # noqa: FBT001 - as above
        rows: list[TableRow] = []
        for pair in PAIRS[task]:
            block: list[TableRow] = []
            for setting in TYPES:
                keys = [Key(task, setting, name, pair, kind) for name in ("correct_pct", "bleu4") for kind in _COLUMNS]
                block += [
                    TableRow(
                        label=model,
                        cells=(TYPES[setting], INPUTS[setting], *_reconstructed(book, origin, model, setting, pair)),
                        origin=origin,
                        note=_row_note(origin, model, setting, task),
                    )
                    for origin, model in _who(book, keys, task, thin=thin)
                ]
            rows += [TableRow(label=pair, origin="heading"), *block] if block else []
        per = len(_RECONSTRUCTED)
        return Table(
            id="unpie_table6_low_coverage" if thin else "unpie_table6",
            title="UNPIE Table 6: puns written again from one translation" + _of_few(thin),
            columns=("Type", "Inputs", *("Correct %", "Change", "BLEU-4", "METEOR") * len(_COLUMNS)),
            groups=(("", 2), *((kind, per) for kind in _COLUMNS)),
            rows=tuple(rows),
            style="percent1",
            better=_better(book, task, (False, False, *(False, True, False, False) * len(_COLUMNS))),
            best_of="block",
            notes=(
                "Percent. Change: of Correct % against LM, the largest gain of each block in bold.",
                "All is the mean of Homo and Hetero, of BLEU-4, too.",
                (
                    "Other judge: the published Correct % are gpt-4-0613's by an unpublished prompt, ours those "
                    "of the run's judge. The paper names no variant of BLEU and METEOR."
                ),
                *_thin_notes(task, book, thin=thin),
            ),
        )

    yield from _twice(book, task, make)


def _reconstructed(book: Results, origin: Origin, model: str, setting: str, pair: str) -> Iterator[TableCell]:
    for kind in _COLUMNS:
        for name in _RECONSTRUCTED:
            key = Key("reconstruction", setting, name, pair, kind)
            found = book.find(origin, model, key)
            if found is None and name == "meteor":
                found = book.find(origin, model, key._replace(metric="meteor_nowordnet"))
                known = found is not None and found.value is not None
                yield (
                    TableValue(value=found.value, note="METEOR without WordNet's synonyms") if found and known else None
                )
            else:
                yield without_interval(found)
