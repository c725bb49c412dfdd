"""From samples to prompts: the rows of a plan, whichever model answers them, with captions and token estimates."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Literal, Self

from models.message_codec import dump_steps
from models.messages import Generation, Media, Step, Text, prompt_sha256
from pipelines.benchmarks import benchmark, table_benchmark
from pipelines.benchmarks.base import BenchmarkDefinition, PromptInput
from pipelines.benchmarks.known_tables import TableDefinition, add_table
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import MediaRef, Prompt, Sample, repeated_variant
from pipelines.benchmarks.replies.cleaning import clean_reply
from pipelines.hashing import json_members, stable_id, stable_json
from pipelines.ingest.dataset import media_path
from pipelines.json_records import read_record
from pipelines.plan.selection import TaskSetting, holds_captions
from pipelines.plan.stored_plan import PlanRow, iter_media, media_group_key
from pipelines.plan.stress.conditions import Condition
from pipelines.storage.parts import iter_parts, part_folder
from pipelines.storage.store import Store

CHARS_PER_TOKEN = 3.5
PIXELS_PER_TOKEN = 28 * 28
UNKNOWN_PIXELS = 640 * 360
LEAST_CACHED_TOKENS = 1024  # of a prefix that providers keep; some keep only longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEstimate:
    """Prompt tokens of one request over all its steps."""

    prompt_tokens: int = 0
    media_tokens: int = 0  # those of pictures and clips
    first_media_tokens: int = 0  # those of the first picture or clip, which a media group shares
    pictures: int = 0  # pictures and frames


def estimate_tokens(steps: Sequence[Step], media: Mapping[str, MediaRef]) -> TokenEstimate:
    """Estimate the prompt tokens of a request: 3.5 characters a token, 28 x 28 pixels a token, two frames deep."""
    text, shown, pictures = 0, [], 0
    for part in (part for step in steps for turn in step.turns for part in turn.parts):
        if isinstance(part, Text):
            text += round(len(part.text) / CHARS_PER_TOKEN)
        elif isinstance(part, Media):
            ref = media.get(part.file)
            pixels = ref.width * ref.height if ref else UNKNOWN_PIXELS
            pictures += max(1, part.frames)
            shown.append(round(pixels / PIXELS_PER_TOKEN) * max(1, (part.frames + 1) // 2))
    return TokenEstimate(
        prompt_tokens=text + sum(shown),
        media_tokens=sum(shown),
        first_media_tokens=shown[0] if shown else 0,
        pictures=pictures,
    )


def decoded_bytes(steps: Sequence[Step], media: Mapping[str, MediaRef]) -> int:
    """Return the bytes of a request's decoded pictures and clips, each once; single-colour ones have none."""
    parts = {part for step in steps for turn in step.turns for part in turn.parts if isinstance(part, Media)}
    return sum(
        max(1, part.frames) * media[part.file].width * media[part.file].height * 3
        for part in parts
        if part.file in media
    )


def caption_key(captioner: str, fingerprint: Mapping[str, Any]) -> str:
    """Return a captioner's name with a hash of all that changes its captions."""
    return f"{captioner}@{stable_id(dict(fingerprint))[:12]}"


def captioner_name(key: str) -> str:
    """Return the name in a captioner's key."""
    return key.rpartition("@")[0]


def load_captions(out: Store, benchmark_name: str, key: str) -> dict[str, str]:
    """Load a captioner's captions of this output, cleaned, by picture hash; none where the key is ''.

    One whose thoughts never end is empty: it describes nothing.
    """
    if not key:
        return {}
    columns = ["variant", "prompt_version", "status", "output"]
    folder = part_folder("captions", benchmark_name, captioner_name(key))
    return {
        row["variant"]: "" if "open_thoughts" in dropped else text
        for _, table in iter_parts(out, folder, columns)
        for row in table.to_pylist()
        if row["status"] == "ok" and row["prompt_version"] == key
        for text, dropped in [clean_reply(row["output"])]
    }


