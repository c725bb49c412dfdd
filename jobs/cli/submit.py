"""`vlmsweep submit`: a sweep through Ray's job API.

Nothing is sent but the four packages' own code and tables, and the models files, the wording and people's files that
were named. It is a list of what goes, not of what stays: data, media, environment files and whatever else lies beside
the code never leave.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.cli import options as o
from jobs.cli.config_file import ConfigFile
from jobs.output import print_json, print_line
from jobs.submit.package import entrypoint, stage
from pipelines.errors import UsageError

Head = Annotated[str, typer.Option("--address", help="The cluster's dashboard, such as http://127.0.0.1:8265.")]
EnvNames = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        help="NAME of a variable of this shell that driver and workers get, such as a model's key or a store's "
        "credentials; may be repeated. Its value goes sealed under the cluster's token, without which it is refused, "
        "and stands in no log and in no process's arguments.",
    ),
]
SubmissionId = Annotated[
    str | None,
    typer.Option(
        "--submission-id",
        help="Name of the job. Under a name of yours a sweep that succeeded is not run again; without, the name is "
        "made from the flags.",
    ),
]
Pending = Annotated[
    float, typer.Option("--pending-timeout", min=1, help="Seconds to wait for a place on the cluster, then stop.")
]
Code = Annotated[str, typer.Option("--code", help="here: send this installation's code; image: the cluster has it.")]
Follow = Annotated[bool, typer.Option("--follow/--no-follow", help="Show the job's log until it ends.")]
Stop = Annotated[bool, typer.Option("--stop", help="Stop the job of these flags instead of starting it.")]
Cpus = Annotated[
    float, typer.Option("--entrypoint-num-cpus", min=0, help="Reserved for the driver; 0 keeps it on the head.")
]
Memory = Annotated[int, typer.Option("--entrypoint-memory", min=0, help="Bytes reserved for the driver.")]


def submit(
    models: o.Models,
    benchmarks: o.Benchmarks,
    data: o.Data,
    out: o.Out,
    address: Head,
    tasks: o.Tasks = None,
    settings: o.Settings = None,
    limit: o.LimitText = None,
    sample_ids: o.SampleIds = None,
    models_file: o.ModelsFile = None,
    judge: o.JudgeName = None,
    captioner: o.Captioner = None,
    scorers: o.Scorers = None,
    fail_on_error: o.FailOnError = "true",
    cost_limit: o.CostLimit = None,
    seed: o.Seed = 42,
    prompts: o.Prompts = None,
    instead: o.Instead = None,
    human: o.Human = None,
    env: EnvNames = None,
    submission_id: SubmissionId = None,
    pending_timeout: Pending = 600.0,
    entrypoint_num_cpus: Cpus = 0.0,
    entrypoint_memory: Memory = 0,
    code: Code = "here",
    follow: Follow = True,
    stop: Stop = False,
    config: ConfigFile = None,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> int:
    """Run a sweep as a job of a Ray cluster, and show its log.

    Ctrl-C stops the showing, not the job: the same command shows it again, with --stop it ends. A job that was stopped,
    killed or interrupted goes on where it was when the same command is given again.
    """
    from jobs.output import prepare

    flags = locals()
    prepare(verbose=verbose, config=config)
    _check(flags)
    line = entrypoint(flags)
    name = submission_id or f"vlmsweep-{hashlib.sha256(line.encode()).hexdigest()[:12]}"
    if stop:
        return _stopped(address, name, as_json=json)
    with tempfile.TemporaryDirectory(prefix="vlmsweep-submit-") as folder:
        stage(flags, Path(folder), code=code)
        return _run(flags, line, name, Path(folder))


def _run(flags: Mapping[str, Any], line: str, name: str, folder: Path) -> int:
    from cluster.job_client import JobClient, JobRequest
    from jobs.submit.decrypt_env import HOOK

    env = _sealed(flags["env"] or ())
    api = JobClient(flags["address"])
    order = JobRequest(
        entrypoint=line,
        folder=folder,
        env=env,
        submission_id=name,
        once=flags["submission_id"] is not None,
        cpus=flags["entrypoint_num_cpus"],
        memory_bytes=flags["entrypoint_memory"],
        worker_setup=HOOK if env else "",
    )
    job, fresh = api.submit(order)
    _note(f"job {job} submitted" if fresh else f"job {job} is there already; nothing new was sent")
    if not flags["follow"]:
        if flags["json"]:
            print_json({"submission_id": job, "submitted": fresh, "entrypoint": line})
        return 0
    try:
        end = api.follow(job, pending_s=flags["pending_timeout"], write=_show)
    except KeyboardInterrupt:
        _note(f"job {job} goes on; the same command shows it again, with --stop it ends")
        raise
    exit_code = _exit_code(end.status, end.exit_code)
    if end.status != "SUCCEEDED":
        _note(f"job {job}: {end.status.lower()}: {' '.join(end.message.split())[:400]}; the same command goes on")
    if flags["json"]:
        print_json({"submission_id": job, "submitted": fresh, "status": end.status, "exit_code": exit_code})
    return exit_code


def _sealed(names: Sequence[str]) -> dict[str, str]:
    """The named variables as the one that a job is sent; empty where none is named."""
    from models.environment import ENCRYPTED_ENV, read_variables

    values = read_variables(names)
    if not values:
        return {}
    from cluster.env_encryption import encrypt_env

    return {ENCRYPTED_ENV: encrypt_env(values)}


def _exit_code(status: str, driver: int | None) -> int:
    """The driver's own code where it has one of ours; a job that was stopped counts as interrupted."""
    if status == "SUCCEEDED":
        return 0
    if status == "STOPPED":
        return 130
    return driver if driver in (1, 2, 3, 130) else 3


def _stopped(address: str, name: str, *, as_json: bool) -> int:
    from cluster.job_client import JobClient

    ended = JobClient(address).stop(name)
    if as_json:
        print_json({"stopped": ended})
    else:
        print_line(f"stopped {', '.join(ended)}; what is committed stays" if ended else f"no job {name} is running")
    return 0


def _check(flags: Mapping[str, Any]) -> None:
    """What can be known here, before anything is sent.

    Raises:
        UsageError: a name is not known or a value has the wrong form.
    """
    from jobs.cli.spec_builder import validate_remote_flags

    validate_remote_flags(flags)
    if flags["code"] not in ("here", "image"):
        raise UsageError(f"--code {flags['code']}: give here or image")
    wanted = flags["submission_id"]
    if wanted is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", wanted):
        raise UsageError(f"--submission-id {wanted!r}: give letters, digits and . _ -")
    for flag in ("data", "out"):
        if "://" not in flags[flag] and not Path(flags[flag]).is_absolute():
            raise UsageError(
                f"--{flag} {flags[flag]}: a job runs in a folder of its own on another machine; give s3://bucket/key, "
                "or the absolute path of a folder that every node of the cluster sees"
            )


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"vlmsweep: {text}\n")
    sys.stderr.flush()
