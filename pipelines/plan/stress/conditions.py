"""Conditions under which a stress test asks a prompt once more: options elsewhere, other letters, changed media.

A condition is a kind and a number, such as `order-1` or `jpeg-30`. A prompt that it changes has it at the end of its
version, `vague-mcq-vlm-v1+order-1`, and so an id of its own; one that it leaves as it is stays the request it was, and
is asked once. The same draw moves options in `order` and letters in `letters`, so that the right letter is the same
and only the place of the text differs.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from models.messages import Media, Part, Step, Text
from pipelines.benchmarks import unknown_name
from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
from pipelines.benchmarks.records import MediaRef, Prompt, Row, Sample
from pipelines.errors import UsageError


@dataclass(frozen=True, slots=True)
class _Kind:
    default: int
    most: int
    text: str


KINDS: Final[Mapping[str, _Kind]] = {
    "order": _Kind(1, 99, "every option in another place, so under another letter too"),
    "letters": _Kind(1, 99, "options in their places, each under another letter"),
    "frames": _Kind(50, 99, "frames of clips later by {}% of the distance to the next"),
    "jpeg": _Kind(30, 95, "pictures and frames stored as JPEG of quality {}"),
    "pixels": _Kind(25, 99, "pictures and frames shrunk to {}% of the pixels that the model is shown"),
}
ALL: Final = tuple(KINDS)
LETTERS_NOT_FOUND: Final = "option_lines_missing"
"""Why a prompt is not asked under other letters: its wording does not have each option on a line of its own."""
_VERSION: Final = re.compile(rf"\+((?:{'|'.join(KINDS)})-\d+)")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a stress test."""

    kind: str
    number: int  # of a draw, or how far media are changed

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read `order`, `order-2` or `jpeg-30`; UsageError for another kind or a number out of range."""
        kind, _, number = name.partition("-")
        if kind not in KINDS:
            raise unknown_name("condition", kind, list(KINDS))
        limits = KINDS[kind]
        if number and not (re.fullmatch(r"\d{1,3}", number) and 1 <= int(number) <= limits.most):
            raise UsageError(f"--conditions {name}: give {kind} a number from 1 to {limits.most}, such as {kind}-1")
        return cls(kind, int(number or limits.default))

    @classmethod
    def from_version(cls, version: str) -> Self | None:
        """Return the condition in the name of a prompt's version; None where it has none."""
        match = _VERSION.search(version)
        return cls.parse(match[1]) if match else None

    @classmethod
    def from_change(cls, change: str) -> Self | None:
        """Return the condition that makes a change of media; None for any other text."""
        kind, _, number = change.partition("-")
        is_one = kind in KINDS and re.fullmatch(r"[1-9][0-9]?", number) and int(number) <= KINDS[kind].most
        return cls(kind, int(number)) if is_one else None

    @property
    def text(self) -> str:
        """What it changes, in words."""
        return KINDS[self.kind].text.format(self.number)

    def sample(self, definition: BenchmarkDefinition, sample: Sample, seed: int) -> Sample:
        """Return a sample as it is asked: with each option under another letter, where the condition moves them."""
        order = self._order(definition, sample, seed)
        return definition.permuted(sample, order) if order and definition.permuted else sample

    def prompts(self, definition: BenchmarkDefinition, query: PromptInput) -> Iterator[Prompt]:
        """Yield the prompts of a sample, those that the condition changes with another version."""
        plain = list(definition.prompts(query))
        for before, after in zip(plain, self._changed(definition, query, plain), strict=True):
            yield before if after.steps == before.steps else replace(after, version=f"{before.version}+{self}")

    def _changed(
        self, definition: BenchmarkDefinition, query: PromptInput, plain: Sequence[Prompt]
    ) -> Iterator[Prompt]:
        if self.kind not in ("order", "letters"):
            refs = {ref.sha256: ref for ref in query.sample.media}
            yield from (
                replace(p, steps=tuple(self._with_changed_media(step, refs) for step in p.steps)) for p in plain
            )
            return
        sample = self.sample(definition, query.sample, query.seed)
        for before, moved in zip(plain, definition.prompts(replace(query, sample=sample)), strict=True):
            if self.kind == "order" or moved.steps == before.steps:
                yield moved
            else:
                group = (query.task, query.setting, before.variant)
                yield _in_places(moved, *(options_of(definition, s, *group) for s in (query.sample, sample)))

    def _order(self, definition: BenchmarkDefinition, sample: Sample, seed: int) -> list[int]:
        """Return for each place the option that comes there, none its own; empty where there are not two."""
        if self.kind not in ("order", "letters") or definition.permuted is None:
            return []
        options = (options_of(definition, sample, task, settings[0]) for task, settings in definition.tasks.items())
        count = max(map(len, options), default=0)
        order = [*range(count)] if count > 1 else []
        draws = random.Random(f"{seed}/{self.number}/{sample.sample_id}")  # noqa: S311  guards nothing
        while any(place == option for place, option in enumerate(order)):
            draws.shuffle(order)
        return order

    def _with_changed_media(self, step: Step, refs: Mapping[str, MediaRef]) -> Step:
        def changed(part: Part) -> Part:
            ref = refs.get(part.file) if isinstance(part, Media) else None
            if not isinstance(part, Media) or ref is None:
                return part
            is_shown_whole = part.kind == "image" or ref.frames <= part.frames
            return part if self.kind == "frames" and is_shown_whole else replace(part, source=f"{part.source}~{self}")

        return replace(step, turns=tuple(replace(turn, parts=tuple(map(changed, turn.parts))) for turn in step.turns))


