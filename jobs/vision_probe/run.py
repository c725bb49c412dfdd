"""Ask a model the probes, and detect from its answers what it sees."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from models.engines import build_engine
from models.errors import EngineUnreachableError
from models.media_sampling import shrunk_size, uniform_indices
from models.messages import Answer, Call, Failure, Frames, Generation, Media, user
from models.spec import ModelSpec

SIDES = (256, 512, 1024, 2048)
"""Pixels of a side of the square pictures with small print."""
SMALL_PRINT = 16
"""Pixels of the height of its digits' font, at which nothing is left of them in a picture of half the side."""
SIDE, LARGE_PRINT = 448, 160
"""Of pictures and frames that show nothing but their number."""
PICTURES, FRAMES = 8, 32
_ONE = "Which number is written in this picture? Answer with its digits alone."
_EACH = (
    "A number of three digits is written in each {thing}. Write down all numbers in the order in which you see them, "
    "separated by commas, and nothing else."
)
_TOKENS_OF_A_NUMBER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question about drawn pictures or a clip."""

    name: str
    codes: tuple[str, ...]
    """The numbers, in the order of the pictures or frames."""
    call: Call
    media: Mapping[Media, Frames] = field(repr=False)


def picture_probe(name: str, side: int, print_size: int) -> Probe:
    """Return the question about one picture."""
    (code,) = _codes(name, 1)
    return _probe(name, [code], {Media("image", _source(name)): _frames([_drawn(code, side, print_size)])}, _ONE)


def pictures_probe() -> Probe:
    """Return the question about several pictures of one message."""
    codes = _codes("pictures", PICTURES)
    media = {Media("image", _source(f"pictures {code}")): _frames([_drawn(code, SIDE, LARGE_PRINT)]) for code in codes}
    return _probe("pictures", codes, media, _EACH.format(thing="picture"))


def clip_probe() -> Probe:
    """Return the question about a clip."""
    codes = _codes("frames", FRAMES)
    frames = _frames([_drawn(code, SIDE, LARGE_PRINT) for code in codes])
    return _probe("frames", codes, {Media("video", _source("frames"), FRAMES): frames}, _EACH.format(thing="frame"))


def within_limits(media: Mapping[Media, Frames], spec: ModelSpec) -> dict[Media, Frames]:
    """Return media as a run decodes them for an entry: within its `max_pixels` and `max_frames`."""
    from PIL import Image

    limited = {}
    for medium, frames in media.items():
        count, height, width = frames.pixels.shape[:3]
        size = shrunk_size(width, height, spec.limits.max_pixels)
        indices = uniform_indices(count, spec.limits.max_frames)
        pixels = frames.pixels[indices]
        if size != (width, height):
            pictures = (Image.fromarray(each).resize(size, Image.Resampling.BICUBIC) for each in pixels)
            pixels = np.stack([np.asarray(picture) for picture in pictures])
        limited[medium] = _frames(pixels)
    return limited


def _probe(name: str, codes: Sequence[str], media: Mapping[Media, Frames], question: str) -> Probe:
    generation = Generation(max_new_tokens=_TOKENS_OF_A_NUMBER * (len(codes) + 1))
    call = Call(call_id=f"{name}/0", turns=(user(*media, question),), generation=generation)
    return Probe(name=name, codes=tuple(codes), call=call, media=media)


def _codes(name: str, count: int) -> list[str]:
    """Return different numbers of three digits, drawn by a name."""
    codes: dict[str, None] = {}
    for number in range(20 * count):
        digest = hashlib.sha256(f"{name}|{number}".encode()).digest()
        codes[str(100 + int.from_bytes(digest[:4], "big") % 900)] = None
        if len(codes) == count:
            break
    return list(codes)


def _source(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _frames(pictures: Sequence[np.ndarray] | np.ndarray) -> Frames:
    count = len(pictures)
    if count == 1:
        return Frames(pixels=np.stack(list(pictures)))
    seconds = tuple(float(index) for index in range(count))
    return Frames(pixels=np.stack(list(pictures)), seconds=seconds, fps=1.0, total_frames=count)


def _drawn(code: str, side: int, print_size: int) -> np.ndarray:
    """Return a white square with a number in its middle."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (side, side), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(print_size)
    advance = 0.8 * print_size
    for index, digit in enumerate(code):
        x = side / 2 + (index - (len(code) - 1) / 2) * advance
        draw.text((x, side / 2), digit, "black", font, anchor="mm")
    return np.asarray(picture)