@dataclass(frozen=True, kw_only=True)
class PromptPlan:
    """What decides the prompts of one benchmark, whichever model answers them. Light, and sent to every worker."""

    benchmark_name: str
    dataset_fingerprint: str
    task_settings: tuple[TaskSetting, ...]
    seed: int
    wording: Mapping[str, str] = field(default_factory=dict)  # the user's own wording by prompt version
    prompt_versions: Mapping[str, str] = field(default_factory=dict)
    """Prompt version -> another version of the benchmark, used in its place."""
    captioner: str = ""  # key of the captioner whose captions the prompts may hold; '' for none
    kind: Literal["answer", "caption"] = "answer"
    """A captioner gets only the pictures that the benchmark captions, each once."""
    repeats: int = 1  # how often each prompt is asked, the later times with the next seeds and as other variants
    stress: str = ""
    """Name of the condition of a stress test (`pipelines.plan.stress`) under which it is asked; '' for none."""
    table: TableDefinition | None = None
    """Of a table benchmark: a worker, and an output without its data, know it from here."""

    def __post_init__(self) -> None:
        if self.table:
            add_table(self.table)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make a table benchmark known in a process that receives its plan."""
        self.__dict__.update(state)
        self.__post_init__()

    def __hash__(self) -> int:
        return hash(stable_json(self.to_dict()))

    @property
    def benchmark(self) -> BenchmarkDefinition:
        """The benchmark."""
        return table_benchmark(self.table) if self.table else benchmark(self.benchmark_name)

    @cached_property
    def texts(self) -> PromptTexts:
        """The wording of its prompts; UsageError for an unknown version."""
        return PromptTexts(self.benchmark.prompt_texts, self.wording, self.prompt_versions)

    @property
    def has_captions(self) -> bool:
        """Whether prompts hold captions."""
        return any(holds_captions(self.benchmark, group) for group in self.task_settings)

    @property
    def captioner_name(self) -> str:
        """The captioner's name; '' for none."""
        return captioner_name(self.captioner)

    def rows(self, sample: Sample, captions: Mapping[str, str] | None = None) -> Iterator[PlanRow]:
        """Build all prompts of one sample, by task and setting, in the order of their variants."""
        if self.kind == "caption":
            for setting in dict.fromkeys(group.setting for group in self.task_settings):
                for step in self.benchmark.captions.steps(sample, setting):
                    source = next((media.source for media in iter_media([step])), "")
                    yield _plan_row(sample, TaskSetting("caption", ""), Prompt(variant=source, steps=(step,)))
            return
        captions_by_picture = (captions or {}) if self.captioner else None
        for group in self.task_settings:
            query = PromptInput(sample, group.task, group.setting, self.texts, self.seed, captions_by_picture)
            captioner = self.captioner_name if holds_captions(self.benchmark, group) else ""
            for prompt in self._prompts(query):
                for repeat in range(self.repeats):
                    yield _plan_row(sample, group, _repeated(prompt, repeat) if repeat else prompt, captioner)

    def _prompts(self, query: PromptInput) -> Iterable[Prompt]:
        if self.stress:
            return Condition.parse(self.stress).prompts(self.benchmark, query)
        return self.benchmark.prompts(query)

    def asked_sample(self, sample: Sample) -> Sample:
        """Return a sample as these prompts ask it."""
        return Condition.parse(self.stress).sample(self.benchmark, sample, self.seed) if self.stress else sample

    def to_dict(self) -> dict[str, Any]:
        """Return the form of `run.json`."""
        return {
            "benchmark_name": self.benchmark_name,
            "dataset_fingerprint": self.dataset_fingerprint,
            "task_settings": [[group.task, group.setting] for group in self.task_settings],
            "wording": dict(self.wording),
            "prompt_versions": dict(self.prompt_versions),
            "seed": self.seed,
            "captioner": self.captioner,
            "kind": self.kind,
            **({"repeats": self.repeats} if self.repeats > 1 else {}),
            **({"stress": self.stress} if self.stress else {}),
            **({"table": asdict(self.table)} if self.table else {}),
        }

    @classmethod
    def from_dict(cls, raw: object, where: str) -> Self:
        """Read the form of `run.json`; MalformedError for another one."""
        return read_record(cls, raw, where)


_generation_values = attrgetter(*Generation.__slots__)


def _repeated(prompt: Prompt, repeat: int) -> Prompt:
    """Return a prompt as it is asked once more: the same words, another seed."""
    steps = [
        replace(step, generation=replace(step.generation, seed=step.generation.seed + repeat)) for step in prompt.steps
    ]
    return replace(prompt, variant=repeated_variant(prompt.variant, repeat), steps=tuple(steps))


def _plan_row(sample: Sample, group: TaskSetting, prompt: Prompt, captioner: str = "") -> PlanRow:
    refs = {ref.sha256: ref for ref in sample.media}
    media = list(iter_media(prompt.steps))
    tokens, digest = estimate_tokens(prompt.steps, refs), prompt_sha256(prompt.steps)
    return PlanRow(
        sample_id=sample.sample_id,
        task=group.task,
        setting=group.setting,
        variant=prompt.variant,
        media_group=media_group_key(media[0]) if media else "",
        prompt_version=prompt.version,
        prompt_sha256=digest,
        captioner="" if prompt.excluded else captioner,
        excluded=prompt.excluded,
        generation=f"[{', '.join([_generation_json(*_generation_values(step.generation)) for step in prompt.steps])}]",
        prompt_tokens=tokens.prompt_tokens,
        media_tokens=tokens.media_tokens,
        first_media_tokens=tokens.first_media_tokens,
        pictures=tokens.pictures,
        decoded_bytes=decoded_bytes(prompt.steps, refs),
        media_files={part.source: media_path(refs[part.file]) for part in media if part.file in refs},
        messages=dump_steps(prompt.steps),
        id_members=json_members(
            {
                "prompt_sha256": digest,
                "prompt_version": prompt.version,
                "sample_id": sample.sample_id,
                "setting": group.setting,
                "task": group.task,
                "variant": prompt.variant,
            }
        ),
    )


@lru_cache(maxsize=1024, typed=True)  # typed: 0 and 0.0 are equal, and their JSON is not
def _generation_json(*values: float) -> str:
    return json.dumps(values)


@lru_cache(maxsize=1024)
def load_generations(text: str) -> tuple[Generation, ...]:
    """Return the settings of each step from `PlanRow.generation`."""
    return tuple(Generation(**dict(zip(Generation.__slots__, step, strict=True))) for step in json.loads(text))
