"""What is said to a model and what comes back: prompt parts in, an answer or a failure out.

Light records without numpy, torch or Ray, so that a benchmark can be imported anywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Role: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words, as the model shall read them."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """A picture or a clip by reference; the pixels travel beside it as `Frames`.

    Two prompts that name equal `Media` share one fetch, one decode and one encoding.
    """

    kind: Literal["image", "video"]
    source: str
    """Content hash (sha256, hex) of a stored file, or `blank:...` for a single-colour one (see `blank`)."""
    frames: int = 0
    """Video: frames sampled uniformly from first to last; 1 is the first frame alone. Picture: 0."""


@dataclass(frozen=True, slots=True)
class Output:
    """The text that an earlier step of the same request produced, put in at this place."""

    step: int
    stripped: bool = False
    """Without the blanks at its ends."""


Part: TypeAlias = Text | Media | Output


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; media come where they stand among the words."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How text is drawn from a model; temperature 0 is greedy (or beam search when num_beams > 1)."""

    max_new_tokens: int = 256
    temperature: float = 0.0
    num_beams: int = 1
    seed: int = 42


def decoding_name(generation: Generation, *, beams: bool) -> str:
    """What `Answer.decoding` says of these settings on an engine with or without beam search."""
    if generation.temperature > 0:
        return "sampled"
    return f"beam-{generation.num_beams}" if beams and generation.num_beams > 1 else "greedy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model call in a context of its own: nothing of earlier steps but what `Output` parts bring in."""

    turns: tuple[Turn, ...]
    generation: Generation = Generation()
    choices: tuple[str, ...] = ()
    """What a blind guesser would draw from, repeats kept; only the `random` engine reads it."""
    scored: tuple[str, ...] = ()
    """Nothing is written: the log-probability of each of these texts is asked, as what follows the turns, or with no
    turns as a text by itself, no chat template around it. The answer's text is read by `load_scores`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one model: its steps in order. The last step's text is the output."""

    request_id: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Decoded pixels of one `Media`."""

    pixels: np.ndarray
    """uint8, shape [frames, height, width, 3], RGB; a picture has one frame."""
    seconds: tuple[float, ...] = ()
    """Presentation time of each frame."""
    fps: float = 0.0
    """Frames a second of the whole clip as stored; 0 for pictures."""
    total_frames: int = 1
    """Frames of the whole clip as stored."""
    encoded: bytes | None = None
    """A picture's own JPEG, PNG or WebP bytes where they may be passed on untouched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One step made ready for an engine: every `Output` part is already text."""

    call_id: str
    turns: tuple[Turn, ...]
    generation: Generation
    choices: tuple[str, ...] = ()
    scored: tuple[str, ...] = ()
    """See `Step.scored`."""

    @property
    def media(self) -> tuple[Media, ...]:
        """Media in order of appearance, repeats kept."""
        return tuple(part for turn in self.turns for part in turn.parts if isinstance(part, Media))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model said. A refusal is an answer; a failure of the engine is not."""

    text: str
    finish_reason: str = "stop"
    """`stop`, `length`, `content_filter` ... as the engine reports it."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that were not computed again because another call had the same beginning."""
    head_tokens: int = 0
    """Prompt tokens up to the end of the last picture or clip: what all calls about it may share."""
    least_tokens: int | None = None
    """Of the prompt tokens behind them, those that no other call asked together with this one begins with too; None
    where the engine does not know. Sums to what the calls cost at the least, the heads left out."""
    decoding: str = ""
    """How the text was drawn: `greedy`, `sampled`, `beam-3`; '' where nothing was. An engine without beam search
    runs greedy when asked for beams, and here it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no answer to one call. Never scored as text."""

    type: str
    """Short and stable, such as `context_length`, `http_400`, `timeout`, `out_of_memory`."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReply:
    """An engine's word on one call."""

    call_id: str
    outcome: Answer | Failure
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The word on one request: the last step's outcome, the texts of the earlier steps, summed tokens."""

    request_id: str
    outcome: Answer | Failure
    steps: tuple[str, ...] = ()
    latency_s: float = 0.0


def user(*parts: Part | str) -> Turn:
    """A user turn; bare strings become `Text`."""
    return Turn("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def blank(colour: str, width: int, height: int, *, frames: int = 0, seconds: float = 0.0) -> Media:
    """A single-colour picture, or clip when `frames` > 0, that is made instead of fetched.

    Args:
        colour: RRGGBB in hex.
        width: pixels.
        height: pixels.
        frames: frames of the clip; 0 makes a picture.
        seconds: length of the clip.
    """
    source = f"blank:{colour}:{width}x{height}:{frames}:{seconds:g}"
    return Media("video" if frames else "image", source, frames)


def _fields(part: Part) -> dict[str, str | int | bool]:
    """As `dataclasses.asdict`, without its copies: a sweep hashes every prompt several times."""
    return {name: getattr(part, name) for name in part.__slots__}


def prompt_sha256(steps: Sequence[Step]) -> str:
    """Hash of all that the model is shown over the steps: words, roles and media, not the settings of generation."""
    shown = [
        [(turn.role, [(type(part).__name__, _fields(part)) for part in turn.parts]) for turn in step.turns]
        for step in steps
    ]
    scored = [step.scored for step in steps]
    words: object = [shown, scored] if any(scored) else shown  # the hash of what scores nothing stays what it was
    return hashlib.sha256(json.dumps(words, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def dump_scores(means: Sequence[float], tokens: Sequence[int]) -> str:
    """The answer to a call that asks for scores.

    Args:
        means: log-probability a token of each text, in nats.
        tokens: how many tokens of each text were scored.
    """
    return json.dumps({"logprobs": list(means), "tokens": list(tokens)})


def load_scores(text: str, count: int) -> list[float]:
    """The log-probability a token of each scored text, in nats.

    Args:
        text: an answer as `dump_scores` writes it.
        count: texts that were asked about.

    Raises:
        ValueError: it is none.
    """
    try:
        means = json.loads(text)["logprobs"]
        if len(means) == count:
            return [float(mean) for mean in means]
    except (TypeError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"no log-probabilities: {error}") from error
    raise ValueError(f"{len(means)} log-probabilities for {count} texts")
