"""Load models files, the catalog and the user's, with every key checked, and select models by name."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from models.engine_choice import choose_engine
from models.errors import ModelsFileError, UnknownModelError, YamlFileError
from models.selectors import MODEL_NAME, expand_selector, is_group, unknown_model
from models.spec import ModelSpec, entry_class
from models.strict_yaml import read_yaml

CATALOG = Path(__file__).parent / "catalog"


def load_models(files: Sequence[Path | str] = ()) -> dict[str, ModelSpec]:
    """Return all known models: the catalog, then each file; a later entry replaces an earlier one whole.

    No entry is left with `engine: auto`: what is installed here decides.

    Raises:
        ModelsFileError: a file is missing, is not UTF-8 YAML, repeats a key, or holds an invalid entry.
    """
    models = dict(catalog())
    for file in files:
        models.update(_read_file(Path(file)))
    return {name: choose_engine(spec) for name, spec in models.items()}


def trust_remote_code(models: Mapping[str, ModelSpec], names: Iterable[str]) -> dict[str, ModelSpec]:
    """Return the models with code of their publisher allowed for those named; `UnknownModelError` for other names."""
    trusted = named_models(names, models, "--trust-remote-code")
    return {
        name: spec.model_copy(update={"trust_remote_code": True}) if name in trusted else spec
        for name, spec in models.items()
    }


@cache
def catalog() -> Mapping[str, ModelSpec]:
    """Return the entries of the catalog as they are written, some with `engine: auto`."""
    files = sorted(CATALOG.glob("*.yaml"))
    return {name: spec for path in files for name, spec in _read_file(path, is_shipped=True).items()}


def select_models(names: Iterable[str], models: Mapping[str, ModelSpec]) -> dict[str, ModelSpec]:
    """Return the named models in the order named, each once; an unknown name raises `UnknownModelError`.

    `all`, `open`, `closed`, `paper:BENCHMARK` and `fits:80GB` stand for several (`models.selectors`).
    """
    selected: dict[str, ModelSpec] = {}
    for name in names:
        group = None if name in models else expand_selector(name, models)
        if group is None and name not in models:
            raise unknown_model(name, models)
        selected.update({member: models[member] for member in group or (name,)})
    return selected


def named_models(names: Iterable[str], models: Mapping[str, ModelSpec], flag: str) -> dict[str, ModelSpec]:
    """Return models as `select_models`, for a `flag` that takes names alone; UnknownModelError for a group."""
    selected = {}
    for name in names:
        if name not in models:
            if is_group(name):
                raise UnknownModelError(f"{flag} {name}: that is a group; name models, see `vlmsweep list models`")
            raise unknown_model(name, models, flag)
        selected[name] = models[name]
    return selected


def _read_file(path: Path, *, is_shipped: bool = False) -> dict[str, ModelSpec]:
    try:
        data, tree = read_yaml(path, "models file", is_shipped=is_shipped)
    except YamlFileError as error:
        raise ModelsFileError(str(error)) from error
    if data is None:
        return {}
    if not isinstance(data, dict) or not isinstance(tree, yaml.MappingNode):
        raise ModelsFileError(f"{path}:1: expected `name: {{engine: ..., model: ...}}` entries at the top")
    _check_names(path, tree)
    return {name: _spec(path, tree, name, entry) for name, entry in data.items()}


def _location(path: Path, root: yaml.Node, keys: Sequence[object]) -> str:
    """Return `FILE:LINE` of the deepest key of a key path that the file holds."""
    node: yaml.Node | None = root
    line = 1
    for key in keys:
        entries = node.value if isinstance(node, yaml.MappingNode) else []
        match = next(((k, v) for k, v in entries if k.value == str(key)), None)
        if match is None:
            break
        line, node = match[0].start_mark.line + 1, match[1]
    return f"{path}:{line}"


def _check_names(path: Path, root: yaml.MappingNode) -> None:
    for key, _ in root.value:
        if not (key.tag.endswith(":str") and MODEL_NAME.fullmatch(key.value)):
            raise ModelsFileError(
                f"{path}:{key.start_mark.line + 1}: model name {key.value!r} must be text of letters, digits and "
                ". _ + - (quote a name that YAML reads as a number or a boolean)"
            )


def _spec(path: Path, tree: yaml.Node, name: str, entry: Any) -> ModelSpec:
    if not isinstance(entry, dict):
        raise ModelsFileError(
            f"{_location(path, tree, [name])}: model {name!r} must be a mapping such as `engine: random`"
        )
    try:
        return _with_paths(ModelSpec.model_validate(entry), path.parent)
    except ValidationError as error:
        raise ModelsFileError(
            "\n".join(
                f"{_location(path, tree, [name, *details['loc']])}: model {name!r}: {_describe_fault(details, entry)}"
                for details in error.errors(include_url=False, include_context=False)
            )
        ) from None


def _with_paths(spec: ModelSpec, folder: Path) -> ModelSpec:
    """Return the entry with files of this machine by absolute paths: beside the models file, else as they are named."""
    if not spec.runs_locally:
        return spec
    places = {name: [folder / path, path] for name in ("model", "adapter") if (path := _local(getattr(spec, name)))}
    existing = {name: next((path for path in paths if path.exists()), None) for name, paths in places.items()}
    return spec.model_copy(update={name: str(path.absolute()) for name, path in existing.items() if path})


def _local(name: str | None) -> Path | None:
    """Return the path that a name may be, unless it is absolute already; `~` is this user's home."""
    return Path(name).expanduser() if name and not name.startswith(("s3://", "/")) else None


def _describe_fault(details: ErrorDetails, entry: object) -> str:
    *parents, last = (str(key) for key in details["loc"]) if details["loc"] else ("",)
    if details["type"] == "extra_forbidden":
        return f"unknown key {last!r}{_inside(parents)}; {_nearest_key(last, parents, entry)}"
    key = ".".join([*parents, last])
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "literal_error":
        choices = re.findall("'([^']+)'", message)
        nearest = difflib.get_close_matches(str(details["input"]), choices, n=1)
        message += f"; did you mean {nearest[0]!r}?" if nearest else ""
    return f"{key}: {message}" if key else message


def _inside(parents: Sequence[str]) -> str:
    return f" in {'.'.join(parents)}" if parents else ""


def _nearest_key(key: str, parents: Sequence[str], entry: object) -> str:
    """Return the nearest known key of the same mapping, of a mapping inside it, or all keys where none is near."""
    record: type[BaseModel] = entry_class(ModelSpec, entry)
    for parent in parents:
        record = _records_of(record.model_fields[parent])[0]
    places: dict[str, Sequence[str]] = {
        inner: (*parents, name)
        for name, field in record.model_fields.items()
        for mapping in _records_of(field)
        for inner in mapping.model_fields
    }
    places |= dict.fromkeys(record.model_fields, ())
    nearest = difflib.get_close_matches(key.lower(), places, n=1, cutoff=0.4)
    if not nearest:
        return f"known keys: {', '.join(record.model_fields)}"
    return f"the nearest known key is {nearest[0]!r}{_inside(places[nearest[0]])}"


def _records_of(field: FieldInfo) -> list[type[BaseModel]]:
    """Return the records that a field may hold."""
    options = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return [option for option in options if isinstance(option, type) and issubclass(option, BaseModel)]
