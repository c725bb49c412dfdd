r"""Read the answer in a model's text on MATE, and decide whether it is right.

The strict reading decides `exact_match`, the headline: outer white space, backslashes and line feeds are removed, the
last piece that looks like `{"answer": ...}` is parsed as JSON, and its value is compared as Python prints it. The
lenient reading decides `exact_match_lenient` and forgives quotes, key order, a missing final brace, case, a final full
stop and the last digits of a number. Both take time linear in the text.
"""

import ast
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
Gold: TypeAlias = str | int | float | list[float]

_MAX_NESTING = 200  # lists in lists; deeper ones are no answer, and would read differently from call to call
_ANSWER = re.compile(r'[{][ ]*+"answer":[ ].*?[}]')


@dataclass(frozen=True, slots=True)
class Answer:
    """A value that was read; a record because JSON `null` is a value too."""

    value: JsonValue  # the parsed value of the key `answer`
    text: str  # the value as Python prints it, without outer white space: what is compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The assessment of one output."""

    exact_match: bool  # the strict reading equals the gold answer
    format_ok: bool  # the strict reader found JSON
    exact_match_lenient: bool  # right in the strict or in the lenient reading
    answer: Answer | None  # what the strict reader read; None where there was no JSON


def judge(output: str, gold: Gold) -> Verdict:
    """Read `output` both ways and compare with `gold`; an empty output is a wrong answer."""
    answer = read_strict(output)
    right = is_correct(gold, answer)
    return Verdict(
        exact_match=right,
        format_ok=answer is not None,
        exact_match_lenient=right or is_correct_lenient(gold, read_lenient(output)),
        answer=answer,
    )


# ---------------------------------------------------------------------------------------------- strict


def read_strict(output: str) -> Answer | None:
    """Return the last answer by the benchmark's rules; None where nothing matches or the last match does not parse."""
    text = output.strip().replace("\\", "").replace("\n", "")
    # Without a closing brace ahead, every opening one would scan to the end: cutting here keeps the search linear.
    text = text[: text.rfind("}") + 1]
    matches = _ANSWER.findall(text)
    if not matches:
        return None
    try:
        value: JsonValue = json.loads(matches[-1])["answer"]
        return None if _too_deep(value) else Answer(value, str(value).strip())
    except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, or nested without end
        return None


def is_correct(gold: Gold, answer: Answer | None) -> bool:
    """Return whether the strict answer, stripped, equals the gold answer, both as Python prints them."""
    return answer is not None and str(gold) == answer.text


def _too_deep(value: JsonValue) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(_MAX_NESTING):
        level = [inner for outer in level if isinstance(outer, list) for inner in outer]
        if not level:
            return False
    return True


# --------------------------------------------------------------------------------------------- lenient

