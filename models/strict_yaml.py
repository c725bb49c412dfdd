"""Read YAML files strictly: every error is one sentence with the file, and the line where known."""

from pathlib import Path
from typing import Any

import yaml

from models.errors import YamlFileError
from models.guards.regular_files import open_regular

MAX_BYTES = 64 << 20
"""Bytes up to which a text file is read: what is larger, or has no end, is not what its name should be."""


_MOST_UNFOLDED = 100_000
"""Values that a value with aliases may stand for: nine aliases in each of nine lines stand for 400 million."""


class _StrictLoader(yaml.SafeLoader):
    """A loader that rejects repeated keys: YAML silently lets the last of two equal keys win."""

    def __init__(self, stream: str) -> None:
        """Start with no values counted."""
        super().__init__(stream)
        self._values: dict[yaml.Node, int] = {}  # of each finished node, aliases unfolded

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, unless its aliases stand for too many values or for what contains them."""
        alias = self.peek_event() if self.check_event(yaml.AliasEvent) else None  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if node is None or (alias is not None and node not in self._values):
            raise _RefusedError(problem="an alias stands for what contains it", problem_mark=alias and alias.start_mark)
        if alias is None:
            children = node.value if isinstance(node, yaml.CollectionNode) else []
            pairs = isinstance(node, yaml.MappingNode)
            self._values[node] = 1 + sum(
                self._values[part] for child in children for part in (child if pairs else (child,))
            )
            if self._values[node] > _MOST_UNFOLDED and self.anchors:
                problem = f"its aliases stand for more than {_MOST_UNFOLDED:,} values"
                raise _RefusedError(problem=problem, problem_mark=node.start_mark)
        return node

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Open a bracket, unless so many are open that the loader, whose time grows with their square, takes long."""
        if self.flow_level >= 100:
            raise _RefusedError(problem="more than 100 brackets are open at once", problem_mark=self.get_mark())
        super().fetch_flow_collection_start(token)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; the error of a repeated key names both lines."""
        node = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in first:
                problem = f"key {key.value!r} is given twice, first on line {first[key.value]}"
                raise _RefusedError(problem=problem, problem_mark=key.start_mark)
            first[key.value] = key.start_mark.line + 1
        return node


class _RefusedError(yaml.MarkedYAMLError):
    pass


class _VerbatimLoader(_StrictLoader):
    """A loader that keeps numbers and dates as text: YAML 1.1 reads `1:30` as 90 and `010` as 8."""

    yaml_constructors = yaml.SafeLoader.yaml_constructors | dict.fromkeys(
        [f"tag:yaml.org,2002:{tag}" for tag in ("int", "float", "timestamp")], yaml.SafeLoader.construct_yaml_str
    )


def read_yaml(
    path: Path, file_kind: str, *, verbatim: bool = False, is_shipped: bool = False
) -> tuple[Any, yaml.Node | None]:
    """Return a file's content and its node tree, whose nodes know their lines, or raise `YamlFileError`.

    `file_kind` names it in messages (`models file`); `verbatim` returns numbers and dates as text. A file that
    `is_shipped` is read by libyaml where it is installed: many times faster, and neither keys nor nesting are checked.
    """
    text = read_text(path, file_kind)
    strict = getattr(yaml, "CSafeLoader", _StrictLoader) if is_shipped else _StrictLoader
    try:
        return yaml.load(text, Loader=_VerbatimLoader if verbatim else strict), yaml.compose(text, Loader=strict)  # noqa: S506  all are safe
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: text in the form of a date that no calendar has; RecursionError: hundreds of lists in one another.
        problem, line = " ".join(str(error).split()), ""
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
            problem, line = error.problem or str(error.context), f":{error.problem_mark.line + 1}"
        prefix = "" if isinstance(error, _RefusedError) else "not valid YAML: "
        raise YamlFileError(f"{path}{line}: {prefix}{problem}") from error


def read_text(path: Path, file_kind: str) -> str:
    """Return the text of a file of at most `MAX_BYTES`, or raise `YamlFileError`."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise YamlFileError(f"{path}: larger than {MAX_BYTES >> 20} MiB: that is no {file_kind}")
        return content.decode()
    except FileNotFoundError:
        raise YamlFileError(f"{path}: no such {file_kind}") from None
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise YamlFileError(f"{path}: the {file_kind} cannot be read: {error.strerror}") from None
