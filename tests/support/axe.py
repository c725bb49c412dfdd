"""axe-core, which finds what keeps people from using a page; npm fetches it once into `.axe`."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.support.browser import Browser
from tests.support.paths import ROOT

NAME, SHA256 = "axe-core-4.10.2.tgz", "9ea2d2d6917da998122bdacfd3b473e31ead53f4b87146c716a12edf89158100"
SERIOUS = ("serious", "critical")
_FETCH_S = 90
_RUN = "axe.run({resultTypes: ['violations']}).then((result) => JSON.stringify(result.violations))"


def axe_script() -> str | None:
    """Return the script; None where npm is missing or cannot fetch it."""
    archive = ROOT / ".axe" / NAME
    if not archive.exists() and shutil.which("npm"):
        archive.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            command = ["npm", "pack", "axe-core@4.10.2", "--fetch-retries=0", f"--pack-destination={folder}"]
            try:
                subprocess.run(command, cwd=folder, capture_output=True, timeout=_FETCH_S, check=True)
            except (subprocess.SubprocessError, OSError):
                return None
            (Path(folder) / NAME).replace(archive)
    if not archive.exists():
        return None
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, f"{archive} is not the pinned release; delete it"
    with tarfile.open(archive) as tar:
        file = tar.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


def serious_faults(page: Browser, script: str) -> list[str]:
    """Return what axe finds in an open page with all its folded parts open: rule, number of places and the first."""
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    page.evaluate(f"{script}; 0")
    faults: list[dict[str, Any]] = json.loads(page.evaluate(_RUN))
    return [
        f"{fault['id']} at {len(fault['nodes'])}: {fault['nodes'][0]['html'][:200]}"
        for fault in faults
        if fault["impact"] in SERIOUS
    ]
