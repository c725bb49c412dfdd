"""Read and score an answer by the kind of its table."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from string import ascii_uppercase
from typing import Any, Final

from pipelines.benchmarks.known_tables import Kind, TableDefinition
from pipelines.benchmarks.readers.amounts import is_exact_gold, is_within, read_number
from pipelines.benchmarks.readers.option_letters import Choice, invalid, letter_reader, valid
from pipelines.benchmarks.readers.short_answers import (
    TEN_ANSWERS,
    anls,
    normalized,
    phrase,
    read_label,
    read_yes_no,
    vqa_accuracy,
)
from pipelines.benchmarks.records import Reading, Row
from pipelines.benchmarks.scorers import JUDGE, answer_part, official
from pipelines.benchmarks.scorers.letters import read_scale
from pipelines.benchmarks.scorers.records import Gold
from pipelines.benchmarks.table.kinds import OFFICIAL, gold_letter, rotated, row_kind, turn_sample
from pipelines.benchmarks.text_cleaning import collapsed
from pipelines.metrics.meteor import meteor_english
from pipelines.metrics.text import rouge_l

UNREADABLE: Final = "unreadable"


def read_answer(definition: TableDefinition, row: Row) -> Reading:
    """Read one prediction; an answer that cannot be read is wrong, a request that failed has no score."""
    kind, row = row_kind(definition, row.sample), replace(row, sample=turn_sample(row.sample, row.variant))
    reading = _READERS[kind](definition, row)
    flags = (*reading.flags, *(("truncated",) if row.finish_reason == "length" else ()))
    values = {**reading.values, **_official(definition, kind, row)}
    return Reading(answer=reading.answer, rule=reading.rule, flags=flags, values=values)


def judged_score(definition: TableDefinition, reply: str) -> float | None:
    """Return what a judge's reply is worth, from 0 to 1; None for an unreadable one."""
    scale = definition.judge_scale
    if not scale:
        answer = read_yes_no(reply)
        return None if answer is None else float(answer == "yes")
    read = read_scale(reply, scale if len(scale) > 1 else scale[0])
    return read[0] if read else None


def _official(definition: TableDefinition, kind: Kind, row: Row) -> dict[str, float]:
    """Return the values by the scorer of a row's kind; none without one, or without a verdict that it needs."""
    scorer = definition.scorers.get(kind)
    if scorer is None:
        return {}
    if scorer == JUDGE:
        return _judged(definition, row)
    reply = row.output if row.raw is None else row.raw  # official scripts clean nothing
    scored = official(scorer, _extracted(definition, reply or ""), gold_of(definition, row))
    said = {"official_yes": float(scored.answer == "yes")} if kind == "yes-no" else {}
    return {OFFICIAL: scored.score, **scored.values, **said}


def _judged(definition: TableDefinition, row: Row) -> dict[str, float]:
    if row.verdict.state != "ok":
        return {}
    scale, reply = definition.judge_scale, row.verdict.reply
    score = judged_score(definition, reply) if reply else float(bool(row.verdict.accepted))
    if score is None:
        return {}
    named = read_scale(reply, scale) if len(scale) > 1 and reply else None
    said = named[1] if named else ""
    shares = {f"class_{name}": float(name == said) for name in scale} if len(scale) > 1 else {}
    return {OFFICIAL: score, **shares}


def _extracted(definition: TableDefinition, reply: str) -> str:
    found = re.findall(r"\{([^{}]*)\}", answer_part(reply)) if definition.extract else []
    return found[-1] if found else reply


def gold_of(definition: TableDefinition, row: Row) -> Gold:
    """Return the right answer of a row in the forms that scorers compare with."""
    sample, data = row.sample, row.sample.data
    has_options = row_kind(definition, sample) == "choice"
    letters = definition.letters or ascii_uppercase[: len(data.get("options", ()))]
    pictures = [(float(ref.width), float(ref.height)) for ref in sample.media]
    size = data.get("size") or (pictures[0] if pictures else (1.0, 1.0))
    box = data.get("box")
    return Gold(
        references=data["answers"],
        letters=letters if has_options else "",
        letter=gold_letter(data, row.variant) if has_options else None,
        is_exact=bool(data.get("exact")),
        precision=data.get("precision"),
        box=(box[0], box[1], box[2], box[3]) if box else None,
        size=(size[0], size[1]),
        coordinates=definition.coordinates,
    )


def _reading(answer: str | None, rule: str, values: Mapping[str, float]) -> Reading:
    flags = () if answer is not None else (UNREADABLE,)
    return Reading(
        answer=answer, rule=rule if answer is not None else f"{UNREADABLE}: {rule}", flags=flags, values=values
    )


def expected_place(definition: TableDefinition, row: Row) -> str:
    """Return the right box of a row as a reply should give it, or the point in its middle."""
    gold = gold_of(definition, row)
    left, top, right, bottom = gold.box or (0.0, 0.0, 0.0, 0.0)
    scale = {"0-1": 1.0, "0-1000": 1000.0}
    if row_kind(definition, row.sample) == "point":
        width, height = gold.size
        return f"[{(left + right) / 2 / width:.4g}, {(top + bottom) / 2 / height:.4g}]"
    width, height = (side / scale[gold.coordinates] for side in gold.size) if gold.coordinates in scale else (1.0, 1.0)
    return f"[{left / width:.4g}, {top / height:.4g}, {right / width:.4g}, {bottom / height:.4g}]"


