"""`vlmsweep submit`: run a sweep through Ray's job API.

Only the code and tables of the four packages, and the models files, prompts and human files that the flags name, are
sent. The list is of what is sent: data, media, environment files and anything else next to the code never leave.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jobs.shared.commands import listed
from jobs.shared.options import Json, Verbose
from jobs.shared.output import print_json, print_result, write_error
from models.scratch import scratch
from pipelines.clean_text import for_terminal
from pipelines.errors import UsageError
from pipelines.flags import flag
from pipelines.plan.options import SweepOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions(SweepOptions):
    """Options of `submit`."""

    kept_relative: ClassVar = ("data", "out", "scorers", "models", "judge", "captioner", "trust_remote_code")
    """And refused: the job runs on another machine."""

    address: str = flag(
        "The cluster's dashboard, such as http://127.0.0.1:8265.", "Cluster", is_required=True, default=""
    )
    env: tuple[str, ...] = flag(
        "Pass this shell's variable NAME to driver and workers, such as a model's key; may be repeated. "
        "Its value is encrypted with the cluster's token and never appears in logs or process arguments.",
        "Cluster",
        is_repeatable=True,
        default=(),
    )
    submission_id: str | None = flag(
        "Name of the job; a job of this name that succeeded is not run again. Default: made from the options.",
        "Cluster",
    )
    pending_timeout: float = flag(
        "Seconds to wait for a place on the cluster, then stop.", "Cluster", low=1, default=600.0
    )
    entrypoint_num_cpus: float = flag(
        "CPUs reserved for the driver; 0 keeps it on the head.", "Cluster", low=0, default=0.0
    )
    entrypoint_memory: int = flag("Bytes reserved for the driver.", "Cluster", low=0, default=0)
    code: str = flag("here: send this installation's code; image: the cluster has it.", "Cluster", default="here")
    follow: bool = flag("Show the job's log until it ends.", "Cluster", "--follow/--no-follow", default=True)
    stop: bool = flag("Stop the job of these options instead of starting it.", "Cluster", default=False)
    verbose: Verbose = False
    json: Json = False


@listed(
    "Evaluate",
    "submit --models qwen2.5-vl-7b --benchmarks maia --data s3://BUCKET/data --out s3://BUCKET/out --address http://127.0.0.1:8265",
)
def submit(options: SubmitOptions) -> int:
    """Run a sweep as a job of a Ray cluster, and show its log.

    Ctrl-C stops the log, not the job: the same command shows it again; with --stop the job ends. A job that was
    stopped, killed or interrupted resumes when the same command is run again.
    """
    from jobs.submit.package import entrypoint, stage

    _check(options)
    line = entrypoint(options, verbose=options.verbose)
    name = options.submission_id or f"vlmsweep-{hashlib.sha256(line.encode()).hexdigest()[:12]}"
    if options.stop:
        return _stop(options.address, name, as_json=options.json)
    with scratch() as folder:
        stage(options, folder / "job", code=options.code)
        return _submit(options, line, name, folder / "job")


def _submit(options: SubmitOptions, line: str, name: str, folder: Path) -> int:
    from cluster.env_encryption import encrypt_env
    from cluster.job_client import JobClient, JobRequest
    from jobs.submit.decrypt_env import HOOK
    from models.environment import ENCRYPTED_ENV, read_variables

    values = read_variables(options.env)
    env = {ENCRYPTED_ENV: encrypt_env(values)} if values else {}
    client = JobClient(options.address)
    request = JobRequest(
        entrypoint=line,
        folder=folder,
        env=env,
        submission_id=name,
        once=options.submission_id is not None,
        cpus=options.entrypoint_num_cpus,
        memory_bytes=options.entrypoint_memory,
        worker_setup=HOOK if env else "",
    )
    job, is_new = client.submit(request)
    _note(f"job {job} submitted" if is_new else f"job {job} exists already; nothing new was sent")
    if not options.follow:
        if options.json:
            print_json({"submission_id": job, "submitted": is_new, "entrypoint": line})
        return 0
    try:
        result = client.follow(job, pending_s=options.pending_timeout, write=_show)
    except KeyboardInterrupt:
        _note(f"job {job} continues; run the same command again to show it, with --stop to end it")
        raise
    exit_code = _exit_code(result.status, result.exit_code)
    if result.status != "SUCCEEDED":
        message = " ".join(result.message.split())[:400]
        _note(f"job {job}: {result.status.lower()}: {message}; run the same command again to resume")
    if options.json:
        print_json({"submission_id": job, "submitted": is_new, "status": result.status, "exit_code": exit_code})
    return exit_code


def _exit_code(status: str, driver: int | None) -> int:
    """Return the driver's exit code if it is one of the contract; a stopped job counts as interrupted."""
    if status == "SUCCEEDED":
        return 0
    if status == "STOPPED":
        return 130
    return driver if driver in (1, 2, 3, 70, 130) else 3


def _stop(address: str, name: str, *, as_json: bool) -> int:
    from cluster.job_client import JobClient

    stopped = JobClient(address).stop(name)
    text = f"stopped {', '.join(stopped)}; committed rows stay" if stopped else f"no job {name} is running"
    print_result(as_json, {"stopped": stopped}, text)
    return 0


def _check(options: SubmitOptions) -> None:
    """Check names and values on this machine before anything is sent."""
    from jobs.shared.spec_builder import validate_remote_flags

    validate_remote_flags(options)
    if options.code not in ("here", "image"):
        raise UsageError(f"--code {options.code}: give here or image")
    if options.submission_id is not None and not re.fullmatch(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", options.submission_id
    ):
        raise UsageError(f"--submission-id {options.submission_id!r}: give letters, digits and . _ -")
    for name, uri in (("data", options.data), ("out", options.out)):
        if "://" not in uri and not Path(uri).is_absolute():
            raise UsageError(
                f"--{name} {uri}: a job runs in a folder of its own on another machine; give s3://bucket/key, or the "
                "absolute path of a folder that every node of the cluster sees"
            )


def _show(text: str) -> None:
    write_error(for_terminal(text))


def _note(text: str) -> None:
    _show(f"vlmsweep: {text}\n")
