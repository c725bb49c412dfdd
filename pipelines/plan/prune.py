"""Delete the plan files that no plan of an output refers to any more."""

import json
import posixpath
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pipelines.benchmarks import benchmark_names
from pipelines.plan.context import SweepContext
from pipelines.plan.plan_store import plan_key, plan_parts
from pipelines.plan.prompt_plan import load_captions
from pipelines.plan.run_manifest import ManifestEntry
from pipelines.storage.lock import check_lock
from pipelines.storage.owned_files import is_owned
from pipelines.storage.store import Store

GRACE = timedelta(hours=1)
"""How long a file stays after it was first seen to be obsolete: a reader may have opened its plan before that."""
OBSOLETE = "plan/obsolete.json"  # path -> when a run first saw that nothing needs the file


def prune_plans(context: SweepContext, entries: Iterable[ManifestEntry]) -> None:
    """Delete plan files that have been obsolete for longer than `GRACE`; mark those that are obsolete since now.

    Call it under the output's lock, when `run.json` holds the `entries`. Needed are their plans with the present
    captions, even if their data is gone, and all that this run has opened. Any other plan can be built again.
    FencedError if the run has lost its lock.
    """
    out = context.out
    installed = {*benchmark_names()}
    plans, stored = context.plans.opened, context.plans.files
    paths = [
        path for path in stored.by_path if is_owned(path) and posixpath.basename(path).startswith(("plan-", "part-"))
    ]
    files = {path for path in paths if posixpath.dirname(path).partition("=")[2] in installed}
    keys = {*plans} | {
        plan_key(
            selected_entry.prompts,
            selected_entry.selection,
            load_captions(out, selected_entry.benchmark, selected_entry.prompts.captioner),
        )
        for entry in entries
        if entry.benchmark in installed
        for in_set in entry.by_prompt_set()
        for selected_entry in in_set.by_selection()
    }
    indices = {path: key for path in files if (key := path.rpartition("/plan-")[2].removesuffix(".json")) in keys}
    needed = {*indices}
    for path, key in indices.items():
        needed |= {part.path for part in (plans[key].parts if key in plans else plan_parts(out, path)) or ()}
    now, marks = datetime.now(UTC), _load_marks(out) if OBSOLETE in stored.by_path else {}
    since = {path: marks.get(path, now) for path in files - needed}
    expired = {path for path, start in since.items() if now - start > GRACE}
    remaining = {path: start for path, start in since.items() if path not in expired}
    if not expired and remaining == marks:
        return
    check_lock(out, context.lock_token)
    for path in sorted(expired, reverse=True):  # indices before their parts, so that no index names a missing part
        stored.delete(path)
    if remaining != marks:
        lines = {path: start.isoformat() for path, start in sorted(remaining.items())}
        stored.replace(OBSOLETE, json.dumps(lines, indent=1).encode())


def _load_marks(out: Store) -> dict[str, datetime]:
    """Load the marks of earlier runs; none if the file is absent or unreadable, so that the waiting starts again."""
    try:
        return {path: datetime.fromisoformat(start) for path, start in json.loads(out.get(OBSOLETE)).items()}
    except (FileNotFoundError, ValueError, AttributeError, TypeError):
        return {}
