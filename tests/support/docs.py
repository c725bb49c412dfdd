"""Commands and files in the pages of the documentation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

PAGES = (ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md")))
"""Pages whose commands are run."""

_FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]*) -->\n)?^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    language: str
    text: str
    file: str  # the file that it shows; '' for none
    reason: str  # why its commands are not run; '' where they are


@dataclass(frozen=True)
class Command:
    """A command and the output that the page shows."""

    line: str
    output: str

    def printed(self, text: str) -> bool:
        """Return whether a text has the shown output; `...` stands for anything, and blanks are equal."""
        parts = [re.escape(" ".join(part.split())) for part in self.output.split("...")]
        return re.search(".*".join(parts), " ".join(text.split())) is not None


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    for match in _FENCE.finditer(page):
        title = _TITLE.search(match["info"])
        language = match["info"].partition(" ")[0]
        yield Block(language, match["text"], title[1] if title else "", match["reason"] or "")


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block: lines after `$ `, as long as a shell would read on, and their output."""
    results: list[Command] = []
    lines = block.text.splitlines()
    while lines:
        first = lines.pop(0)
        assert first.startswith("$ "), f"not a command: {first}"
        line = first[2:]
        while not _is_complete(line):
            line += f"\n{lines.pop(0)}"
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        results.append(Command(line, "\n".join(shown)))
    return results


def words(command: Command) -> list[str]:
    """Return the words of a command as a shell splits them."""
    return shlex.split(command.line.replace("\\\n", " "), comments=True)


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page shows, and link what the repository has."""
    for name in ("jobs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    for block in blocks(page):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


def _is_complete(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return False
    return not line.endswith("\\")