def _choice(definition: TableDefinition, row: Row) -> Reading:
    data = row.sample.data
    if definition.letters:
        count = len(data["options"])
        choice = letter_reader(count).read(row.output or "", {})
        correct = float(choice.letter == gold_letter(data, row.variant))
        return _reading(choice.letter, choice.rule or str(choice.invalid_reason), {"correct": correct})
    texts = rotated(data["options"], int(row.variant or 0))
    options = dict(zip(ascii_uppercase, texts, strict=False))
    reply = phrase(row.output or "")
    same = _equal_option(reply.casefold(), {letter: phrase(text).casefold() for letter, text in options.items()})
    same = same or _equal_option(normalized(reply), {letter: normalized(text) for letter, text in options.items()})
    if same:  # before the reader of letters, which takes `C++` for a C
        choice = valid(same, "R5")
    else:
        choice = letter_reader(len(texts)).read(row.output or "", options)
        if choice.rule == "R5":  # by words alone, for which `5` is `-5`
            choice = _with_signs(choice, row.output or "", options)
    correct = float(choice.letter == gold_letter(data, row.variant))
    return _reading(choice.letter, choice.rule or str(choice.invalid_reason), {"correct": correct})


def _equal_option(form: str, forms: Mapping[str, str]) -> str | None:
    """Return the letter of the only option that equals a reply, unless the reply is a letter itself."""
    equal = [letter for letter, option in forms.items() if form and option == form]
    return equal[0] if len(equal) == 1 and form.upper() not in forms else None


def _with_signs(choice: Choice, reply: str, options: Mapping[str, str]) -> Choice:
    """Return a choice by words if the option's signs are in the reply too; of several the only one whose signs are."""
    form, forms = normalized(phrase(reply)), {letter: normalized(text) for letter, text in options.items()}
    named = [letter for letter, option in forms.items() if option and f" {option} " in f" {form} "]
    if choice.letter:
        return choice if choice.letter in named else invalid("unparsed")
    return valid(named[0], "R5") if len(named) == 1 else choice


def _yes_no(_definition: TableDefinition, row: Row) -> Reading:
    gold, answer = row.sample.data["answers"][0], read_yes_no(row.output or "")
    values = {"correct": float(answer == gold), "said_yes": float(answer == "yes"), "is_yes": float(gold == "yes")}
    return _reading(answer, "word", values)


def _label(definition: TableDefinition, row: Row) -> Reading:
    answer = read_label(row.output or "", definition.labels)
    return _reading(answer, "label", {"correct": float(answer == row.sample.data["answers"][0])})


def _text(_definition: TableDefinition, row: Row) -> Reading:
    references: list[str] = row.sample.data["answers"]
    answer = phrase(row.output or "")
    form = normalized(answer)
    values = {
        "correct": float(any(form == normalized(reference) for reference in references)),
        "anls": anls(answer, references),
    }
    if len(references) == TEN_ANSWERS:
        values["vqa"] = vqa_accuracy(answer, references)
    return _reading(answer or None, "text", values)


def _number(definition: TableDefinition, row: Row) -> Reading:
    gold: float = row.sample.data["gold"]
    number = read_number(row.output or "")
    right = number is not None and is_within(number, gold, definition.tolerance, exact=is_exact_gold(gold))
    values = {"correct": float(right), "exact": float(number == gold)}
    return _reading(None if number is None else f"{number:.15g}", "number", values)


def _open(_definition: TableDefinition, row: Row) -> Reading:
    text, references = collapsed(row.output or ""), [row.sample.data["answers"]]
    values: dict[str, Any] = {"rouge": rouge_l([text], references)[0], "meteor": meteor_english([text], references)[0]}
    if row.verdict.state in ("ok", "invalid"):
        values["accepted"] = float(bool(row.verdict.accepted))
    reading = _reading(text or None, "text", values)
    flags = (*reading.flags, *(("judge_error",) if row.verdict.state == "invalid" else ()))
    return Reading(answer=text, rule=reading.rule, flags=flags, values=values)


def _located(definition: TableDefinition, row: Row) -> Reading:
    scored = official(definition.scorers[row_kind(definition, row.sample)], row.output or "", gold_of(definition, row))
    return _reading(scored.answer, "coordinates", {"correct": scored.score})


def _generated(_definition: TableDefinition, row: Row) -> Reading:
    text = row.output or ""
    return Reading(answer=text, rule="text", values={"characters": float(len(text)), "words": float(len(text.split()))})


_READERS: Final[Mapping[Kind, Callable[[TableDefinition, Row], Reading]]] = {
    "choice": _choice,
    "yes-no": _yes_no,
    "label": _label,
    "text": _text,
    "number": _number,
    "open": _open,
    "box": _located,
    "point": _located,
    "generate": _generated,
}
