"""Read and score an answer by the kind of its table."""

from collections.abc import Callable, Mapping
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
from pipelines.benchmarks.table.kinds import gold_letter, rotated
from pipelines.benchmarks.text_cleaning import collapsed
from pipelines.metrics.meteor import meteor_english
from pipelines.metrics.text import rouge_l

UNREADABLE: Final = "unreadable"


def read_answer(definition: TableDefinition, row: Row) -> Reading:
    """Read one prediction; an answer that cannot be read is wrong, a request that failed has no score."""
    reading = _READERS[definition.kind](definition, row)
    flags = (*reading.flags, *(("truncated",) if row.finish_reason == "length" else ()))
    return Reading(answer=reading.answer, rule=reading.rule, flags=flags, values=reading.values)


def read_verdict(text: str) -> bool | None:
    """Read whether a judge said yes; None where it said neither word, or both."""
    answer = read_yes_no(text)
    return None if answer is None else answer == "yes"


def _reading(answer: str | None, rule: str, values: Mapping[str, float]) -> Reading:
    flags = () if answer is not None else (UNREADABLE,)
    return Reading(
        answer=answer, rule=rule if answer is not None else f"{UNREADABLE}: {rule}", flags=flags, values=values
    )


def _choice(_definition: TableDefinition, row: Row) -> Reading:
    data = row.sample.data
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


_READERS: Final[Mapping[Kind, Callable[[TableDefinition, Row], Reading]]] = {
    "choice": _choice,
    "yes-no": _yes_no,
    "label": _label,
    "text": _text,
    "number": _number,
    "open": _open,
}
