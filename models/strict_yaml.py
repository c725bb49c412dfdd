"""Read YAML files strictly: every error is one sentence with the file, and the line where known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from models.errors import YamlFileError


class _VerbatimLoader(yaml.SafeLoader):
    """A loader that keeps numbers and dates as text: YAML 1.1 reads `1:30` as 90 and `010` as 8."""


def _text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


for _tag in ("int", "float", "timestamp"):
    _VerbatimLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _text)


def read_yaml(path: Path, file_kind: str, *, verbatim: bool = False) -> tuple[Any, yaml.Node | None]:
    """Return a file's content and its node tree, whose nodes know their lines, or raise `YamlFileError`.

    `file_kind` names it in messages (`models file`); `verbatim` returns numbers and dates as text.
    """
    text = _read_text(path, file_kind)
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        _reject_duplicate_keys(path, tree)
        return yaml.load(text, Loader=_VerbatimLoader if verbatim else yaml.SafeLoader), tree  # noqa: S506  both are safe
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: text in the form of a date that no calendar has; RecursionError: a thousand brackets.
        if isinstance(error, YamlFileError):
            raise
        raise YamlFileError(_describe_yaml_error(path, error)) from error


def _read_text(path: Path, file_kind: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise YamlFileError(f"{path}: no such {file_kind}") from None
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise YamlFileError(f"{path}: the {file_kind} cannot be read: {error.strerror}") from None


def _describe_yaml_error(path: Path, error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"{path}:{error.problem_mark.line + 1}: not valid YAML: {error.problem or error.context}"
    return f"{path}: not valid YAML: {' '.join(str(error).split())}"


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Yield every mapping of the file once, also where anchors form a cycle."""
    seen: set[int] = set()
    stack = [root] if root else []
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            stack.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            stack.extend(node.value)


def _reject_duplicate_keys(path: Path, root: yaml.Node | None) -> None:
    """Raise an error that names both lines; YAML silently lets the last of two equal keys win."""
    for mapping in _mappings(root):
        first: dict[str, int] = {}
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in first:
                raise YamlFileError(
                    f"{path}:{line}: key {key.value!r} is given twice, first on line {first[key.value]}"
                )
            first[key.value] = line
