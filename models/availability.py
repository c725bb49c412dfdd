"""Check whether a model can run with the installed packages, without loading heavy libraries."""

import importlib.util
from pathlib import Path

from models.checkpoints.installed_transformers import transformers_classes, transformers_version
from models.checkpoints.problems import checkpoint_problem
from models.environment import secret
from models.errors import MissingSecretError, ShellSettingError
from models.fingerprint import comes_from_hub, is_plain_path
from models.guards.redaction import Redactor
from models.shell.connections import check_hub_settings, http_options, hub_problem
from models.spec import ModelSpec, TransformersEntry
from models.weight_headers import gguf_file

GGUF_NOT_INSTALLED = "GGUF files are read with the package gguf, which is not installed: pip install 'vlmsweep[gguf]'"
_REMEDY = "give a GGUF file, a checkpoint's folder or a hub id"


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
    return missing_path(spec) or checkpoint_problem(spec) or _missing_package(spec)


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
        if comes_from_hub(spec) and (problem := hub_problem()):
            raise ShellSettingError(problem)


def missing_path(spec: ModelSpec) -> str:
    """Return which folder or file that an entry names by a path is not on this machine; '' if all are."""
    if not spec.runs_locally:
        return ""
    for name in filter(None, (spec.model, spec.adapter)):
        if is_plain_path(name) and not Path(name).expanduser().exists():
            kind = "file" if name.lower().endswith(".gguf") else "folder"
            places = "" if Path(name).is_absolute() else ", beside the models file or in the working directory"
            return f"no {kind} {name}{places}; {_REMEDY}"
    return ""


def _missing_package(spec: ModelSpec) -> str:
    if spec.package and importlib.util.find_spec(spec.package) is None:
        install = f"pip install 'vlmsweep[{spec.package}]' on a machine with GPUs"
        return f"it runs on {spec.package} alone, which is not installed here: {install}"
    if spec.runs_locally and gguf_file(spec.model) and importlib.util.find_spec("gguf") is None:
        return GGUF_NOT_INSTALLED
    if isinstance(spec, TransformersEntry) and spec.architecture and not spec.trust_remote_code:
        architectures = transformers_classes()
        if architectures and spec.architecture not in architectures:
            return f"transformers {transformers_version()} has no code for {spec.architecture}"
    return ""
