"""The flags of a sweep: one field is one flag of `run`, `predict`, `score`, `report`, `nightly` and `submit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from models.messages import DEFAULT_SEED

DataUri = Annotated[str, Option("--data", help="Location of the ingested data: a folder or s3://bucket/key.")]
OutUri = Annotated[str, Argument(help="The --out of a run.")]
OutUris = Annotated[list[str], Argument(help="The --out of one run or of several: folders or s3://bucket/key.")]
OtherData = Annotated[str, Option("--data", help="Location of the ingested data, if it is not where the run read it.")]
OnlyBenchmarks = Annotated[str | None, Option("--benchmarks", help="Only these benchmarks.")]
ModelsFiles = Annotated[
    list[Path] | None, Option("--models-file", help="YAML of models, added to the catalog; may be repeated.")
]
RayAddress = Annotated[
    str | None, Option("--address", help="A Ray cluster; default: RAY_ADDRESS, else a local embedded one.")
]
Verbose = Annotated[bool, Option("--verbose", "-v", help="Enable verbose logging.")]
Json = Annotated[bool, Option("--json", help="Print one JSON object on standard output.")]


_MODELS_HELP = "Models by name, comma-separated; also all, open, closed, paper:maia, fits:80GB."


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags:
    """Flags that all commands share which run a sweep or a stage of it."""

    models: Annotated[str, Option("--models", help=_MODELS_HELP)]
    benchmarks: Annotated[str, Option("--benchmarks", help="Benchmarks, comma-separated.")]
    tasks: Annotated[str | None, Option("--tasks", help="Only these tasks.")] = None
    settings: Annotated[str | None, Option("--settings", help="Only these settings.")] = None
    limit: Annotated[str | None, Option("--limit", help="First N samples, a share (0.1), or a range (11-20).")] = None
    data: DataUri
    out: Annotated[str, Option("--out", help="Location of the results: a folder or s3://bucket/key.")]
    judge: Annotated[
        list[str] | None,
        Option(
            "--judge",
            help="Models that judge open answers, A,B: A's verdicts give the metrics, all are compared. May be "
            "repeated.",
        ),
    ] = None
    judge_checks: Annotated[
        int,
        Option(
            "--judge-checks",
            min=0,
            help="Ask the judges again about N answers of each model with references and answer swapped, and with the "
            "answer stated twice: how far position and length change verdicts. nightly: about earlier nights' too.",
        ),
    ] = 0
    captioner: Annotated[
        list[str] | None,
        Option(
            "--captioner",
            help="Models that caption for text-only models, A,B: prompts are asked with the captions of each, and "
            "compared; self: each model for itself. May be repeated.",
        ),
    ] = None
    fail_on_error: Annotated[
        str, Option("--fail-on-error", help="End with 1 when rows failed: true, false, a fraction, or a count allowed.")
    ] = "true"
    cost_limit: Annotated[
        str | None, Option("--cost-limit", help="Dollars that this run may spend, by the prices of the models file.")
    ] = None
    wait_for_nodes: Annotated[
        str | None,
        Option(
            "--wait-for-nodes",
            help="How long a model waits for a node, such as 2h or 45m. [30m where the cluster adds nodes]",
        ),
    ] = None
    batch: Annotated[
        bool,
        Option(
            "--batch",
            help="Send requests to endpoints in batches, at half the price and within a day; for models, judges and "
            "captioners with engine openai whose provider has /v1/batches.",
        ),
    ] = False
    seed: Annotated[int, Option("--seed", help="Seed of draws such as the order of options.")] = DEFAULT_SEED
    repeats: Annotated[
        int,
        Option(
            "--repeats",
            min=1,
            help="Ask each request N times, with seeds that follow each other: metrics are means over them, beside "
            "pass_at_k, pass_hat_k, majority and spread. For models that sample, such as --repeats 5.",
        ),
    ] = 1
    until: Annotated[
        str | None,
        Option(
            "--until",
            help="Stop as soon as answers suffice: 'ci<=0.02', the half width of each model's headline interval, or "
            "ranking. What was not asked is excluded with the reason stopped.",
        ),
    ] = None
    sample_ids: Annotated[list[str] | None, Option("--sample-id", help="Only this sample; may be repeated.")] = None
    scorers: Annotated[
        list[str] | None,
        Option(
            "--scorer",
            help="bertscore=DIR_OR_HUB_ID[:layer] or bleurt=DIR_OR_HUB_ID; a hub id may end in @REVISION. May be "
            "repeated.",
        ),
    ] = None
    prompt_versions: Annotated[
        list[str] | None,
        Option(
            "--prompt-version",
            help="OLD=NEW: use another version of a prompt; BENCHMARK=SET,SET: ask in several sets of prompts, such as "
            "unpie=default,paper, and compare. May be repeated.",
        ),
    ] = None
    models_file: ModelsFiles = None
    trust_remote_code: Annotated[
        str | None,
        Option(
            "--trust-remote-code",
            help="Models, comma-separated, whose publishers' code may run here; without it such models are refused.",
        ),
    ] = None
    prompts: Annotated[
        Path | None, Option("--prompts", help="Folder of your own prompt texts: DIR/BENCHMARK/VERSION.txt.")
    ] = None
    human: Annotated[
        list[str] | None,
        Option(
            "--human",
            help="BENCHMARK=FILE.csv or BENCHMARK=FOLDER of people's answers, labels or judgements, local or s3://; "
            "may be repeated. Formats: docs/human-files.md.",
        ),
    ] = None
    address: RayAddress = None
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan and run nothing.")] = False
    verbose: Verbose = False
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFlags(SweepFlags):
    """Flags of `score`; with `predictions`, models and benchmarks are those of the file."""

    predictions: Annotated[
        Path | None,
        Option(
            "--predictions",
            help="Answers made elsewhere: FILE.jsonl, FILE.parquet, the authors' files of MATE and V-FLUTE, or logs of "
            "lmms-eval, lm-eval, VLMEvalKit, Inspect or EvalScope.",
        ),
    ] = None
    tool: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TOOL",
            help="The harness that wrote --predictions, where it is not recognised: lm-eval, lmms-eval, vlmevalkit, "
            "inspect or evalscope.",
        ),
    ] = None
    models: Annotated[str, Option("--models", help=_MODELS_HELP, show_default=False)] = ""
    benchmarks: Annotated[str, Option("--benchmarks", help="Benchmarks, comma-separated.", show_default=False)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFlags(SweepFlags):
    """Flags of `report`; without `models`, all that the output holds is reported."""

    output: Annotated[str | None, Argument(metavar="OUT", help="The same as --out.", show_default=False)] = None
    models: Annotated[str, Option("--models", help=_MODELS_HELP, show_default=False)] = ""
    benchmarks: Annotated[str, Option("--benchmarks", help="Benchmarks, comma-separated.", show_default=False)] = ""
    data: DataUri = ""
    out: Annotated[str, Option("--out", help="Location of the results: a folder or s3://bucket/key.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StressFlags(SweepFlags):
    """Flags of `stress`."""

    conditions: Annotated[
        str,
        Option(
            "--conditions",
            help="Conditions, comma-separated, with a number or without: order and letters (draws), frames (percent of "
            "their distance), jpeg (quality), pixels (percent), such as order-1,order-2,jpeg-10.",
        ),
    ] = "order,letters,frames,jpeg,pixels"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyFlags(SweepFlags):
    """Flags of `nightly`."""

    benchmarks: Annotated[
        str, Option("--benchmarks", help="Benchmarks, comma-separated. [all installed]", show_default=False)
    ] = ""
    text_models: Annotated[
        str | None,
        Option("--text-models", help="Models that answer without pictures or clips, for MAIA's joint Unimodal row."),
    ] = None
    history: Annotated[
        str | None,
        Option("--history", help="Location of the nights' records: a folder or s3://bucket/key. [OUT/history]"),
    ] = None
    summary: Annotated[Path | None, Option("--summary", help="Write the Markdown summary to this file as well.")] = None
    policy: Annotated[
        Path | None,
        Option("--policy", help="Decide by this policy, as `gate` does of all nights' output: its exit codes count."),
    ] = None
    baseline: Annotated[
        str | None, Option("--baseline", help="The --out of a run that the policy's lines compare with.")
    ] = None
    gpu_hour_usd: Annotated[float | None, Option("--gpu-hour-usd", min=0, help="Price of one GPU for an hour.")] = None
    budget_usd: Annotated[
        float | None,
        Option(
            "--budget-usd",
            min=0,
            help="Dollars a night, of endpoints and, with --gpu-hour-usd, of GPUs. Never evaluated pairs run first, "
            "then changed ones, then the oldest.",
        ),
    ] = None
    budget_hours: Annotated[float | None, Option("--budget-hours", min=0, help="Hours a night, by estimates.")] = None
    refresh_days: Annotated[
        float | None,
        Option("--refresh-days", min=0, help="Measure again what was not measured for so many days. [never]"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeFlags:
    """Flags of `serve`."""

    model: Annotated[str, Argument(help="The model to serve, by name.")]
    host: Annotated[str, Option("--host", help="Address to listen at; any but loopback is reachable from outside.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")] = 8000
    models_file: ModelsFiles = None
    key_env: Annotated[str | None, Option("--key-env", help="Variable that holds the key clients must send.")] = None
    no_key: Annotated[bool, Option("--no-key", help="Disable authentication.")] = False
    idle_s: Annotated[float, Option("--idle-s", min=1.0, help="Idle seconds until GPUs are released.")] = 300.0
    address: RayAddress = None
    verbose: Verbose = False
    json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitFlags(SweepFlags):
    """Flags of `submit`."""

    address: Annotated[str, Option("--address", help="The cluster's dashboard, such as http://127.0.0.1:8265.")]
    env: Annotated[
        list[str] | None,
        Option(
            "--env",
            help="NAME of a variable of this shell for driver and workers, such as a model's key or a store's "
            "credentials; may be repeated. Its value is encrypted with the cluster's token, without which it is "
            "refused, and appears in no log and in no process's arguments.",
        ),
    ] = None
    submission_id: Annotated[
        str | None,
        Option(
            "--submission-id",
            help="Name of the job; a job of this name that succeeded is not run again. Default: made from the flags.",
        ),
    ] = None
    pending_timeout: Annotated[
        float, Option("--pending-timeout", min=1, help="Seconds to wait for a place on the cluster, then stop.")
    ] = 600.0
    entrypoint_num_cpus: Annotated[
        float, Option("--entrypoint-num-cpus", min=0, help="CPUs reserved for the driver; 0 keeps it on the head.")
    ] = 0.0
    entrypoint_memory: Annotated[int, Option("--entrypoint-memory", min=0, help="Bytes reserved for the driver.")] = 0
    code: Annotated[str, Option("--code", help="here: send this installation's code; image: the cluster has it.")] = (
        "here"
    )
    follow: Annotated[bool, Option("--follow/--no-follow", help="Show the job's log until it ends.")] = True
    stop: Annotated[bool, Option("--stop", help="Stop the job of these flags instead of starting it.")] = False
