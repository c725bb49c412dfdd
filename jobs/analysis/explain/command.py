"""`vlmsweep compare A B --explain`: why two numbers differ."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jobs.analysis.explain.create import ExplainedNumber, Selection, explain_sides
from jobs.analysis.explain.published import explain_published
from jobs.analysis.explain.sides import LogSide, OutputSide, read_side, side_pairs, with_model
from jobs.analysis.explain.split import Explanation, StageShare
from jobs.shared.output import print_result, table
from pipelines.clean_text import counted
from pipelines.errors import UsageError

PUBLISHED: Final = "published"
_WIDTH: Final = 80  # columns of a terminal that the text fits
_EXAMPLES: Final = 2  # rows that a line shows
_TITLES: Final = {
    "items": "other rows or right answers",
    "prompts": "wording of the prompts",
    "media": "pixels, frames",
    "decoding": "generation settings",
    "errors": "failed requests",
    "reading": "how answers are read",
    "judge": "verdicts on the same words",
    "answers": "what is left: the models' own",
    "aggregation": "how rows become the number",
}


def explain_comparison(
    a: str,
    b: str | None,
    models: Sequence[str],
    names: Mapping[str, tuple[str, ...]],
    *,
    data: str,
    tool: str | None,
    as_json: bool,
) -> None:
    """Explain the numbers of two sides, or of the models of one output, and print it; `names` are of a `Selection`."""
    selection = Selection(**names, data=data, tool=tool)
    if b is not None and (b == PUBLISHED or b.startswith(f"{PUBLISHED}:")):
        side = read_side(a)
        sides = [with_model(side, model) for model in models] or [side]
        numbers = [number for first in sides for number in _published_numbers(first, b, selection)]
    else:
        pairs = side_pairs(a, b, models)
        numbers = [number for first, second in pairs for number in explain_sides(first, second, selection)]
    labels = [(number.explanation.label_a, number.explanation.label_b) for number in numbers]
    lines = list[str]()
    for number, sides_shown in zip(numbers, labels, strict=True):
        lines += [""] if lines else []
        if len({*labels}) > 1:
            lines.append("; ".join(label.replace(", ", ": ", 1) for label in sides_shown))
        lines += _lines(number)
    print_result(as_json, [row for number in numbers for row in _json_rows(number)], *lines)


def _published_numbers(side: OutputSide | LogSide, row: str, selection: Selection) -> list[ExplainedNumber]:
    if not isinstance(side, OutputSide):
        raise UsageError("published: A is the --out of a run, or OUT:MODEL")
    return explain_published(side, row.partition(":")[2], selection)


def _json_rows(number: ExplainedNumber) -> Iterator[dict[str, Any]]:
    """Yield the stages of a number as the contract's rows, with what they belong to."""
    explanation = number.explanation
    identity = {
        "benchmark": explanation.benchmark,
        **{name: getattr(explanation.key, name) for name in ("task", "setting", "metric")},
        "a": explanation.label_a,
        "b": explanation.label_b,
        **{name: getattr(explanation, name) for name in ("value_a", "value_b", "difference")},
        "n_a": explanation.n_a,
        "n_b": explanation.n_b,
    }
    for stage in explanation.stages:
        rows = [dict(zip(("task", "setting", "sample_id", "variant"), key, strict=True)) for key in stage.rows]
        yield {
            "stage": stage.stage,
            "share": stage.share,
            "n_rows": len(rows),
            **identity,
            "rows": rows,
            "notes": [*stage.notes, *(explanation.notes if stage.stage == "answers" else ())],
            **({"readings": [*_readings(number)]} if stage.stage == "reading" else {}),
        }


def _readings(number: ExplainedNumber) -> Iterator[dict[str, Any]]:
    readings_by_side = {"a": number.readings_a, "b": number.readings_b}
    for name in dict.fromkeys(of.reading for readings in readings_by_side.values() for of in readings):
        by_side = {side: of for side, readings in readings_by_side.items() for of in readings if of.reading == name}
        counts = {count: sum(getattr(of, count) for of in by_side.values()) for count in ("n_guessed", "n_changed")}
        yield {"reading": name, **{side: of.value for side, of in by_side.items()}, **counts}


def _lines(number: ExplainedNumber) -> Iterator[str]:
    explanation = number.explanation
    yield from _wrapped(_verdict(explanation))
    yield ""
    rows = [_row(stage) for stage in explanation.stages]
    total = ["B - A", f"{explanation.difference:+.4f}", "", ""]
    yield from table(("stage", "share", "rows", "such as"), [*rows, total]).splitlines()
    for stage in explanation.stages:
        for note in stage.notes:
            yield from _wrapped(f"{stage.stage}: {note}")
    yield from (line for note in explanation.notes for line in _wrapped(note))
    for reading in _readings(number):
        guesses = f", {reading['n_guessed']:,} guesses" if reading["n_guessed"] else ""
        values = ", ".join(f"{side.upper()} {reading[side]:.4f}" for side in "ab" if side in reading)
        yield f"read as {reading['reading']} does: {values}{guesses}"


def _verdict(explanation: Explanation) -> str:
    """Return which stage makes most of a difference, as a sentence."""
    key = explanation.key
    name = f"{explanation.benchmark} {key.task} {key.setting} {key.metric}"
    values = f"{explanation.value_b:.4f} in B, {explanation.value_a:.4f} in A: {explanation.difference:+.4f}"
    if not explanation.n_b:
        return (
            f"{name}: {explanation.value_b:.4f} published ({explanation.label_b}), {explanation.value_a:.4f} in A: "
            f"{explanation.difference:+.4f}. A paper's rows are not published; what A's own could change stands below"
        )
    largest = max(explanation.stages, key=lambda stage: abs(stage.share))
    if not largest.share:
        return f"{name}: {values}, and no stage changes it"
    count = counted(len(largest.rows), "row")
    return (
        f"{name}: {values}. Most comes from {largest.stage} ({_TITLES[largest.stage]}): {largest.share:+.4f}, {count}"
    )


def _row(stage: StageShare) -> Sequence[str]:
    samples = dict.fromkeys("/".join(filter(None, (key[2], key[3]))) for key in stage.rows[: 4 * _EXAMPLES])
    shown = ", ".join([*samples][:_EXAMPLES])
    return stage.stage, f"{stage.share:+.4f}", f"{len(stage.rows):,}", shown if len(shown) < 44 else f"{shown[:42]}.."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
