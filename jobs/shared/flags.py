"""The flags of a sweep: one field is one flag of `run`, `predict`, `score`, `report`, `nightly` and `submit`.

What each is called, its limits and its help are in `flags.csv`, as those of all other commands.
"""

from dataclasses import dataclass
from pathlib import Path

from models.messages import DEFAULT_SEED


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags:
    """Flags that all commands share which run a sweep or a stage of it."""

    models: str
    benchmarks: str
    tasks: str | None = None
    settings: str | None = None
    limit: str | None = None
    data: str
    out: str
    judge: list[str] | None = None
    judge_checks: int = 0
    captioner: list[str] | None = None
    fail_on_error: str = "true"
    cost_limit: str | None = None
    wait_for_nodes: str | None = None
    batch: bool = False
    seed: int = DEFAULT_SEED
    repeats: int = 1
    until: str | None = None
    sample_ids: list[str] | None = None
    scorers: list[str] | None = None
    prompt_versions: list[str] | None = None
    models_file: list[Path] | None = None
    trust_remote_code: str | None = None
    prompts: Path | None = None
    human: list[str] | None = None
    address: str | None = None
    dry_run: bool = False
    verbose: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFlags(SweepFlags):
    """Flags of `score`; with `predictions`, models and benchmarks are those of the file."""

    predictions: Path | None = None
    tool: str | None = None
    models: str = ""
    benchmarks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFlags(SweepFlags):
    """Flags of `report`; without `models`, all that the output holds is reported."""

    output: str | None = None
    models: str = ""
    benchmarks: str = ""
    data: str = ""
    out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StressFlags(SweepFlags):
    """Flags of `stress`."""

    conditions: str = "order,letters,frames,jpeg,pixels"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyFlags(SweepFlags):
    """Flags of `nightly`."""

    benchmarks: str = ""
    text_models: str | None = None
    history: str | None = None
    summary: Path | None = None
    policy: Path | None = None
    baseline: str | None = None
    gpu_hour_usd: float | None = None
    budget_usd: float | None = None
    budget_hours: float | None = None
    refresh_days: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeFlags:
    """Flags of `serve`."""

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    models_file: list[Path] | None = None
    key_env: str | None = None
    no_key: bool = False
    idle_s: float = 300.0
    max_pictures: int = 64
    max_total_pixels: int = 128_000_000
    max_messages: int = 1000
    max_body_mib: int = 64
    timeout_s: float = 600.0
    address: str | None = None
    verbose: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitFlags(SweepFlags):
    """Flags of `submit`."""

    address: str
    env: list[str] | None = None
    submission_id: str | None = None
    pending_timeout: float = 600.0
    entrypoint_num_cpus: float = 0.0
    entrypoint_memory: int = 0
    code: str = "here"
    follow: bool = True
    stop: bool = False
