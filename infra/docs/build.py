"""Build the documentation as a site: the pages of docs/, and references generated from the code.

    python -m infra.docs.build [SITE]

Nothing is fetched. A broken link or anchor, a page outside the navigation and any other warning end the build with an
error.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from infra.docs.benchmark_pages import benchmark_pages
from infra.docs.command_line import commands_page, exit_codes_page, python_page
from infra.docs.records import catalog_page, columns_page, metrics_page, models_file_page

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).parent / "mkdocs.yml"
_COPIED = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md"}


def generated_pages() -> Mapping[str, str]:
    """Return path -> Markdown of all pages that are made from the code."""
    return {
        "reference/commands.md": commands_page(),
        "reference/exit-codes.md": exit_codes_page(),
        "reference/python.md": python_page(),
        "reference/models-file.md": models_file_page(),
        "reference/catalog.md": catalog_page(),
        "reference/columns.md": columns_page(),
        "reference/metrics.md": metrics_page(),
        **benchmark_pages(),
    }


def write_pages(folder: Path) -> None:
    """Write all pages of the site as Markdown: those of docs/, two of the root, and the generated ones."""
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    (folder / "javascripts").mkdir()
    shutil.copy(CONFIG.with_name("iframe-worker.js"), folder / "javascripts")
    for name, target in _COPIED.items():
        (folder / target).write_text(
            (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "]("), encoding="utf-8"
        )
    for path, text in generated_pages().items():
        target_file = folder / path
        target_file.parent.mkdir(parents=True, exist_ok=True)
        target_file.write_text(text, encoding="utf-8")


def build(pages: Path, site: Path) -> None:
    """Build the site from a folder of pages; mkdocs raises `Abort` after any warning."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    build_site(load_config(str(CONFIG), docs_dir=str(pages), site_dir=str(site), strict=True))


def main(site: Path) -> None:
    """Write the pages into a temporary folder, and build the site from it."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with tempfile.TemporaryDirectory(prefix="vlmsweep-docs-") as folder:
        write_pages(Path(folder))
        build(Path(folder), site)
    print(f"documentation: {site}/index.html")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve())
