"""Records that pass between benchmarks and the stages of a sweep: samples, prompts, rows, readings, metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Protocol

from models.messages import DEFAULT_SEED, Step

if TYPE_CHECKING:
    import numpy as np

    from pipelines.metrics.paired import Spread

Status = Literal["ok", "error", "excluded"]
RIGHT: Final = ("correct", "accepted")
"""Values of a row that say whether its answer is right: by its reading, and by a judge; the first that a row has."""
CORRECTED: Final = "_corrected"  # ending of a judged metric that people's labels correct
JUDGE_SENSITIVITY: Final = "judge_sensitivity"
JUDGE_SPECIFICITY: Final = "judge_specificity"
JUDGE_LABELS: Final = "judge_labels"
HUMAN_VERDICT: Final = "human"  # columns of scores: people's majority,
HUMAN_VOTES: Final = "human_votes"  # how many people it is of,
HUMAN_SPLIT: Final = "human_split"  # and the share of their pairs that disagree
JUDGE_LABELS_NEEDED: Final = "judge_labels_needed"  # further ones, for the half width that is the category
JUDGE_AGREEMENT: Final = "judge_agreement"
"""Share of people's labels that the judge's verdict equals; with `_of_people` another person's label."""
_LABEL_METRICS: Final = (JUDGE_SENSITIVITY, JUDGE_SPECIFICITY, JUDGE_LABELS, JUDGE_LABELS_NEEDED)
REPEAT: Final = "#"  # between a variant and the number of a repeat, from 1; the first request of a question has none
_PERSON: Final = "human:"  # prefix of the names of people whose answers are scored like a model's


def is_person(model: str) -> bool:
    """Return whether a model's name is that of a person whose answers are scored like a model's."""
    return model.startswith(_PERSON)


def measures_labels(metric: str) -> bool:
    """Return whether a metric says what people's labels do of a judge."""
    return metric.endswith(CORRECTED) or metric in _LABEL_METRICS


def person(name: str) -> str:
    """Return the name of the model that stands for a person."""
    return f"{_PERSON}{name}"


def repeated_variant(variant: str, repeat: int) -> str:
    """Return the variant of a repeat of a request; the first, 0, keeps the variant, and so its request id."""
    return f"{variant}{REPEAT}{repeat}" if repeat else variant


def split_variant(variant: str) -> tuple[str, int]:
    """Return a variant without the number of its repeat, and that number."""
    base, _, number = variant.partition(REPEAT)
    return base, int(number or 0)


