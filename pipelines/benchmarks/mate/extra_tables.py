"""Tables of MATE that the paper does not have: people, readings, coordinates, shots that tell, pointers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.mate.results import Results, What, with_interval
from pipelines.benchmarks.mate.scored_rows import COORDS_ONLY, HEADS
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

_TASKS: Final = {
    "crossmodal": "Cross-modal",
    "img2txt": "Img2Txt",
    "txt2img": "Txt2Img",
    "unimodal": "Unimodal",
    "img2img": "Img2Img",
    "txt2txt": "Txt2Txt",
}
_PEOPLE: Final = {"crossmodal": "Table 1", "img2txt": "Table 1", "txt2img": "Table 1"}
"""Where human numbers are printed; the others stand in Table 3."""
_PRINTED: Final = "Section 6.2"


def own_tables(book: Results) -> list[Table]:
    """Those for which there is any number of ours."""
    tables = (_human(book), _reading(book), _coords(book), _leaks(book), _pairs(book))
    return [table for table in tables if any(row.origin == "ours" for row in table.rows)]


def _human(book: Results) -> Table:
    """Model, people, chance, and how far the model is from people."""
    rows: list[TableRow] = []
    for task, words in _TASKS.items():
        what: What = (task, "", "exact_match")
        human = book.printed.get((_PEOPLE.get(task, "Table 3"), "Human", "", what))
        block = [
            TableRow(
                label=book.label(model),
                cells=(with_interval(own), human and human.value, book.chance(what), _gap(own, human)),
            )
            for model in book.models
            if (own := book.find(model, what)) is not None
        ]
        rows += [TableRow(label=words, origin="heading"), *block] if block else []
    return Table(
        id="mate_human",
        title="MATE: models beside people and chance",
        columns=("Model", "Human", "Random", "Human \N{MINUS SIGN} model"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            (
                "Human: five people on 384 cross-modal 2-shot examples, which are not named; how many unimodal ones is"
                " not said. The gap is therefore approximate: its interval is that of the model alone."
            ),
            "Random: the closed form of a guess on the same rows.",
            *book.notes(),
        ),
    )


def _gap(own: TableValue, human: TableValue | None) -> TableCell:
    if human is None or human.value is None or own.value is None:
        return None
    low, high = own.low, own.high
    return TableValue(
        value=human.value - own.value,
        low=None if high is None else human.value - high,
        high=None if low is None else human.value - low,
    )


def _reading(book: Results) -> Table:
    """What the reading of answers costs, and what failures would."""
    heads = {
        "exact_match": "Strict",
        "exact_match_lenient": "Lenient",
        "format_ok": "JSON read",
        "exact_match_failures_wrong": "Failures as wrong",
    }
    counts = {"errors": "Failed", "no_json_count": "No JSON", "truncated_count": "Cut"}
    rows: list[TableRow] = []
    for task in ("img2txt", "txt2img", "img2img", "txt2txt"):
        block = []
        for model, setting in _cells(book, task):
            numbers = [book.find(model, (task, "", metric), setting) for metric in heads]
            sums = [book.find(model, (task, "", metric), setting) for metric in counts]
            shown: list[TableCell] = [number and number.value for number in numbers]
            shown += [None if one is None or one.value is None else int(one.value) for one in sums]
            answers = numbers[0].n if numbers[0] is not None else None
            block.append(TableRow(label=f"{model}, {setting}", cells=(*shown, answers)))
        rows += [TableRow(label=_TASKS[task], origin="heading"), *block] if block else []
    return Table(
        id="mate_reading",
        title="MATE: how answers were read",
        columns=(*heads.values(), *counts.values(), "Answers"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            (
                "Strict is the benchmark's own reading and the headline. Lenient forgives quotes, spacing, case, a"
                " missing brace and the last digits of a number; it is never mixed in."
            ),
            "Failed requests are no answers and not in the denominator; the fourth column counts them as wrong.",
        ),
    )


def _cells(book: Results, task: str) -> Iterator[tuple[str, str]]:
    for model, setting, what in book.ours:
        if what == (task, "", "exact_match"):
            yield model, setting


def _coords(book: Results) -> Table:
    """What is answered where only coordinates link the object."""
    heads = {
        ("crossmodal", COORDS_ONLY, "pct_correct_given_noncoord_match"): "Right among all alike but for coordinates",
        ("crossmodal", COORDS_ONLY, "pct_noncoord_mismatch"): "Differs in more than coordinates",
        ("crossmodal", COORDS_ONLY, "pct_closer_than_average"): "Nearer than its like",
    }
    rows = [
        TableRow(
            label=f"{model}, published",
            cells=(*(number and number.value for number in printed), None, None),
            origin="published",
        )
        for model in book.printed_models(_PRINTED)
        if any(printed := [book.printed.get((_PRINTED, model, "2-shot", what)) for what in heads])
    ]
    for model in book.models:
        found = [book.find(model, what) for what in heads]
        if all(number is None for number in found):
            continue
        moved = book.find(model, ("crossmodal", "", "in_scene_without_object"))
        alone = _singletons(book, model)
        count = None if moved is None or moved.value is None else int(moved.value)
        rows.append(TableRow(label=book.label(model), cells=(*(with_interval(one) for one in found), alone, count)))
    return Table(
        id="mate_coords_only",
        title="MATE section 6.2: where only coordinates link the object",
        columns=(*heads.values(), "Without a like", "In scene, no object"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            (
                "Nearer than its like: wrong answers that share at most two attributes with the object asked about, no"
                " farther from it than the mean of all objects that share as many. Ties count, and so do objects"
                " without a like, whose share is beside it."
            ),
            (
                "In scene, no object: wrong answers that some object has as text and none as a typed value, such as a"
                " number in quotes; OSE counts them as in the scene, Figure 5 as no object."
            ),
            *book.notes(),
        ),
    )


def _singletons(book: Results, model: str) -> TableCell:
    parts = [
        number
        for label in ("2", "1", "0")
        if (number := book.find(model, ("crossmodal", f"overlap={label}", "alone_of_its_overlap"))) is not None
    ]
    n = sum(part.n or 0 for part in parts)
    return sum((part.value or 0.0) * (part.n or 0) for part in parts) / n if n else None


def _leaks(book: Results) -> Table:
    """Accuracy with and without a solved example on the very object asked about."""
    rows: list[TableRow] = []
    for task in ("txt2img", "txt2txt"):
        block = []
        for model, setting in _cells(book, task):
            found = [
                book.find(model, (task, f"shot_shows_target={word}", "exact_match"), setting)
                for word in ("true", "false")
            ]
            if any(number is not None for number in found):
                cells = tuple(with_interval(number) for number in found)
                block.append(TableRow(label=f"{model}, {setting}", cells=cells))
        rows += [TableRow(label=_TASKS[task], origin="heading"), *block] if block else []
    return Table(
        id="mate_shots",
        title="MATE: when a solved example is about the very object asked about",
        columns=("It is", "It is not"),
        rows=tuple(rows),
        style="percent1",
        notes=("Such examples show the target attribute itself; the benchmark has them where text points.",),
    )


def _pairs(book: Results) -> Table:
    """Accuracy by pointer and target attribute."""
    rows: list[TableRow] = []
    heads = list(HEADS.values())
    for model in book.models:
        for task in ("img2txt", "txt2img", "img2img", "txt2txt"):
            block = []
            for pointer in heads:
                found = [
                    book.find(model, (task, f"pointer={pointer} target={target}", "exact_match")) for target in heads
                ]
                whole = book.find(model, (task, f"pointer={pointer}", "exact_match"))
                if whole is not None:
                    cells = (*(number and number.value for number in found), with_interval(whole))
                    block.append(TableRow(label=pointer, cells=cells))
            if block:
                rows += [TableRow(label=f"{book.label(model)}, {_TASKS[task]}", origin="heading"), *block]
    return Table(
        id="mate_pointers",
        title="MATE: accuracy by pointer (rows) and target attribute (columns)",
        label_head="Pointer",
        columns=(*heads, "All"),
        rows=tuple(rows),
        style="percent1",
        heat=(0.0, 1.0),
    )