def is_change(change: str) -> bool:
    """Return whether a text is what changes media: a clip's span, a condition, or both."""
    return all(re.fullmatch(r"span-\d{1,9}-\d{1,9}", part) or Condition.from_change(part) for part in change.split("~"))


def options_of(
    definition: BenchmarkDefinition, sample: Sample, task: str, setting: str, variant: str = ""
) -> dict[str, str]:
    """Return the options of a request by letter, in their order; none of a question without options."""
    row = Row(
        request_id="", sample=sample, model="", task=task, setting=setting, variant=variant, status="ok", output=None
    )
    return dict(definition.options(row)) if definition.options else {}


def asked_sample(definition: BenchmarkDefinition, sample: Sample, prompt_version: str, seed: int) -> Sample:
    """Return a sample as a prompt of this version asked it."""
    condition = Condition.from_version(prompt_version)
    return condition.sample(definition, sample, seed) if condition else sample


def _in_places(prompt: Prompt, before: Mapping[str, str], after: Mapping[str, str]) -> Prompt:
    """Return a prompt with the lines of its options in the places that their texts had before."""
    texts = [*before.values()]
    places = [texts.index(text) for text in after.values()]
    step = prompt.steps[-1]
    lines = [
        re.compile(rf"^\W{{0,2}}{letter}\W{{1,3}}{re.escape(text)}$", re.MULTILINE) for letter, text in after.items()
    ]
    for turn in step.turns:
        for part in turn.parts:
            matches = [line.search(part.text) for line in lines] if isinstance(part, Text) else []
            if isinstance(part, Text) and len({*places}) == len(places) and matches and all(matches):
                moved = Text(_moved(part.text, [match for match in matches if match], places))
                parts = tuple(moved if other is part else other for other in turn.parts)
                turns = tuple(replace(turn, parts=parts) if other is turn else other for other in step.turns)
                return replace(prompt, steps=(*prompt.steps[:-1], replace(step, turns=turns)))
    return replace(prompt, steps=(), excluded=LETTERS_NOT_FOUND)


def _moved(text: str, lines: Sequence[re.Match[str]], places: Sequence[int]) -> str:
    """Return a text with its lines, which follow each other, in other places."""
    spans = sorted(line.span() for line in lines)
    in_order = [line[0] for _, line in sorted(zip(places, lines, strict=True), key=lambda pair: pair[0])]
    pieces = [text[: spans[0][0]]]
    ends = [*(start for start, _ in spans[1:]), len(text)]
    for (_, end), following, line in zip(spans, ends, in_order, strict=True):
        pieces += [line, text[end:following]]
    return "".join(pieces)
