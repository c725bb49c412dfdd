"""YAML files that people write, read strictly: every fault is one sentence with the file, and the line where known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from models.errors import YamlFileError


class _AsWritten(yaml.SafeLoader):
    """Numbers and dates stay the text that they are written as: YAML 1.1 reads `1:30` as 90 and `010` as 8."""


def _text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


for _tag in ("int", "float", "timestamp"):
    _AsWritten.add_constructor(f"tag:yaml.org,2002:{_tag}", _text)


def read_yaml(path: Path, called: str, *, as_written: bool = False) -> tuple[Any, yaml.Node | None]:
    """One file's content, and its tree, of which nodes know their lines.

    Args:
        path: the file.
        called: what to call it in messages, such as `models file`.
        as_written: numbers and dates are returned as text.

    Raises:
        YamlFileError: it is missing, is not UTF-8 YAML, or repeats a key.
    """
    text = _text_of(path, called)
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_repeats(path, tree)
        return yaml.load(text, Loader=_AsWritten if as_written else yaml.SafeLoader), tree  # noqa: S506  both are safe
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: text in the form of a date that no calendar has; RecursionError: a thousand brackets.
        if isinstance(error, YamlFileError):
            raise
        raise YamlFileError(_about_yaml(path, error)) from error


def _text_of(path: Path, called: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise YamlFileError(f"{path}: no such {called}") from None
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise YamlFileError(f"{path}: the {called} cannot be read: {error.strerror}") from None


def _about_yaml(path: Path, error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"{path}:{error.problem_mark.line + 1}: not valid YAML: {error.problem or error.context}"
    return f"{path}: not valid YAML: {' '.join(str(error).split())}"


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Every mapping of the file once, also where anchors make a loop."""
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


def _refuse_repeats(path: Path, root: yaml.Node | None) -> None:
    """YAML lets the last of two equal keys win in silence; here both lines are named."""
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