def person_name(model: str) -> str:
    """Return the person's name in the name of such a model."""
    return model.removeprefix(_PERSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFile:
    """A picture or clip that a sample needs: a file of the source, or bytes found inside one."""

    role: str  # role in the sample, such as `clip`, `picture`, `disambiguator/0`
    kind: Literal["image", "video"]
    path: str = ""  # relative to the source; with `content` only the name to show in messages
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSample:
    """One valid row of the benchmark as distributed, before its media are checked and stored."""

    sample_id: str
    file: str
    category: str = ""
    subset: str = ""
    cluster: str = ""  # what shares media or origin: the unit that intervals and tests count
    media: tuple[MediaFile, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)  # the benchmark's own fields, JSON types only
    place: str = ""  # its place in the file, as a rejection names it; '': its id is enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """One row that cannot be used; goes to `rejected.jsonl`, and the rest goes on."""

    file: str
    item: str  # the row's id, or its location in the file
    reason: str


REJECTION_MARK = b'{"file": "'  # in every `rejected.jsonl` of ours that is not empty


@dataclass(frozen=True, slots=True)
class SourceWarning:
    """Something odd about the data that does not cost a row."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRef:
    """A stored picture or clip, named by its content."""

    role: str
    kind: Literal["image", "video"]
    sha256: str
    extension: str
    bytes: int
    width: int
    height: int
    frames: int = 1
    fps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One item of the dataset in canonical form."""

    sample_id: str
    category: str = ""
    subset: str = ""
    cluster: str = ""
    media: tuple[MediaRef, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def ref(self, role: str) -> MediaRef | None:
        """The medium that plays this role, if the sample has it."""
        return next((ref for ref in self.media if ref.role == role), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request of a sample before it is addressed to a model."""

    variant: str = ""
    version: str = ""  # version of the wording
    steps: tuple[Step, ...] = ()
    excluded: str = ""  # why this cannot be sent, such as `image_missing`; then it is counted as excluded


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judge's word on one row."""

    state: Literal["ok", "invalid", "failed", "absent"]
    """`invalid`: it could not be read after all tries; `failed`: the judge's engine failed; `absent`: not requested."""
    accepted: bool | None = None
    tries: int = 0
    reply: str = ""  # the words that were read


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A prediction joined with its sample, ready to be scored."""

    request_id: str
    sample: Sample
    model: str
    task: str
    setting: str
    variant: str  # without the number of the repeat
    status: Status
    output: str | None  # without what `dropped` names
    dropped: tuple[str, ...] = ()  # what `replies.cleaning` removed from the model's reply
    raw: str | None = None  # the reply with it; None if nothing was removed
    finish_reason: str = ""
    steps: tuple[str, ...] = ()
    given: Mapping[str, float] = field(default_factory=dict)  # float columns of the predictions or of scorers
    verdict: Verdict = Verdict(state="absent")
    is_labelled: bool = False  # a file of people's labels (`--human`) has one of this output
    seed: int = DEFAULT_SEED  # the sweep's seed, from which seeded draws such as option orders are made again
    repeat: int = 0
    is_stopped: bool = False  # not asked, because the run stopped before


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The parsed output of a row, and the scores computed from it."""

    answer: str | None  # the parsed answer: a letter, a label, cleaned text; None when nothing could be read
    rule: str = ""  # the reader's rule that decided
    flags: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)  # scores by name; a missing score is absent, never 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityRequest:
    """A text comparison by a scorer model; the best over the references counts."""

    column: str  # name of the value in `Row.given`
    scorer: str  # kind of scorer: `bertscore` or `bleurt`
    candidate: str
    references: tuple[str, ...]
    rescaled: str = ""  # value name of the score rescaled by the published baseline, if known; '' for none


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """A question to the judge model; an unreadable reply is requested again with the next seed."""

    step: Step
    seeds: tuple[int, ...] = (42, 43, 44)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of `metrics.json`; None where there is nothing to measure."""

    task: str
    setting: str
    metric: str
    value: float | None
    n: int
    n_failed: int = 0
    unit: str = "fraction"
    """`fraction`, 0..1; `count` and `words`, means of them too; `score` without an upper end; '' for coefficients and
    differences of fractions, which `metrics.json` calls fractions too and nothing prints as percent."""
    subset: str = ""
    category: str = ""
    ci_low: float | None = None
    ci_high: float | None = None
    ci_df: float | None = None  # degrees of freedom of the interval's t; None if it has the normal quantile, or none
    set_ci_low: float | None = None  # what a run that stopped early says of the whole set of questions
    set_ci_high: float | None = None
    note: str = ""  # why a value is None, or how to read it; shown in reports, not part of the contract's row


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedValue:
    """One number of a paper, in the nouns of `Metric`: a row of a benchmark's `published.csv`."""

    table: str
    model: str
    task: str
    setting: str
    subset: str
    category: str
    metric: str
    value: float | None  # None where the paper prints none
    unit: str  # `fraction`, `count`, or '' for coefficients and for measures without an upper end
    note: str

    @property
    def doubtful(self) -> bool:
        """Whether the number cannot be right as printed."""
        return self.note.startswith(DOUBTFUL_NOTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What a paper's numbers were measured on and with: where a run differs, its numbers are not comparable."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Setting as printed -> ours with the same requests; settings of one name are not in it."""
    requests: Mapping[str, int] = field(default_factory=dict)  # task -> requests of one setting on all items
    other_items: Mapping[str, str] = field(default_factory=dict)  # table -> on which items, where they cannot be had
    foreign_items: Mapping[str, str] = field(default_factory=dict)
    """Count in the metrics of a model -> what it counts, where these are no items of the paper."""
    same_settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Setting -> others of ours that print's may have been as well."""
    metrics: Mapping[str, str] = field(default_factory=dict)  # as printed -> ours by the authors' own code
    joint: Mapping[str, str] = field(default_factory=dict)  # name of several models together -> as printed
    averaged: Mapping[str, str] = field(default_factory=dict)
    """`MODEL, mean of N runs` of the authors' files -> as printed; each run is a model `MODEL run I`."""
    judges: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Task and metric -> the judge's name at its maker, without a date."""
    captioners: Mapping[str, str] = field(default_factory=dict)  # setting -> catalog entry that describes pictures
    scorers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # metric -> kinds of its scorers, if named
    unnamed_scorers: tuple[str, ...] = ()  # metrics whose variant or scorer the paper does not name
    paper_prompts: tuple[str, ...] | None = None
    """Versions of prompts in the paper's own words, besides those of the set `paper`; None where any is."""


DOUBTFUL_NOTES: Final = ("suspect", "inconsistent", "misprint")  # first words of the notes of doubtful numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """A metric of two models on the same rows, and the test of their difference."""

    subset: str = ""
    category: str = ""
    value: str  # name of the row's score, such as `correct`, or of the benchmark's metric, such as `pool_accuracy`
    n: int  # rows that both scored
    clusters: int  # clips, pictures or scenes of these rows, the units of the test
    mean_a: float
    mean_b: float
    ci_low: float | None
    ci_high: float | None  # ends of the 95% interval of B minus A, which leaves out 0 if and only if p < 0.05
    p: float | None  # two-sided; None with one cluster, or if it is not known how much clusters vary
    spread: "Spread | None" = None  # of B minus A
    spread_freedom: float = 0.0  # degrees of freedom of its standard error by how much single clusters weigh in it
    repeats: int = 1  # answers to each question
    repeat_variance: float | None = None
    """The part of the squared standard error that is due to chance in the answers; None without repeats."""


class Source(Protocol):
    """A read-only folder, local or in an object store; paths are relative with forward slashes."""

    uri: str

    def glob(self, pattern: str) -> list[str]:
        """Return the files that match, sorted."""

    def exists(self, path: str) -> bool:
        """Whether there is a file at this path."""

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file; raise FileNotFoundError, or SourceError where it is too large."""

    def open(self, path: str) -> BinaryIO:
        """Open a file to be read from the start, however large; raise FileNotFoundError."""

    def pixels(self, content: bytes, max_pixels: int | None = None) -> "np.ndarray":
        """Decode a picture in a process of its own: upright, uint8 [H, W, 3], shrunk to `max_pixels`.

        Raises:
            DecodeError: with the reason.
        """
