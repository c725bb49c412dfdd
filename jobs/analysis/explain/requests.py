"""What a request was made of, and in what two requests for the same row differ."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, Literal, TypeAlias

from models.entry_fields import identity_fields
from models.messages import Media, Part, Step, Text
from models.spec import ModelSpec
from pipelines.logged_answers.matching import prompt_text, words
from pipelines.plan.context import EntryPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.stored_plan import PlanReader, PlanRow, iter_media

Key: TypeAlias = tuple[str, str, str, str]  # task, setting, sample id, variant
Difference: TypeAlias = Literal["prompts", "media", "decoding"]
DIFFERENCES: Final[tuple[Difference, ...]] = ("prompts", "media", "decoding")
_CONTEXT: Final = "max_model_len"  # of `limits`: what it costs shows in `frames_used`


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """One request: of a run by its plan, of a log by the text that it shows."""

    prompt_sha256: str = ""  # '' of a log
    text: str = ""  # the words of a log's prompt; '' where the log has none
    has_media: bool = False
    generation: str = ""  # JSON of all steps' settings
    decoding: str = ""  # how the engine says that it decoded
    frames: int | None = None  # of the clip that were used
    part: str = ""  # of the plan
    index: int = 0  # in the part


class PromptStore:
    """The prompts of an entry's plans, read where two differ."""

    def __init__(self, plans: Sequence[EntryPlan]) -> None:
        """Open the plans."""
        self._readers = {part.path: PlanReader(plan.plan.store) for plan in plans for part in plan.plan.parts}

    def row(self, request: StoredRequest) -> PlanRow:
        """Return the stored request."""
        return next(self._readers[request.part].rows(request.part, [request.index]))


def iter_requests(plans: Sequence[EntryPlan]) -> Iterator[tuple[str, Key, StoredRequest]]:
    """Yield the requests of an entry's plans with their ids, without excluded ones' prompts."""
    for plan in plans:
        target = plan.entry.target
        for part in plan.plan.parts:
            for index, row in plan.plan.iter_part(part, payload=False):
                yield (
                    target.request_id(row),
                    (row.task, row.setting, row.sample_id, row.variant),
                    StoredRequest(
                        prompt_sha256=row.prompt_sha256,
                        has_media=bool(row.media_group),
                        generation=_generation(target, row),
                        part=part.path,
                        index=index,
                    ),
                )


def _generation(target: ModelTarget, row: PlanRow) -> str:
    """Return the settings of all steps as JSON: a greedy answer does not depend on the seed, so 0 stands there."""
    steps = [
        [step.max_new_tokens, step.temperature, step.num_beams, step.seed if step.temperature > 0 else 0]
        for step in target.generations(row)
    ]
    return json.dumps(steps)


def same_weights(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> bool | None:
    """Return whether two models are the same by their fingerprints; None where one has none."""
    if a is None or b is None:
        return None
    return all(a.get(key) == b.get(key) for key in _keys("weights"))


def model_differences(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> dict[Difference, bool]:
    """Return what the entries of two models change for every request, the limits of media for those with media."""
    if a is None or b is None:
        return dict.fromkeys(DIFFERENCES, False)
    return {
        name: any(_without_context(a.get(key)) != _without_context(b.get(key)) for key in _keys(name))
        for name in DIFFERENCES
    }


def _keys(changes: str) -> list[str]:
    """Return the keys of a model's fingerprint that change this."""
    return [mark.key or name for name, mark in identity_fields(ModelSpec) if mark.changes == changes]


def _without_context(value: object) -> object:
    return {key: of for key, of in value.items() if key != _CONTEXT} if isinstance(value, dict) else value


class Comparer:
    """Compares the requests of two sides."""

    def __init__(
        self,
        stores: tuple[PromptStore | None, PromptStore | None],
        fingerprints: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    ) -> None:
        """Take what is stored of each side; None of a log."""
        self._stores = stores
        self._model_differences = model_differences(*fingerprints)
        self._parts: dict[tuple[int, str], tuple[str, str, str]] = {}

    def differences(self, a: StoredRequest | None, b: StoredRequest | None) -> list[Difference]:
        """Return in what two requests differ, of what both sides store."""
        if a is None or b is None:
            return []
        if not a.prompt_sha256 or not b.prompt_sha256:
            texts = [request.text or self._part(side, request)[2] for side, request in enumerate((a, b))]
            return ["prompts"] if all(texts) and texts[0] != texts[1] else []
        prompts = media = False
        if a.prompt_sha256 != b.prompt_sha256:
            first, second = self._part(0, a), self._part(1, b)
            prompts, media = first[0] != second[0], first[1] != second[1]
        frames = a.frames != b.frames and None not in (a.frames, b.frames)
        decoded = a.decoding != b.decoding and bool(a.decoding) and bool(b.decoding)
        limits_differ = self._model_differences["media"] and (a.has_media or b.has_media)
        is_other = (
            prompts or self._model_differences["prompts"],
            media or frames or limits_differ,
            a.generation != b.generation or decoded or self._model_differences["decoding"],
        )
        return list(compress(DIFFERENCES, is_other))

    def _part(self, side: int, request: StoredRequest) -> tuple[str, str, str]:
        """Return hashes of a prompt's text and of its media, and the words of its last step."""
        store = self._stores[side]
        if store is None or not request.prompt_sha256:
            return "", "", ""
        key = (side, request.prompt_sha256)
        if key not in self._parts:
            row = store.row(request)
            media = [[part.kind, part.source, part.frames] for part in iter_media(row.steps)]
            self._parts[key] = _hash(_texts(row.steps)), _hash(media), words(prompt_text(row))
        return self._parts[key]


def _texts(steps: Sequence[Step]) -> object:
    turns = [[(turn.role, [*map(_text, turn.parts)]) for turn in step.turns] for step in steps]
    return [turns, [step.scored for step in steps]]


def _text(part: Part) -> str:
    return part.text if isinstance(part, Text) else "" if isinstance(part, Media) else repr(part)


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
