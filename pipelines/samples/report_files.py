"""The report of an output, served below the viewer's key, with links from its rows and items to the samples' pages."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import parse_qs

from pipelines.clean_text import one_line
from pipelines.errors import DatasetError, TooLargeError
from pipelines.rendering.environment import MARK, inline_file
from pipelines.samples.outputs import REPORT, Output
from pipelines.storage.backend import is_remote

Address = Callable[[str, Mapping[str, str]], str]
"""The address of a page, `sample` or `samples`, from the values that choose what it shows."""

_NAME: Final = re.compile(r"(?:(?:tables|figures|items)/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
_TYPES: Final = {
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".csv": "text/csv",
    ".md": "text/plain",
    ".tex": "text/plain",
}
_MAX_BYTES: Final = 256 << 20
_STYLE: Final = re.compile(rb"<style>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ReportFile:
    """One file of a report as it is sent."""

    content: bytes
    media_type: str
    policy: str  # its content security policy


def report_names(output: Output) -> list[str]:
    """Return the paths of the files of a report, in its folder."""
    names = [info.path.removeprefix(f"{REPORT}/") for info in output.store.list(REPORT)]
    return [name for name in names if _NAME.fullmatch(name) and PurePosixPath(name).suffix in _TYPES]


def report_file(output: Output, path: str, address: Address) -> ReportFile:
    """Return a file of an output's report; pages get links to those of samples.

    Raises:
        DatasetError: there is no such file in the report's folder, or it leads out of it.
    """
    kind = PurePosixPath(path).suffix
    if not _NAME.fullmatch(path) or kind not in _TYPES:
        raise DatasetError(f"{path[:200]!r} is no file of a report")
    content = _read(output, path)
    if kind == ".html":
        content = _with_links(content.decode("utf-8", "replace"), output, address).encode()
    return ReportFile(content, f"{_TYPES[kind]}; charset=utf-8", _policy(content))


def _read(output: Output, path: str) -> bytes:
    store, name = output.store, f"{REPORT}/{path}"
    if not is_remote(store.uri):
        folder = Path(store.uri).resolve() / REPORT
        if not (Path(store.uri) / name).resolve().is_relative_to(folder):
            raise DatasetError(f"{store.uri}/{name}: leads out of the report's folder; it is not shown")
    try:
        return store.get(name, _MAX_BYTES)
    except FileNotFoundError as error:
        raise DatasetError(f"{store.uri}/{name}: there is no such file; write the report again") from error
    except TooLargeError as error:
        raise DatasetError(str(error)) from error


def _policy(content: bytes) -> str:
    """Allow images, the style that the file itself holds and the script of reports, and nothing else."""
    styles = {base64.b64encode(hashlib.sha256(text).digest()).decode() for text in _STYLE.findall(content)}
    sources = " ".join(f"'sha256-{digest}'" for digest in sorted(styles)) or "'none'"
    rest = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    _, script = inline_file("report.js")
    return f"default-src 'none'; img-src 'self'; style-src {sources}; script-src {script}; {rest}"


def _with_links(page: str, output: Output, address: Address) -> str:
    """Replace the marks of a page by links; a mark of a model that has no answers here is left."""
    models = {entry.model for entry in output.entries()}

    def replaced(match: re.Match[str]) -> str:
        query = {name: values[0] for name, values in parse_qs(match["query"]).items()}
        model = query.get("model", "")
        if model and model not in models:
            return match[0]
        if "sample_id" in query:
            return _link(address("sample", query), "Answers of all models")
        filtered = {**query, "out": output.label}
        if model:
            return _link(address("samples", filtered), "answers", f"answers of {model}")
        return _link(address("samples", filtered), "Samples and answers")

    return MARK.sub(replaced, page)


def _link(address: str, text: str, label: str = "") -> str:
    name = f' aria-label="{escape(one_line(label))}"' if label else ""
    return f'<a class="viewer" href="{escape(address)}"{name}>{text}</a>'
