"""What a benchmark is to the rest of the pipeline: one subclass of `Benchmark` in one file.

A benchmark says what is asked, how answers are read and what is right. It never names a model, touches a cluster, or
opens a store: samples come in as records, prompts and verdicts go out as records. The file is long because it is the
whole of that interface, and most of it says what each part means.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from models.messages import Generation, Step
from pipelines.benchmarks.human import People
from pipelines.benchmarks.tables import Figure, Table

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Status = Literal["ok", "error", "excluded"]


class SourceError(ValueError):
    """The folder given to `ingest` is not this benchmark as distributed. Says what was looked for and where."""


class Source(Protocol):
    """A read-only folder, local or in an object store; paths are relative with forward slashes."""

    uri: str

    def glob(self, pattern: str) -> list[str]:
        """Files that match, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file at this path."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is none.
            SourceError: it is larger than any such file is.
        """
        ...

    def pixels(self, content: bytes, max_pixels: int | None = None) -> np.ndarray:
        """A picture upright and in eight bits, uint8 [H, W, 3], decoded in a process of its own.

        Args:
            content: the picture's file.
            max_pixels: it is shrunk to so many; 1 where it matters only whether it can be decoded.

        Raises:
            ValueError: it cannot be decoded; says why.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFile:
    """A picture or clip that a sample needs: a file of the source, or bytes found inside one."""

    role: str
    """What it is to the sample, such as `clip`, `picture`, `disambiguator/0`."""
    kind: Literal["image", "video"]
    path: str = ""
    """Relative to the source; with `content` only the name to show in messages."""
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSample:
    """One valid row of the benchmark as distributed, before its media are checked and stored."""

    sample_id: str
    file: str
    category: str = ""
    subset: str = ""
    cluster: str = ""
    """What shares media or origin: the unit that the bootstrap resamples."""
    media: tuple[MediaFile, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """The benchmark's own fields, JSON types only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """One row that cannot be used; goes to `rejected.jsonl`, and the rest goes on."""

    file: str
    item: str
    """The row's id, or its place in the file."""
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
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


class PromptTexts:
    """The wording of a benchmark's prompts by version name, with a user's own wording laid over it."""

    def __init__(
        self,
        texts: Mapping[str, str],
        overrides: Mapping[str, str] | None = None,
        instead: Mapping[str, str] | None = None,
    ) -> None:
        """Lay the user's choices over the benchmark's texts.

        Args:
            texts: the benchmark's wording by version.
            overrides: the user's own wording by version.
            instead: version -> another version of the benchmark to use in its place.

        Raises:
            ValueError: a version that the benchmark does not have.
        """
        self._texts, self._overrides, self._instead = dict(texts), dict(overrides or {}), dict(instead or {})
        for version in (*self._overrides, *self._instead, *self._instead.values()):
            if version not in self._texts:
                raise ValueError(f"no prompt is named {version!r}; there are {', '.join(sorted(texts))}")

    def fill(self, version: str, **fields: str) -> str:
        """The words of a version with `{name}` fields filled in, in one pass: braces in data stay as they are."""
        version = self._instead.get(version, version)
        template = self._overrides.get(version, self._texts[version])
        return re.sub(r"\{(\w+)\}", lambda match: fields.get(match[1], match[0]), template)

    def version(self, version: str) -> str:
        """The name of the version in force, for ids and reports; a user's own wording is marked."""
        version = self._instead.get(version, version)
        return f"{version}+custom" if version in self._overrides else version


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request of a sample before it is addressed to a model."""

    variant: str = ""
    version: str = ""
    """Version of the wording."""
    steps: tuple[Step, ...] = ()
    excluded: str = ""
    """Why this cannot be asked, such as `image_missing`; then it is counted as excluded and never sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judge's word on one row."""

    state: Literal["ok", "invalid", "failed", "absent"]
    """`invalid`: it could not be read after all tries; `failed`: the judge's engine failed; `absent`: not asked."""
    accepted: bool | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A prediction joined with its sample, ready to be scored."""

    request_id: str
    sample: Sample
    model: str
    task: str
    setting: str
    variant: str
    status: Status
    output: str | None
    finish_reason: str = ""
    steps: tuple[str, ...] = ()
    given: Mapping[str, float] = field(default_factory=dict)
    """Float columns that came with the predictions or from scorer models, by column name."""
    verdict: Verdict = Verdict(state="absent")
    seed: int = 42
    """The sweep's seed, from which seeded draws such as option orders are made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a row's output was read as, and the numbers that follow from it."""

    answer: str | None
    """The parsed answer: a letter, a label, cleaned text; None when nothing could be read."""
    rule: str = ""
    """Which rule of the reader decided."""
    flags: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    """Scores by name. A score that could not be given is left out, never 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityAsk:
    """A text comparison wanted from a scorer model; the best over the references counts."""

    column: str
    """Name of the value in `Row.given`."""
    scorer: str
    """Kind of scorer: `bertscore` or `bleurt`."""
    candidate: str
    references: tuple[str, ...]
    rescaled: str = ""
    """Name of a second value, the score rescaled by the baseline that is published for the scorer's model, layer and
    English; it stays absent where none is known. '' wants none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAsk:
    """A question to the judge model; an unreadable reply is asked again with the next seed."""

    step: Step
    seeds: tuple[int, ...] = (42, 43, 44)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of `metrics.json`. Fractions 0..1, or counts; None where there is nothing to measure."""

    task: str
    setting: str
    metric: str
    value: float | None
    n: int
    n_failed: int = 0
    unit: str = "fraction"
    subset: str = ""
    category: str = ""
    ci_low: float | None = None
    ci_high: float | None = None
    note: str = ""
    """Why a value is None, or how to read it; shown in reports, not part of the contract's row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """A metric of two models on the same rows, with the benchmark's own test of their difference."""

    metric: str
    n: int
    value_a: float
    value_b: float
    ci_low: float | None
    ci_high: float | None
    """Ends of the 95% interval of B minus A."""
    p: float
    """Two-sided."""
    test: str
    """Name of the test."""


class Benchmark(ABC):
    """One benchmark, stateless. Subclasses are found by their module's `BENCHMARK` attribute."""

    name: ClassVar[str]
    version: ClassVar[str]
    """Rises when reading or scoring changes meaning."""
    title: ClassVar[str]
    source: ClassVar[str]
    """Where the benchmark comes from: paper and data."""
    tasks: ClassVar[Mapping[str, tuple[str, ...]]]
    """Task -> settings."""
    named_only: ClassVar[tuple[str, ...]] = ()
    """Settings that run only where `--settings` names them: not every model can be asked so."""
    derived_tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Tasks that ask nothing of their own: name -> the tasks they are computed from."""
    headline: ClassVar[str]
    """The metric that stands first; higher is better."""
    beside_headline: ClassVar[tuple[str, ...]] = ()
    """Metrics shown beside it at the end of a run."""
    prompt_texts: ClassVar[Mapping[str, str]]
    """Wording by version name."""
    default_scorers: ClassVar[Mapping[str, str]] = {}
    """Scorer kind -> `model[:layer]`."""

    descriptive_values: ClassVar[tuple[str, ...]] = ()
    """Values of `Reading` that describe a row and judge nothing; comparisons leave them out."""
    content_field: ClassVar[str] = ""
    """Where ids are places in a file: the field of a sample's data by which a later ingest sees that a place holds
    something else now; '' where ids name their content."""
    column_map_names: ClassVar[tuple[str, ...]] = ()
    """Our names that `--column-map` may give the source's names for; none: the flag is refused."""

    @abstractmethod
    def read(
        self, source: Source, *, column_map: Mapping[str, str] | None = None
    ) -> Iterator[RawSample | Rejection | Notice]:
        """Read the benchmark as distributed, row by row.

        Args:
            source: the folder.
            column_map: our name -> the source's path, where it is not the usual one.

        Raises:
            SourceError: the folder holds no data of this benchmark.
        """

    @abstractmethod
    def prompts(
        self,
        sample: Sample,
        task: str,
        setting: str,
        *,
        texts: PromptTexts,
        seed: int,
        captions: Mapping[str, str] | None = None,
    ) -> Iterator[Prompt]:
        """The requests of one sample in one cell, in the order of their variants.

        Args:
            sample: whose.
            task: one of `tasks`.
            setting: one of the task's settings.
            texts: the wording.
            seed: the sweep's seed.
            captions: what the sweep's captioner said, by picture hash; None when it has none.
        """

    @abstractmethod
    def read_answer(self, row: Row) -> Reading:
        """Read one prediction. Called for rows of every status; an error row gets no value it did not earn."""

    @abstractmethod
    def reduce(self, scores: pd.DataFrame, samples: Mapping[str, Sample]) -> list[Metric]:
        """All metrics of one model.

        Args:
            scores: one row a request of the plan: sample_id, task, setting, variant, subset, category, cluster, status
                (`ok`, `error`, `excluded`, or `missing` when it was never run), answer, rule, flags, finish_reason,
                verdict_state, and a float column a value (NaN where there is none).
            samples: by id, for references.
        """

    def reduce_together(
        self, scores: Mapping[str, pd.DataFrame], samples: Mapping[str, Sample]
    ) -> Mapping[str, list[Metric]]:
        """Metrics that several models make together, by the name under which they are shown.

        Args:
            scores: by model; each as `reduce` gets them.
            samples: by id.
        """
        del scores, samples
        return {}

    def caption(self, sample: Sample, setting: str, texts: PromptTexts) -> Sequence[Step]:
        """What the sweep's captioner is asked about this sample's pictures under a setting; one picture a step."""
        del sample, setting, texts
        return ()

    def similarity(self, row: Row) -> Sequence[SimilarityAsk]:
        """Text comparisons that this row needs from scorer models."""
        del row
        return ()

    def judge(self, row: Row, texts: PromptTexts) -> JudgeAsk | bool | None:
        """The question to the judge about this row; a bool where a rule decides without asking; None for no need."""
        del row, texts
        return None

    def read_verdict(self, text: str) -> bool | None:
        """Read the judge's reply; None when it cannot be read."""
        raise NotImplementedError(f"{self.name} asks no judge: {text[:20]!r}")

    def tables(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
        """Tables in the paper's layout from the rows of metrics.json (columns as there) and of the published CSV."""
        del metrics, published
        return []

    def figures(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[Figure]:
        """Figures of the paper from the same rows."""
        del metrics, published
        return []

    def paired_tests(
        self, a: pd.DataFrame, b: pd.DataFrame, setting: str, samples: Mapping[str, Sample]
    ) -> list[PairedTest]:
        """Metrics that are no mean over rows, compared on the same rows of one setting.

        Args:
            a: scores of the first, as `reduce` takes them, in the order of `b`.
            b: scores of the second.
            setting: of both.
            samples: by id.
        """
        del a, b, setting, samples
        return []

    def people(self) -> People:
        """What is known of people on this benchmark: human figures, and files of people's own work."""
        return People()

    def generation(self, task: str, setting: str) -> Generation:
        """The page's generation settings, which a model's own `generation` overrides."""
        del task, setting
        return Generation()
