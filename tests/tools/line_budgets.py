"""Check the size of the core, the product and the tests: `python -m tests.tools.line_budgets`.

`[tool.vlmsweep.lines]` of pyproject.toml has one number for each. Python, SQL, templates, scripts and YAML count, but
not the catalog, prompts, published numbers and golden rows. Exit codes: 0 all within budget, 1 not.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import PurePosixPath

from tests.support.paths import ROOT

CODE = {".py", ".sql", ".j2", ".js", ".css", ".yaml", ".yml"}
DATA = {"catalog", "gallery", "golden", "demo_data", "prompts.yaml", "wordings.yaml", "published.yaml"}
CORE = ("cluster", "models", "pipelines")
FOLDERS = {"core": CORE, "product": (*CORE, "jobs"), "tests": ("tests",)}


def count_lines(folders: tuple[str, ...]) -> int:
    """Return the lines of code in the folders' files that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", *folders]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [PurePosixPath(line) for line in listing.stdout.splitlines()]
    counted = [ROOT / path for path in paths if path.suffix in CODE and not DATA & set(path.parts)]
    return sum(path.read_text(encoding="utf-8").count("\n") for path in counted if path.exists())


def main() -> int:
    """Print each size beside its budget."""
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["vlmsweep"]["lines"]
    above = 0
    for name, folders in FOLDERS.items():
        lines = count_lines(folders)
        over = lines - budgets[name]
        above += over > 0
        print(f"{name}: {lines:,} lines of {budgets[name]:,}" + (f", {over:,} too many" if over > 0 else ""))
    return min(above, 1)


if __name__ == "__main__":
    sys.exit(main())
