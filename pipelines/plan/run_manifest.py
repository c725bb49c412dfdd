"""`run.json`: the contents of an output, to which a later run adds."""

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Self

from pipelines.benchmarks.base import BenchmarkDefinition
from pipelines.benchmarks.known_tables import TableDefinition, use_tables
from pipelines.errors import StoreError, UsageError
from pipelines.json_records import MalformedError, dump_checked, load_checked, read_record, read_value
from pipelines.plan.options import SweepOptions
from pipelines.plan.prompt_plan import PromptPlan
from pipelines.plan.requests import ModelTarget
from pipelines.plan.selection import Limit, SampleSelection, TaskSetting, holds_captions
from pipelines.plan.stopping.until import Stop
from pipelines.plan.stress.conditions import Condition
from pipelines.storage.store import Store
from pipelines.version import __version__

PATH: Final = "run.json"
PRODUCT: Final = f"vlmsweep {__version__}"
SCHEMA_VERSION: Final = 2  # of outputs: another one is refused
PACKAGES = (
    "ray",
    "torch",
    "transformers",
    "accelerate",
    "pyarrow",
    "numpy",
    "pillow",
    "decord2",
    "httpx2",
    "sacrebleu",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelection:
    """Tasks and settings that an earlier run evaluated on other samples than the last one."""

    cells: tuple[TaskSetting, ...]
    limit: str | None = None
    sample_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSet:
    """Tasks and settings that are asked with other prompts too, or with another captioner's captions."""

    name: str
    versions: Mapping[str, str]  # prompt version -> version used in its place
    cells: tuple[TaskSetting, ...]
    captioner: str = ""  # key of the captioner; '' for the target's
    stress: str = ""  # name of the condition of a stress test, which is the set's name too; '' for none

    @property
    def key(self) -> tuple[str, str]:
        """The name and captioner, which identify the set in an entry."""
        return self.name, self.captioner


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One model on one benchmark, as this output holds it."""

    benchmark: str
    model: str
    data: str
    target: ModelTarget
    limit: str | None = None
    sample_ids: tuple[str, ...] = ()
    external: bool = False  # the answers were imported
    earlier: tuple[GroupSelection, ...] = ()
    """Tasks and settings that the report shows on other samples than `limit` and `sample_ids` select."""
    prompt_set: str = ""  # name of the target's set of prompts, where a run named it
    other_prompt_sets: tuple[PromptSet, ...] = ()  # sets of prompts reported in addition to the target's
    stop: Stop | None = None  # where a run with `--until` stopped
    has_stress: bool = False  # whether the output has answers of a stress test, reported or not

    @property
    def prompts(self) -> PromptPlan:
        """The prompts of the model's requests."""
        return self.target.prompts

    @property
    def definition(self) -> BenchmarkDefinition:
        """The benchmark; a table benchmark as it was when the entry was planned."""
        return self.prompts.benchmark

    @property
    def selection(self) -> SampleSelection:
        """The samples that `limit` and `sample_ids` select."""
        return SampleSelection(Limit.parse(self.limit) if self.limit else None, self.sample_ids)

    def by_selection(self) -> list[Self]:
        """Return the entry as one entry per selection of samples; no task and setting is in two of them."""
        earlier_groups = {group for selection in self.earlier for group in selection.cells}
        groups = tuple(group for group in self.prompts.task_settings if group not in earlier_groups)
        current = GroupSelection(cells=groups, limit=self.limit, sample_ids=self.sample_ids)
        return [
            replace(
                self,
                target=self.target.with_prompts(task_settings=selection.cells),
                limit=selection.limit,
                sample_ids=selection.sample_ids,
                earlier=(),
            )
            for selection in (current, *self.earlier)
            if selection.cells or not self.earlier
        ]

    def by_prompt_set(self) -> list[Self]:
        """Return the entry as entries of one set of prompts each, the target's own first."""
        return [
            replace(self, other_prompt_sets=()),
            *(self._for_prompt_set(prompt_set) for prompt_set in self.other_prompt_sets),
        ]

    def uses_other_prompt_set(self, version: str, captioner: str = "") -> bool:
        """Return whether a prompt's version, or its caption, belongs to another set of prompts than the target's."""
        if captioner and captioner != self.prompts.captioner_name:
            return True
        condition = Condition.from_version(version)
        if condition and str(condition) != self.prompts.stress:
            return True
        version, versions = version.removesuffix("+custom"), self.prompts.prompt_versions
        replacements = {new for prompt_set in self.other_prompt_sets for new in prompt_set.versions.values()}
        return bool(self.other_prompt_sets) and (
            version in versions or version in replacements.difference(versions.values())
        )

    def _for_prompt_set(self, prompt_set: PromptSet) -> Self:
        included = {*prompt_set.cells, *self._shared_groups(prompt_set)}
        groups = tuple(group for group in self.prompts.task_settings if group in included)
        selections = [
            replace(selection, cells=tuple(group for group in selection.cells if group in included))
            for selection in self.earlier
        ]
        captioner = prompt_set.captioner or self.prompts.captioner
        return replace(
            self,
            target=self.target.with_prompts(
                task_settings=groups, prompt_versions=prompt_set.versions, captioner=captioner, stress=prompt_set.stress
            ),
            earlier=tuple(selection for selection in selections if selection.cells),
            prompt_set=prompt_set.name,
            other_prompt_sets=(),
        )

    def _shared_groups(self, prompt_set: PromptSet) -> Iterable[TaskSetting]:
        """Return the groups without captions: with those of a set's captioner they are compared, and asked once."""
        if not prompt_set.captioner:
            return ()
        if prompt_set.name == self.prompt_set:
            groups = self.prompts.task_settings
        else:
            same = (other for other in self.other_prompt_sets if other.key == (prompt_set.name, ""))
            groups = next((other.cells for other in same), ())
        return [group for group in groups if not holds_captions(self.definition, group)]

    def to_dict(self) -> dict[str, Any]:
        """Return the form of `run.json`."""
        raw = asdict(self)
        del raw["target"]
        if not self.prompt_set and not self.other_prompt_sets:  # the form of runs in one set of prompts
            del raw["prompt_set"], raw["other_prompt_sets"]
        for name in ("stop", "has_stress"):
            if not raw[name]:
                del raw[name]
        return {**raw, "target": self.target.to_dict()}

    @classmethod
    def from_dict(cls, raw: object, where: str) -> Self:
        """Read the form of `run.json`; MalformedError, which names the place, for another one."""
        fields = dict(read_value(Mapping[str, Any], raw, where))
        target = ModelTarget.from_dict(fields.pop("target", None), f"{where}.target")
        return read_record(cls, {**fields, "target": target}, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedScorer:
    """A scorer with the commit of the hub that an output was begun with."""

    model: str
    revision: str
    requested_revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDataset:
    """The data of a benchmark."""

    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpending:
    """Tokens of a model, and dollars where its price is known."""

    input_tokens: int
    output_tokens: int
    dollars: float | None
    cached_tokens: int = 0  # of `input_tokens`
    devices: tuple[str, ...] = ()  # types of GPUs, or `cpu`, that computed answers of weights loaded for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The costs of one run."""

    at: str
    limit: float | None
    dollars: float
    models: Mapping[str, ModelSpending]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunManifest:
    """The content of `run.json`."""

    product: str = ""
    schema_version: int = SCHEMA_VERSION
    created: str = ""
    updated: str = ""
    sweep: SweepOptions = field(default_factory=SweepOptions)  # of the last run
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the entries of the models file state, with the revisions of weights; engine `external` for other answers."""
    scorers: Mapping[str, RecordedScorer] = field(default_factory=dict)  # by address
    datasets: Mapping[str, RecordedDataset] = field(default_factory=dict)
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # benchmark -> prompt version -> wording
    prompt_fingerprints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    spending: tuple[Spending, ...] = ()
    engine_warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the engines said of how a model runs, by model, such as parameters that an endpoint refused."""
    entries: tuple[ManifestEntry, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether the output has no `run.json` yet."""
        return not self.created

    @property
    def baselines(self) -> frozenset[str]:
        """Models that guess: what others are compared with, and never the best."""
        return frozenset(name for name, fields in self.models.items() if fields.get("engine") == "random")

    def with_warnings(self, engine_warnings: Mapping[str, tuple[str, ...]]) -> Self:
        """Return the manifest with more that engines said."""
        earlier = self.engine_warnings
        added = {name: tuple(dict.fromkeys((*earlier.get(name, ()), *new))) for name, new in engine_warnings.items()}
        return replace(self, engine_warnings={**earlier, **added})

    def tables(self) -> list[TableDefinition]:
        """Return the table benchmarks of the output; not those of entries whose data were ingested anew since."""
        current = {name: dataset.fingerprint for name, dataset in self.datasets.items()}
        plans = [entry.prompts for entry in self.entries]
        return [
            plan.table
            for plan in plans
            if plan.table and current.get(plan.benchmark_name, plan.dataset_fingerprint) == plan.dataset_fingerprint
        ]

    def notes(self) -> list[str]:
        """Return what a reader of the numbers should know of how models were run, a sentence each."""
        left_out = {name: fields.get("omit_parameters", ()) for name, fields in self.models.items()}
        return [
            *(
                f"model {name}: {', '.join(sorted(parameters))} of its requests is left out (omit_parameters)"
                for name, parameters in left_out.items()
                if parameters
            ),
            *(f"model {name}: {text}" for name, texts in self.engine_warnings.items() for text in texts),
            *(
                f"{entry.model} on {entry.benchmark}: stopped by {stop.until} after {stop.reached:,} of "
                f"{stop.clusters:,} clips, pictures or scenes. {stop.whole_set}"
                for entry in self.entries
                if (stop := entry.stop) and stop.reached < stop.clusters
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the form of the file."""
        entries = [entry.to_dict() for entry in self.entries]
        return {**asdict(replace(self, entries=())), "sweep": self.sweep.to_record(), "entries": entries}


def load_run(out: Store) -> RunManifest:
    """Load `run.json`, an empty one if there is none; StoreError for a damaged one, or one of another version."""
    try:
        raw = load_checked(out.get(PATH))
        if raw.get("schema_version") != SCHEMA_VERSION:
            raise StoreError(_other_version(out, raw))
        entries = enumerate(read_value(tuple[Any, ...], raw.get("entries"), "entries"))
        raw["entries"] = [ManifestEntry.from_dict(entry, f"entries[{number}]") for number, entry in entries]
        return read_record(RunManifest, raw)
    except FileNotFoundError:
        return RunManifest()
    except MalformedError as error:
        raise StoreError(
            f"{out.uri}/{PATH}: damaged ({error}); move it away and repeat the commands that filled the output: what "
            "they predicted and scored is kept"
        ) from error


def _other_version(out: Store, raw: Mapping[str, Any]) -> str:
    versions, schema = raw.get("versions"), raw.get("schema_version", 1)
    writer = versions.get("vlmsweep") if isinstance(versions, dict) else None
    return (
        f"{out.uri}/{PATH}: written by {f'vlmsweep {writer}' if writer else 'another version'} with schema {schema}; "
        f"{PRODUCT} reads schema {SCHEMA_VERSION}. Use the version that wrote it, or another --out"
    )


def load_existing_run(out: Store) -> RunManifest:
    """Load `run.json`, as `load_existing_runs`."""
    return load_existing_runs([out])[0]


def load_existing_runs(outs: Sequence[Store]) -> list[RunManifest]:
    """Load `run.json` of outputs that are read together, whose table benchmarks their names stand for from then on.

    Raises:
        UsageError: there is no run, or a name is that of different table benchmarks.
        StoreError: a file is damaged.
    """
    runs = [load_run(out) for out in outs]
    for out, run in zip(outs, runs, strict=True):
        if run.is_new:
            raise UsageError(f"{out.uri}: no {PATH}; is this the --out of a run?")
    use_tables((out.uri, table) for out, run in zip(outs, runs, strict=True) for table in run.tables())
    return runs


def save_run(out: Store, earlier: RunManifest, addition: RunManifest) -> RunManifest:
    """Write `run.json` and return it: the `addition`, with the entries of all runs, over what the `earlier` has."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    prompts = {**earlier.prompts, **addition.prompts}
    run = replace(
        addition,
        product=PRODUCT,
        created=earlier.created or now,
        updated=now,
        models={**earlier.models, **addition.models},
        scorers={**earlier.scorers, **addition.scorers},
        datasets={**earlier.datasets, **addition.datasets},
        prompts=prompts,
        prompt_fingerprints={
            name: {prompt: prompt_fingerprint(text) for prompt, text in texts.items()}
            for name, texts in prompts.items()
        },
        versions=versions(),
        spending=(*earlier.spending, *addition.spending),
        engine_warnings=earlier.engine_warnings,
    )
    out.put(PATH, dump_checked(run.to_dict()))
    return run


def record_work(
    out: Store, run: RunManifest, spending: Spending, engine_warnings: Mapping[str, tuple[str, ...]]
) -> None:
    """Add to `run.json`, whose content is `run`, what a run cost and what its engines said."""
    warnings = run.with_warnings(engine_warnings).engine_warnings
    recorded = replace(run, spending=(*run.spending, spending), engine_warnings=warnings)
    out.put(PATH, dump_checked(recorded.to_dict()))


def prompt_fingerprint(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a prompt's wording."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def versions() -> dict[str, str]:
    """Return the versions of the software that computes."""
    packages = {"python": platform.python_version(), "vlmsweep": __version__}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "absent"
    return packages
