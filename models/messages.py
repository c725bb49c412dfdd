"""Messages to and from a model: light records without torch or Ray, so that a benchmark can be imported anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np

DEFAULT_SEED: Final = 42  # of draws such as the order of options, and of models that sample

Role: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text, as the model reads it."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """A picture or a clip by reference; equal `Media` share one fetch, decode and encoding into `Frames`."""

    kind: Literal["image", "video"]
    source: str
    """SHA-256 (hex) of a stored file's content, or `blank:...` for a single-colour one (see `blank`).

    `~` adds a change of pixels or frames for a stress test, such as `~jpeg-30` (`pipelines.plan.stress`), or a clip's
    span, `~span-30-120`: its first and last frame.
    """
    frames: int = 0  # frames of a video, sampled uniformly from first to last, 1 the first alone; 0 for a picture

    @property
    def file(self) -> str:
        """The hash of the stored file."""
        return self.source.partition("~")[0]

    @property
    def change(self) -> str:
        """What a stress test changes of it; '' for nothing."""
        return self.source.partition("~")[2]


@dataclass(frozen=True, slots=True)
class StepOutput:
    """A placeholder for the text that an earlier step of the same request produced."""

    step: int
    stripped: bool = False


Part: TypeAlias = Text | Media | StepOutput


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; media and text in reading order."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Decoding settings; temperature 0 is greedy, or beam search when num_beams > 1."""

    max_new_tokens: int = 256
    temperature: float = 0.0
    num_beams: int = 1
    seed: int = DEFAULT_SEED


def decoding_name(generation: Generation, *, beams: bool) -> str:
    """Return the value of `Answer.decoding` for these settings, on an engine with or without beam search."""
    if generation.temperature > 0:
        return "sampled"
    return f"beam-{generation.num_beams}" if beams and generation.num_beams > 1 else "greedy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model call in a fresh context: only `StepOutput` parts carry text over from earlier steps."""

    turns: tuple[Turn, ...]
    generation: Generation = Generation()
    choices: tuple[str, ...] = ()  # options for the chance baseline, repeats kept; only the `random` engine reads it
    scored: tuple[str, ...] = ()
    """Generate nothing: score the log-probability of each text as a continuation of the turns, or with no turns as a
    text by itself without a chat template. `logprobs_from_text` reads the answer's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one model: its steps in order. The last step's text is the output."""

    request_id: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Decoded pixels of one `Media`."""

    pixels: np.ndarray  # uint8 [frames, height, width, 3], RGB; a picture has one frame
    seconds: tuple[float, ...] = ()  # presentation time of each frame
    fps: float = 0.0  # frames a second of the whole clip as stored; 0 for pictures
    total_frames: int = 1  # as stored
    encoded: bytes | None = None  # a picture's original JPEG, PNG or WebP bytes, where they may be sent unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Step):
    """One step ready for an engine: every `StepOutput` part is already text."""

    call_id: str

    @classmethod
    def of(cls, step: Step, call_id: str) -> Call:
        """Return a step as a call."""
        return cls(call_id=call_id, **{name: getattr(step, name) for name in Step.__slots__})

    @property
    def media(self) -> tuple[Media, ...]:
        """Return media in order of appearance, repeats kept."""
        return tuple(part for turn in self.turns for part in turn.parts if isinstance(part, Media))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer. A refusal is an answer; a failure of the engine is not."""

    text: str
    finish_reason: str = "stop"  # `stop`, `length`, `content_filter` ... as the engine reports it
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # prompt tokens not computed again because another call shares the prefix
    cache_write_tokens: int = 0  # prompt tokens that a provider wrote into its cache, where it bills them by themselves
    head_tokens: int = 0  # prompt tokens up to the end of the last picture or clip, which all calls about it may share
    least_tokens: int | None = None
    """Of the prompt tokens after the head, those that no concurrent call shares as a prefix; None where the engine does
    not know. Their sum is the lower bound on computed tokens, heads excluded."""
    mean_logprob: float | None = None  # of the answer's tokens, in nats, where the entry asks an endpoint for it
    reasoning: str | None = None  # what a reasoning model thought before the answer; None where it is not known
    frames_used: int | None = None  # frames of the longest clip that the prompt shows; None without a clip
    repairs: tuple[str, ...] = ()  # what in an endpoint's reply was unreadable and dropped, such as `usage`
    is_counted: bool = True  # whether an endpoint's reply has readable counts of tokens; else they are 0 here
    reserved_dollars: float | None = None  # what an answer without them may have cost at the most, by estimates
    served_model: str | None = None  # the model that an endpoint's reply names, and the version of its system
    system_fingerprint: str | None = None
    decoding: str = ""
    """How the text was decoded: `greedy`, `sampled`, `beam-3`; '' where nothing was generated. An engine without beam
    search reports `greedy` for a request with beams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error of a call without an answer. Never scored as text."""

    type: str  # short and stable, such as `context_length`, `http_400`, `timeout`, `out_of_memory`
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReply:
    """An engine's reply to one call."""

    call_id: str
    outcome: Answer | Failure
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply to one request: the last step's outcome, the texts of the earlier steps, summed tokens."""

    request_id: str
    outcome: Answer | Failure
    steps: tuple[str, ...] = ()
    latency_s: float = 0.0


def user(*parts: Part | str) -> Turn:
    """Return a user turn; plain strings become `Text`."""
    return Turn("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def blank(colour: str, width: int, height: int, *, frames: int = 0, seconds: float = 0.0) -> Media:
    """Return a generated picture, or clip when `frames` > 0, of one colour (RRGGBB in hex) and length in seconds."""
    source = f"blank:{colour}:{width}x{height}:{frames}:{seconds:g}"
    return Media("video" if frames else "image", source, frames)


def prompt_sha256(steps: Sequence[Step]) -> str:
    """Hash all that the model is shown over the steps: text, roles and media, but no generation settings.

    Its form is fixed, because request ids contain it: JSON with sorted keys, put together from quoted parts, which
    takes a fifth of the time of an encoder.
    """
    content = _array(_array(_hashed_turn(turn) for turn in step.turns) for step in steps)
    if any(step.scored for step in steps):  # hashes made before `scored` existed stay as they are
        content = f"[{content}, {_array(_array(map(_quote, step.scored)) for step in steps)}]"
    return hashlib.sha256(content.encode()).hexdigest()


def _hashed_turn(turn: Turn) -> str:
    return f"[{_quote(turn.role)}, {_array(map(_hashed_part, turn.parts))}]"


def _hashed_part(part: Part) -> str:
    if isinstance(part, Text):
        return f'["Text", {{"text": {_quote(part.text)}}}]'
    if isinstance(part, Media):
        return f'["Media", {{"frames": {part.frames}, "kind": {_quote(part.kind)}, "source": {_quote(part.source)}}}]'
    return f'["Output", {{"step": {part.step}, "stripped": {"true" if part.stripped else "false"}}}]'


def _array(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def logprobs_to_text(means: Sequence[float], tokens: Sequence[int]) -> str:
    """Return the answer text of a scored call: each text's mean log-probability per token, in nats, and its tokens."""
    return json.dumps({"logprobs": list(means), "tokens": list(tokens)})


def logprobs_from_text(text: str, count: int) -> list[float]:
    """Return the mean log-probability per token, in nats, of each text; `ValueError` if the text holds none."""
    try:
        means = json.loads(text)["logprobs"]
        if len(means) == count:
            return [float(mean) for mean in means]
    except (TypeError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"no log-probabilities: {error}") from error
    raise ValueError(f"{len(means)} log-probabilities for {count} texts")
