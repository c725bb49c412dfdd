"""Commits cut off before and after each step, on a disk and on S3; the process ends as by SIGKILL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from pipelines.plan.units import WorkUnit

__all__ = ["S3_STEPS", "STEPS", "cut_commit", "cut_commit_on_s3", "part", "unit"]

STEPS = ("mkdir", "open", "write", "flush", "fsync", "replace")

_CHILD = """
import os, sys, io, pathlib
folder, step, when = sys.argv[1:]
from tests.chaos.commits import part
from pipelines.storage.store import Store
import pipelines.storage.store as module

def cut(target, name):
    whole = getattr(target, name)
    def wrapped(*arguments, **options):
        if when == "before":
            os._exit(9)
        done = whole(*arguments, **options)
        os._exit(9)
    setattr(target, name, wrapped)

class Cut(io.FileIO):
    pass

if step in ("mkdir", "open", "replace"):
    cut(pathlib.Path, step)
elif step == "fsync":
    cut(os, "fsync")
else:
    opened = pathlib.Path.open
    def open_(path, *arguments, **options):
        file = opened(path, *arguments, **options)
        if not path.name.endswith(".tmp"):
            return file
        class Wrapped:
            def __enter__(self): return self
            def __exit__(self, *_): file.close()
            def fileno(self): return file.fileno()
            def write(self, content):
                if step == "write":
                    if when == "after":
                        file.write(content[: len(content) // 2]); file.flush()
                    os._exit(9)
                return file.write(content)
            def flush(self):
                if when == "after":
                    file.flush()
                os._exit(9)
        return Wrapped()
    pathlib.Path.open = open_
Store(folder).put("predictions/37a680133bd09342f934afb8.parquet", part("new"))
os._exit(0)
"""


def part(word: str) -> bytes:
    """Build a part whose rows all hold a word."""
    from pipelines.schemas import PREDICTIONS
    from pipelines.storage.parts import to_parquet

    rows = [{"request_id": f"{i:032x}", "status": "ok", "output": word} for i in range(50)]
    return to_parquet(rows, PREDICTIONS)


def cut_commit(folder: Path, step: str, when: str) -> int:
    """Commit the new part in a process that ends `before` or `after` a step; return its exit code."""
    root = ROOT
    command = [sys.executable, "-c", _CHILD, str(folder), step, when]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    return subprocess.run(command, env=environment, cwd=root, timeout=240).returncode


S3_STEPS = ("fence", "body", "send")
"""Reading the lock; sending the request (`after`: half of its body is sent); the request as a whole (`after`: the store
has executed it, its response is unread)."""

_S3_CHILD = """
import asyncio.selector_events as events, os, sys
import aiobotocore.httpsession as session
import s3fs
from pipelines.storage.lock import LOCK
from pipelines.storage.parts import read_parquet
from pipelines.storage.store import Store
from pipelines.predict.unit_pipeline import Committer
from pipelines.predict.records import AnsweredUnit
from tests.chaos.commits import part, unit

out, commit, step, when = sys.argv[1:]

def cut(target, name, matters):
    whole = getattr(target, name)
    def now(arguments):
        return os._exit(9) if matters(*arguments) else None
    async def awaited(*arguments, **options):
        if when == "before":
            now(arguments)
        done = await whole(*arguments, **options)
        now(arguments)
        return done
    def plain(*arguments, **options):
        if when == "before":
            now(arguments)
        done = whole(*arguments, **options)
        now(arguments)
        return done
    setattr(target, name, awaited if step == "send" else plain)

if step == "fence":
    cut(Store, "get", lambda store, path: path == LOCK)
elif step == "send":
    cut(session.AIOHTTPSession, "send", lambda self, request: request.method == "PUT")
else:
    transport = events._SelectorSocketTransport
    writelines, write = transport.writelines, transport.write
    def half(self, content):
        content = bytes(content)
        at = content.find(MARK)
        if at < 0:
            return write(self, content)
        if when == "after":
            write(self, content[: at + (len(content) - at) // 2])
        os._exit(9)
    transport.write = half
    transport.writelines = lambda self, several: half(self, b"".join(map(bytes, several)))

MARK = b"PAR1" if commit == "part" else b'"new"'
store = Store(out)
if commit == "part":
    Committer(out, "me").commit(AnsweredUnit(unit=unit(), rows=read_parquet(part("new"))))
else:
    version = store.get_version(LOCK)[1]
    store.put_if(LOCK, b'{"run": "new"}', version)
os._exit(0)
"""


def unit() -> WorkUnit:
    """Return the unit whose part is committed."""
    from pipelines.plan.units import WorkUnit

    return WorkUnit(benchmark="maia", part="predictions/37a680133bd09342f934afb8.parquet", slices=(), requests=50)


def cut_commit_on_s3(out: str, commit: str, step: str, when: str, env: dict[str, str]) -> int:
    """Commit a `part` (under the run's lock) or a `lock` (conditionally); return the exit code."""
    root = ROOT
    command = [sys.executable, "-c", _S3_CHILD, out, commit, step, when]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), **env}
    return subprocess.run(command, env=environment, cwd=root, timeout=240).returncode