_CLOSERS = {'"': '"“”', "'": "'‘’", "“": '"“”', "”": '"“”', "„": '"“”', "‘": "'‘’", "’": "'‘’", "`": "`'", "«": "»"}
# A closing quote is one that something of JSON follows, so an apostrophe or an inner quote does not end the text.
_CLOSING = {opener: re.compile(rf"[{closers}](?=\s*+(?:[,}}\]]|\Z))") for opener, closers in _CLOSERS.items()}
_ANY_CLOSER = {opener: re.compile(f"[{closers}]") for opener, closers in _CLOSERS.items()}
_QUOTE = "[\"'“”„‘’`«»]"
_KEY = re.compile(
    rf"""\s*+{_QUOTE}?+([^\s"'“”„‘’`«»:,{{}}\[\]][^"'“”„‘’`«»:,{{}}\[\]\n]{{0,80}}+){_QUOTE}?+\s*+:\s*+"""
)
_NEXT_FIELD = re.compile(r"([\s}\]]*+),")
_FLAT_LIST = re.compile(r"\[([^\[\]{}]*+)\]")
_BARE = re.compile(r"[^,{}\[\]\n]*+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 400
_RELATIVE_TOLERANCE = 1e-6


def read_lenient(output: str) -> Answer | None:
    """Return the last answer by the lenient rules; None where nothing was found.

    Any braced object with a key `answer` counts, in any case, quotes and order of keys, closed or not; its value may be
    a bare word, and is a text, a list of texts, or None for something nested.
    """
    scanner = _Scanner(output.strip().replace("\\", ""))
    position = scanner.text.find("{")
    while position >= 0:
        position = scanner.text.find("{", scanner.read_fields(position + 1))
    return scanner.found


def is_correct_lenient(gold: Gold, answer: Answer | None) -> bool:
    """Return whether the lenient answer agrees, except for case and a final full stop; numbers within 1e-6."""
    return answer is not None and _agrees(gold, answer.value)


class _Scanner:
    """Scanner of a text from left to right that reads nothing twice."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: Answer | None = None
        self._unclosed: set[str] = set()

    def read_fields(self, position: int) -> int:
        """Read `key: value` pairs after a brace; return where they stop."""
        depth = 1
        while field := _KEY.match(self.text, position):
            value, position = self._read_value(field.end())
            if field[1].strip().casefold() == "answer":
                self.found = Answer(value, str(value).strip())
            if self.text[position : position + 1] == "{":
                depth += 1
                position += 1
                continue
            separator = _NEXT_FIELD.match(self.text, position)
            if separator is None:
                break
            depth -= separator[1].count("}")
            position = separator.end()
            if depth <= 0:
                break
        return position

    def _read_value(self, position: int) -> tuple[JsonValue, int]:
        opener = self.text[position : position + 1]
        if opener == "{":
            return None, position
        if opener in _CLOSING and (end := self._closing_quote(opener, position + 1)) is not None:
            return self.text[position + 1 : end].replace("\n", ""), end + 1
        if opener == "[":
            if flat := _FLAT_LIST.match(self.text, position):
                return [_unquoted(item) for item in flat[1].split(",")], flat.end()
            return None, position + 1
        bare = cast("re.Match[str]", _BARE.match(self.text, position))
        return bare.group().strip(), bare.end()

    def _closing_quote(self, opener: str, position: int) -> int | None:
        brace = self.text.find("{", position)
        before_brace = len(self.text) if brace < 0 else brace
        closing = _CLOSING[opener].search(self.text, position, before_brace)
        if closing is None:  # an object that was left open: the next one starts before anything closes this text
            closing = _ANY_CLOSER[opener].search(self.text, position, before_brace)
        if closing is None and opener not in self._unclosed:
            closing = _CLOSING[opener].search(self.text, position)
            if closing is None:  # then there is none further on either: not asked again, so the pass stays linear
                self._unclosed.add(opener)
        return None if closing is None else closing.start()


def _unquoted(item: str) -> str:
    item = item.strip()
    if len(item) > 1 and item[-1] in _CLOSERS.get(item[0], ""):
        return item[1:-1]
    return item


def _agrees(gold: Gold, value: JsonValue) -> bool:
    if isinstance(gold, list):
        if isinstance(value, str) and (flat := _FLAT_LIST.fullmatch(_folded(value))):
            value = [_unquoted(item) for item in flat[1].split(",")]
        if not isinstance(value, list) or len(value) != len(gold):
            return False
        return all(_agrees(expected, item) for expected, item in zip(gold, value, strict=True))
    if not isinstance(value, str):
        return False
    if isinstance(gold, str):
        return bool(value.strip()) and _folded(value) == _folded(gold)
    number = _folded(value)
    if len(number) > _LONGEST_NUMBER or _NUMBER.fullmatch(number) is None:
        return False
    return math.isclose(float(number), gold, rel_tol=_RELATIVE_TOLERANCE)


def _folded(text: str) -> str:
    return text.strip().removesuffix(".").rstrip().casefold()


# ------------------------------------------------------------------------------------------------ gold


def decode(text: str) -> JsonValue:
    """Decode text as JSON, else as a Python literal; return it unchanged where it is neither."""
    try:
        return cast("JsonValue", json.loads(text))
    except (ValueError, RecursionError):
        pass
    if text.lstrip()[:1] not in {"{", "[", "(", "'", '"'} or "\\" in text:  # a bad escape would only warn
        return text
    try:
        literal = ast.literal_eval(text.strip())
        return cast("JsonValue", json.loads(json.dumps(literal)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def read_gold(reference: object) -> Gold:
    """Return the gold answer of a row, a text, a number, or a list of three numbers.

    `reference` is JSON text of an object with the key `answer`, or the bare value, decoded or not; else ValueError.
    """
    value = decode(reference) if isinstance(reference, str) else reference
    if isinstance(value, dict):
        if "answer" not in value:
            raise ValueError(f"the gold answer has no key 'answer': {_short(reference)}")
        value = value["answer"]
    if isinstance(value, str) and value.strip():
        return value
    if is_number(value):
        return cast("float", value)
    if isinstance(value, Sequence) and len(value) == 3 and all(is_number(item) for item in value):
        return cast("list[float]", list(value))
    raise ValueError(f"the gold answer is not text, number or list of three numbers: {_short(reference)}")


def gold_json(gold: Gold) -> str:
    """Return the gold answer as a solved example shows it: JSON text with the single key `answer`."""
    return json.dumps({"answer": gold}, ensure_ascii=False)


def is_number(value: object) -> bool:
    """Return whether a decoded value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