HEADS = ("what", "finding", "numbers read", "prompt tokens")
_NUMBER = re.compile(r"(?<!\d)\d{3}(?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the answers show of one thing."""

    what: str
    is_determined: bool
    """Whether the answers determine it; if not, `finding` says why."""
    finding: str
    read: int = 0
    """Numbers that were read, of `shown`."""
    shown: int = 0
    prompt_tokens: int | None = None
    """As the engine counts; None where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    probe: Probe
    outcome: Answer | Failure

    @property
    def positions(self) -> list[int]:
        """Return which of the numbers were read, in the order of the answer, each once."""
        text = self.outcome.text if isinstance(self.outcome, Answer) else ""
        read = [self.probe.codes.index(code) for code in _NUMBER.findall(text) if code in self.probe.codes]
        return list(dict.fromkeys(read))

    def finding(self, what: str, text: str, *, is_determined: bool = True) -> Finding:
        tokens = self.outcome.input_tokens if isinstance(self.outcome, Answer) else 0
        if isinstance(self.outcome, Failure):
            is_determined, text = False, f"undetermined: {self.outcome.type}: {self.outcome.message}"
        return Finding(
            what=what,
            is_determined=is_determined,
            finding=text,
            read=len(self.positions),
            shown=len(self.probe.codes),
            prompt_tokens=tokens or None,
        )


def look(name: str, spec: ModelSpec) -> list[Finding]:
    """Return what a model sees, detected from the numbers that it reads; the model is loaded in this process.

    Raises:
        ModelError: the model is unavailable, or answers no probe.
    """
    probes = [
        picture_probe("large print", SIDE, LARGE_PRINT),
        *(picture_probe(f"small print {side}", side, SMALL_PRINT) for side in SIDES),
        clip_probe(),
        pictures_probe(),
    ]
    with closing(build_engine(name, spec)) as engine:
        replies = {}
        for probe in probes:
            (reply,) = engine.generate([probe.call], within_limits(probe.media, spec))
            replies[probe.name] = _Reply(probe=probe, outcome=reply.outcome)
    failures = [reply.outcome for reply in replies.values() if isinstance(reply.outcome, Failure)]
    if len(failures) == len(replies):
        reasons = dict.fromkeys(f"{failure.type}: {failure.message}" for failure in failures)
        raise EngineUnreachableError(f"model {name!r} answered none of {len(replies)} questions: {'; '.join(reasons)}")
    return _findings(replies)


def _findings(replies: Mapping[str, _Reply]) -> list[Finding]:
    large = replies["large print"]
    is_legible = bool(large.positions)
    reading = "reads digits" if is_legible else "reads no number, not even one that fills the picture"
    return [
        large.finding("print", reading),
        *_pixels([(side, replies[f"small print {side}"]) for side in SIDES], is_legible=is_legible),
        *_sequence(replies["frames"], f"frames of {FRAMES}", is_legible=is_legible),
        *_sequence(replies["pictures"], f"pictures of {PICTURES}", is_legible=is_legible),
    ]


def _pixels(replies: Sequence[tuple[int, _Reply]], *, is_legible: bool) -> list[Finding]:
    """Return how large a picture may be before its details are lost, and how its tokens grow."""
    read = [side for side, reply in replies if reply.positions]
    largest = max(read, default=0)
    last = dict(replies)[largest or SIDES[0]]
    if not is_legible:
        text = "undetermined: the model reads no numbers"
    elif not read:
        text = f"less than {SIDES[0]} x {SIDES[0]}: print of {SMALL_PRINT} pixels is not read in any picture"
    elif largest == SIDES[-1]:
        text = f"at least {largest} x {largest}, the largest picture shown"
    else:
        lost = SIDES[SIDES.index(largest) + 1]
        text = f"{largest} x {largest}; in {lost} x {lost} print of {SMALL_PRINT} pixels is lost, so it is made smaller"
    findings = [last.finding("pixels", text, is_determined=is_legible)]
    tokens = {side: reply.outcome.input_tokens for side, reply in replies if isinstance(reply.outcome, Answer)}
    shown = ", ".join(f"{side} x {side}: {count}" for side, count in tokens.items() if count)
    growth = f"prompt tokens by picture: {shown}" if shown else "undetermined: the engine counts none"
    if len(tokens) > 1 and len({*tokens.values()}) == 1 and shown:
        growth += "; all alike, so each is brought to one size or billed as one"
    return [*findings, Finding(what="tokens", is_determined=bool(shown), finding=growth)]


def _sequence(reply: _Reply, what: str, *, is_legible: bool) -> list[Finding]:
    """Return how many frames or pictures are seen, which, and in which order."""
    positions, shown = reply.positions, len(reply.probe.codes)
    if not positions:
        reason = "none was read" if is_legible else "the model reads no numbers"
        return [reply.finding(what, f"undetermined: {reason}", is_determined=False)]
    which = ", ".join(str(position + 1) for position in sorted(positions))
    seen = f"all {shown}" if len(positions) == shown else f"{len(positions)}: number {which}"
    is_ordered = len(positions) > 1
    if not is_ordered:
        order = "undetermined: one alone was read"
    elif positions == sorted(positions):
        order = "as sent"
    elif positions == sorted(positions, reverse=True):
        order = "reversed"
    else:
        order = "mixed: " + ", ".join(str(position + 1) for position in positions)
    return [
        reply.finding(what, seen),
        reply.finding(f"order of {what.partition(' ')[0]}", order, is_determined=is_ordered),
    ]


def rows(findings: Sequence[Finding]) -> list[list[str]]:
    """Return the rows of the table."""
    counts = [f"{finding.read} of {finding.shown}" if finding.shown else "-" for finding in findings]
    return [
        [finding.what, finding.finding, count, str(finding.prompt_tokens or "-")]
        for finding, count in zip(findings, counts, strict=True)
    ]
