"""A commit that is cut off before and after each of its steps, on a disk; the process ends there as by SIGKILL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["STEPS", "cut_commit"]

STEPS = ("mkdir", "open", "write", "flush", "fsync", "replace")

_CHILD = """
import os, sys, io, pathlib
folder, step, when = sys.argv[1:]
from tests.chaos.commits import part
from pipelines.store import Store
import pipelines.store as module

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
Store(folder).put("predictions/part.parquet", part("new"))
os._exit(0)
"""


def part(word: str) -> bytes:
    """A part whose rows say a word."""
    from pipelines.records import PREDICTIONS, table_bytes

    rows = [{"request_id": f"{i:032x}", "status": "ok", "output": word} for i in range(50)]
    return table_bytes(rows, PREDICTIONS)


def cut_commit(folder: Path, step: str, when: str) -> int:
    """Commit the new part over what is there in a process that ends `before` or `after` a step; its exit code."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _CHILD, str(folder), step, when]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    return subprocess.run(command, env=environment, cwd=root, timeout=120).returncode
