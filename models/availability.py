"""Check whether a model can run with the installed packages, without loading heavy libraries."""

import ast
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from models.environment import secret
from models.errors import MissingSecretError, ShellSettingError
from models.fingerprint import is_of_hub, is_plain_path
from models.guards.redaction import Redactor
from models.shell.connections import check_hub_settings, http_options, hub_problem
from models.spec import ModelSpec, TransformersEntry
from models.weight_headers import gguf_file

GGUF_NOT_INSTALLED = "GGUF files are read with the package gguf, which is not installed: pip install 'vlmsweep[gguf]'"
PICKLES_REFUSED = (
    "no other weights are read, since pickles run code as they load: convert them where you trust them, with "
    "AutoModel....from_pretrained(folder).save_pretrained(new_folder), and give the new folder"
)
_REMEDY = "give a GGUF file, a checkpoint's folder or a hub id"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TABLES = frozenset({"MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"})


def unavailable_reason(spec: ModelSpec) -> str:
    """Return why this machine cannot run a model, '' if it can; memory and the hub's files are not checked."""
    if spec.unsupported:
        return f"{spec.unsupported.reason.strip()} Runs with: {spec.unsupported.runs_with.strip()}"
    if spec.remote_code and not spec.trust_remote_code:
        return (
            f"it comes with code of its publisher that would run on this machine ({spec.model}, revision "
            f"{spec.revision or 'main'}): read it, then name the model in --trust-remote-code"
        )
    try:
        _check_shell(spec)
    except (MissingSecretError, ShellSettingError) as error:
        return str(error)
    return missing_path(spec) or pickled_weights(spec) or _missing_package(spec)


def _check_shell(spec: ModelSpec) -> None:
    """Raise MissingSecretError or ShellSettingError where a variable keeps a model from running."""
    if spec.is_endpoint:
        http_options(str(spec.base_url))
        if spec.api_key_env:
            key = secret(spec.api_key_env).get_secret_value()
            if Redactor([key]).is_quoted_in(spec.model_dump_json(exclude={"api_key_env"})):
                raise ShellSettingError(
                    f"its entry holds the key of {spec.api_key_env} itself, and run.json records entries; remove it"
                )
    elif spec.runs_locally:
        check_hub_settings()
        if is_of_hub(spec) and (problem := hub_problem()):
            raise ShellSettingError(problem)


def missing_path(spec: ModelSpec) -> str:
    """Return which folder or file that an entry names by a path is not on this machine; '' if all are."""
    if not spec.runs_locally:
        return ""
    for name in filter(None, (spec.model, spec.adapter)):
        if is_plain_path(name) and not Path(name).expanduser().exists():
            kind = "file" if name.lower().endswith(".gguf") else "folder"
            return f"no {kind} {name}, beside the models file or in the working directory; {_REMEDY}"
    return ""


def pickled_weights(spec: ModelSpec) -> str:
    """Return why the weights in a folder of this machine are refused: pickles, where there is no safetensors file."""
    folder = Path(spec.model).expanduser()
    if not spec.runs_locally or not folder.is_dir() or any(folder.glob("*.safetensors")) or gguf_file(spec.model):
        return ""
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    return f"the folder holds {pickles[0]} and no *.safetensors, and {PICKLES_REFUSED}" if pickles else ""


def _missing_package(spec: ModelSpec) -> str:
    if spec.package and importlib.util.find_spec(spec.package) is None:
        install = f"pip install 'vlmsweep[{spec.package}]' on a machine with GPUs"
        return f"it runs on {spec.package} alone, which is not installed here: {install}"
    if spec.runs_locally and gguf_file(spec.model) and importlib.util.find_spec("gguf") is None:
        return GGUF_NOT_INSTALLED
    if isinstance(spec, TransformersEntry) and spec.architecture and not spec.trust_remote_code:
        architectures = transformers_classes()
        if architectures and spec.architecture not in architectures:
            version = importlib.metadata.version("transformers")
            return f"transformers {version} has no code for {spec.architecture}"
    return ""


@lru_cache(maxsize=1)
def transformers_classes() -> Mapping[str, frozenset[str]]:
    """Return `model_type` -> class names of the installed transformers, read from its source: importing loads torch."""
    package = importlib.util.find_spec("transformers")
    if package is None or not package.submodule_search_locations:
        return {}
    path = Path(package.submodule_search_locations[0], "models", "auto", "modeling_auto.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes: dict[str, frozenset[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in _TABLES for t in node.targets):
            for entry in ast.walk(node.value):
                if isinstance(entry, ast.Tuple) and entry.elts and isinstance(entry.elts[0], ast.Constant):
                    names = {n.value for n in ast.walk(entry) if isinstance(n, ast.Constant)} - {entry.elts[0].value}
                    model_type = str(entry.elts[0].value)
                    classes[model_type] = classes.get(model_type, frozenset()) | {str(name) for name in names}
    return classes
