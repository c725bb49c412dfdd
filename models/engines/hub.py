"""The Hugging Face hub: which commit a revision is, within seconds, and the files of an adapter.

A machine without network must not wait for it.

The client reads the hub's address and token where all libraries do; in its offline mode nothing is sent.
"""

import queue
import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from models.errors import EngineUnreachableError
from models.fingerprint import is_plain_path, local_weights
from models.shell.connections import check_hub_settings, hub_problem
from models.spec import ModelSpec

State: TypeAlias = Literal["known", "unknown model", "unknown revision", "unreachable"]
Question: TypeAlias = tuple[str, str]  # id of a model at the hub, and revision: branch, tag or commit

DEFAULT_REVISION: Final = "main"
ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_WEIGHTS: Final = "adapter_model.safetensors"
DEADLINE_S: Final = 15.0  # for all questions of a run: looking up the hub's address has no limit of its own
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_REQUEST_S: Final = 5.0  # for a connection, and for each read
_THREADS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAnswer:
    """What the hub says of a revision."""

    state: State
    commit: str = ""  # of a known revision
    problem: str = ""  # why there is no commit: a clause without a full stop


@dataclass(slots=True)
class _Questions:
    """What threads share: open questions, answers, and whether the hub is gone."""

    api: Any
    open: queue.SimpleQueue[Question] = field(default_factory=queue.SimpleQueue)
    answers: dict[Question, HubAnswer] = field(default_factory=dict)
    unreachable: threading.Event = field(default_factory=threading.Event)


def is_commit(revision: str | None) -> bool:
    """Return whether a revision is a full commit, which nothing can move."""
    return bool(revision and _COMMIT.fullmatch(revision))


def is_hub_name(name: str) -> bool:
    """Return whether a name may be an id of the hub: neither a path, a folder here, nor an `s3://` address."""
    return not (name.startswith("s3://") or is_plain_path(name) or Path(name).is_dir())


def hub_id(spec: ModelSpec) -> str:
    """Return the id of a model at the hub; '' for a folder or file, an `s3://` address, an endpoint or the baseline."""
    return spec.model if spec.runs_locally and is_hub_name(spec.model) and local_weights(spec) is None else ""


def adapter_id(spec: ModelSpec) -> str:
    """Return the id of a model's adapter at the hub; '' for none, a folder, or an `s3://` address."""
    return spec.adapter if spec.runs_locally and spec.adapter and is_hub_name(spec.adapter) else ""


def adapter_folder(spec: ModelSpec) -> str:
    """Return the folder of a model's adapter in this machine's cache of the hub, fetched where it is not there.

    Raises:
        EngineUnreachableError: the hub cannot be reached, or has no such adapter in safetensors.
    """
    check_hub_settings()
    import httpx2
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    name, revision = adapter_id(spec), spec.adapter_revision or DEFAULT_REVISION
    try:
        paths = [hf_hub_download(name, file, revision=revision) for file in (ADAPTER_CONFIG, ADAPTER_WEIGHTS)]
    except (httpx2.HTTPError, OSError, ValueError) as error:
        is_incomplete = isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError)
        lines = str(error).strip().splitlines()
        problem = (
            f"it needs {ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}; weights of other formats are not read"
            if is_incomplete
            else f"{lines[0] if lines else type(error).__name__} (check that the hub is reachable and the id and "
            "revision exist, or give a local folder)"
        )
        raise EngineUnreachableError(f"the adapter {name} at {revision} cannot be fetched: {problem}") from error
    return str(Path(paths[0]).parent)


def ask_hub(
    questions: Iterable[Question], *, endpoint: str | None = None, deadline_s: float = DEADLINE_S
) -> dict[Question, HubAnswer]:
    """Return the hub's answers; what is open at the deadline or after a failed connection is `unreachable`.

    `endpoint` is the hub's address; None for the client's own setting.

    Raises:
        ShellSettingError: the hub's client cannot be imported.
    """
    distinct = list(dict.fromkeys(questions))
    if not distinct:
        return {}
    if problem := hub_problem(endpoint):
        return dict.fromkeys(distinct, HubAnswer(state="unreachable", problem=problem))
    from huggingface_hub import HfApi

    shared = _Questions(HfApi(endpoint=endpoint))
    for question in distinct:
        shared.open.put(question)
    # Daemons: a thread that waits for a name server must not keep the process from ending.
    threads = [
        threading.Thread(target=_answer_all, args=(shared,), daemon=True) for _ in range(min(_THREADS, len(distinct)))
    ]
    deadline = time.monotonic() + deadline_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answers = dict(shared.answers)
    problem = next(
        (answer.problem for answer in answers.values() if answer.state == "unreachable"), "no answer in time"
    )
    return {question: answers.get(question, HubAnswer(state="unreachable", problem=problem)) for question in distinct}


def cached_folder(model: str, revision: str | None, *, file: str = "config.json") -> Path | None:
    """Return the folder of a revision, `main` for None, in this machine's cache of the hub; None if it lacks a file."""
    check_hub_settings()
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(model, file, revision=revision)
    except HFValidationError:
        return None  # the path of a folder that this machine lacks
    return Path(path).parent if isinstance(path, str) else None


def cached_commit(model: str, revision: str, *, file: str = "config.json") -> str:
    """Return the commit that a revision has in this machine's cache of the hub; '' if it lacks a file."""
    folder = cached_folder(model, revision, file=file)
    return folder.name if folder else ""


def _answer_all(shared: _Questions) -> None:
    while not shared.unreachable.is_set():
        try:
            question = shared.open.get_nowait()
        except queue.Empty:
            return
        shared.answers[question] = _ask(shared, *question)


def _ask(shared: _Questions, model: str, revision: str) -> HubAnswer:
    import httpx2

    try:
        commit = shared.api.model_info(model, revision=revision, timeout=_REQUEST_S).sha
    except (httpx2.HTTPError, OSError, ValueError, KeyError) as error:  # the last two: another service answers
        answer, is_gone = _problem(model, revision, error)
        if is_gone:
            shared.unreachable.set()
        return answer
    if not is_commit(commit):
        return HubAnswer(state="unreachable", problem="an answer without a commit")
    return HubAnswer(state="known", commit=commit)


def _problem(model: str, revision: str, error: Exception) -> tuple[HubAnswer, bool]:
    """Return why there is no commit, and whether other questions will fare the same."""
    from huggingface_hub import errors

    unknown: tuple[tuple[type[Exception], State, str], ...] = (
        (errors.RevisionNotFoundError, "unknown revision", f"the hub has no revision {revision!r} of {model}"),
        (
            errors.RepositoryNotFoundError,
            "unknown model",
            f"the hub has no {model}, or shows it only with a token that may read it",
        ),
        (errors.HFValidationError, "unknown model", f"{model!r} is neither a local folder nor an id of the hub"),
    )
    for kind, state, text in unknown:
        if isinstance(error, kind):
            return HubAnswer(state=state, problem=text), False
    if isinstance(error, errors.HfHubHTTPError):  # such as too many requests
        return HubAnswer(state="unreachable", problem=f"status {error.response.status_code}"), False
    is_offline = isinstance(error, errors.OfflineModeIsEnabled)
    return HubAnswer(state="unreachable", problem="offline mode" if is_offline else type(error).__name__), True
