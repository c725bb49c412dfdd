"""The options of a sweep: flags of `run` and its stages, keys of a configuration file, and what `run.json` records.

One field declares an option for all three. Nothing heavy is imported, because `vlmsweep --help` reads this module.
"""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from models.messages import DEFAULT_SEED
from pipelines.errors import UsageError
from pipelines.flags import flag


def parse_dollars(text: str) -> float:
    """Read `5`, `0.50` or `$5`; UsageError for anything else."""
    try:
        dollars = float(text.removeprefix("$"))
    except ValueError:
        dollars = 0.0
    if not 0.0 < dollars < float("inf"):
        raise UsageError(f"--cost-limit {text}: give dollars above 0, such as 5 or 0.50")
    return dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """Options that a `RunSpec` holds as they are given. Fields without a `Flag` are recorded only."""

    ignored: ClassVar[Collection[str]] = ()  # accepted by a stage, so that one file serves all, and not in its help
    optional: ClassVar[Collection[str]] = ()  # required by `run` only
    kept_relative: ClassVar[Collection[str]] = ()  # locations on another machine

    command: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = flag("Benchmarks, comma-separated.", "Data", is_required=True, default=())
    data: str = flag(
        "Location of the ingested data: a folder or s3://bucket/key.",
        "Data",
        kind="location",
        is_required=True,
        default="",
    )
    out: str = flag(
        "Location of the results: a folder or s3://bucket/key.",
        "Output",
        kind="location",
        is_required=True,
        is_recorded=False,
        default="",
    )
    tasks: tuple[str, ...] = flag("Only these tasks.", "Data", default=())
    settings: tuple[str, ...] = flag("Only these settings.", "Data", default=())
    limit: str | None = flag("First N samples, a share (0.1), or a range (11-20).", "Limits")
    sample_ids: tuple[str, ...] = flag(
        "Only this sample; may be repeated.", "Data", "--sample-id", is_repeatable=True, default=()
    )
    judge_checks: int = flag(
        "Ask the judges again about N answers of each model with references and answer swapped, and with the "
        "answer stated twice: how far position and length change verdicts. nightly: about earlier nights' too.",
        "Judging",
        low=0,
        is_recorded=False,
        default=0,
    )
    scorers: tuple[str, ...] = flag(
        "bertscore=DIR_OR_HUB_ID[:layer] or bleurt=DIR_OR_HUB_ID; a hub id may end in @REVISION. May be repeated.",
        "Judging",
        "--scorer",
        kind="scorer",
        is_repeatable=True,
        default=(),
    )
    address: str | None = flag(
        "A Ray cluster; default: RAY_ADDRESS, else a local embedded one.", "Cluster", is_recorded=False
    )
    fail_on_error: str = flag(
        "Exit with code 1 if rows failed: true, false, a fraction, or a count allowed.", "Limits", default="true"
    )
    seed: int = flag("Seed of draws such as the order of options.", default=DEFAULT_SEED)
    cost_limit: float | None = flag(
        "Most dollars to spend, by the prices of the models file.", "Limits", parse=parse_dollars
    )
    repeats: int = flag(
        "Send each request N times with consecutive seeds. Metrics are means over the repeats; adds "
        "pass_at_k, pass_hat_k, majority and spread. For models that sample.",
        "Limits",
        low=1,
        high=1000,
        default=1,
    )
    until: str | None = flag(
        "Stop as soon as answers suffice: 'ci<=0.02', the half width of each model's headline interval, or "
        "ranking. What was not asked is excluded with the reason stopped.",
        "Limits",
    )
    wait_for_nodes: str | None = flag(
        "How long a model waits for a node, such as 2h or 45m. [30m if the cluster adds nodes]",
        "Cluster",
        is_recorded=False,
    )
    stress: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions(CommonOptions):
    """All options of a sweep, including models and files by name."""

    models: tuple[str, ...] = flag(
        "Models, comma-separated: names, OWNER/NAME[@REVISION] of the hub, ./FOLDER, http://HOST:PORT/v1#MODEL, "
        "or groups: all, open, closed, paper:maia, fits:80GB.",
        "Models",
        kind="models",
        is_required=True,
        is_recorded=False,
        default=(),
    )
    models_file: tuple[Path, ...] = flag(
        "YAML of models, added to the catalog; may be repeated.",
        "Models",
        is_repeatable=True,
        is_recorded=False,
        default=(),
    )
    trust_remote_code: tuple[str, ...] = flag(
        "Models, comma-separated, that may run their publishers' code. Other models with code are refused.",
        "Models",
        kind="models",
        is_recorded=False,
        default=(),
    )
    batch: bool = flag(
        "Send requests in batches: half the price, answers within a day. For models, judges and captioners "
        "of the engines openai, anthropic and gemini.",
        "Models",
        is_recorded=False,
        default=False,
    )
    captioner: str | None = flag(
        "Models that caption for text-only models, A,B: prompts are asked with the captions of each, and "
        "compared; self: each model for itself. May be repeated.",
        "Models",
        kind="models",
        is_repeatable=True,
    )
    judge: str | None = flag(
        "Models that judge open answers, A,B: A's verdicts give the metrics, all are compared. May be repeated.",
        "Judging",
        kind="models",
        is_repeatable=True,
    )
    prompts: Path | None = flag(
        "Folder of your own prompt texts: DIR/BENCHMARK/VERSION.txt.", "Data", is_recorded=False
    )
    prompt_versions: tuple[str, ...] = flag(
        "OLD=NEW: use another version of a prompt; BENCHMARK=SET,SET: ask in several sets of prompts, such as "
        "unpie=default,paper, and compare. May be repeated.",
        "Data",
        "--prompt-version",
        is_repeatable=True,
        is_recorded=False,
        default=(),
    )
    human: tuple[str, ...] = flag(
        "BENCHMARK=FILE.csv or BENCHMARK=FOLDER of people's answers, labels or judgements, local or s3://; may be "
        "repeated. Formats: docs/human-files.md.",
        "Data",
        kind="pair",
        is_repeatable=True,
        default=(),
    )

    def without_ignored(self) -> Self:
        """Return the options with defaults in place of those that the command ignores."""
        defaults: dict[str, Any] = {each.name: each.default for each in fields(self) if each.name in self.ignored}
        return replace(self, **defaults)

    @property
    def first_judge(self) -> str:
        """Name of the judge whose verdicts give the metrics; '' for none."""
        return (self.judge or "").partition(",")[0]

    def to_record(self) -> dict[str, Any]:
        """Return the options as `run.json` holds them."""
        kept = [f.name for f in fields(self) if "flag" not in f.metadata or f.metadata["flag"].is_recorded]
        return {name: getattr(self, name) for name in kept}
