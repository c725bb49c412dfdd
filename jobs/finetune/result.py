"""The results of a fine-tuning besides its adapter: `training.json`, and the entry that `run` loads."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from jobs.finetune.records import ADAPTER, MODELS_FILE, TRAINING_FILE, ExampleCounts, FinetuneSpec, History
from models.fingerprint import resolved_revision
from pipelines.errors import UsageError
from pipelines.json_records import MalformedError, dump_checked, load_checked
from pipelines.storage.published_files import put_named
from pipelines.storage.store import Store
from pipelines.version import __version__

_LIBRARIES: Final = ("torch", "transformers", "peft", "ray")
_ENTRY_FIELDS: Final = ("revision", "trust_remote_code", "limits", "system", "chat_format", "device", "checksums")
"""Of the base model's entry that its adapter needs as well."""


def model_entry(spec: FinetuneSpec) -> dict[str, Any]:
    """Return the models file's entry of the trained model: the base model with the adapter, on `transformers`."""
    fields = spec.model.model_dump(mode="json", exclude_defaults=True)
    return {
        "engine": "transformers",
        "model": spec.model.model,
        "dtype": spec.settings.dtype,
        "adapter": f"{spec.out}/{ADAPTER}",
        **{name: fields[name] for name in _ENTRY_FIELDS if name in fields},
    }


def training_record(spec: FinetuneSpec, counts: ExampleCounts, history: History, seconds: float) -> dict[str, Any]:
    """Return the content of `training.json`."""
    return {
        "benchmark": "vflute",
        "variant": spec.variant.name,
        "model": spec.entry_name,
        "base": {"name": spec.model_name, "model": spec.model.model, "revision": resolved_revision(spec.model)},
        "settings": asdict(spec.settings),
        "memory": asdict(spec.memory),
        "data": {"vflute": spec.data, "evil": spec.evil, **asdict(counts)},
        "steps": len(history.losses),
        "adapter_step": history.best_step or len(history.losses),
        **asdict(history),
        "seconds": round(seconds, 1),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"vlmsweep": __version__, **{name: version(name) for name in _LIBRARIES}},
        "command": list(spec.command),
    }


def write_result(spec: FinetuneSpec, out: Store, record: Mapping[str, Any]) -> None:
    """Write the models file, then `training.json`, which marks the training as finished."""
    import yaml

    content = yaml.safe_dump({spec.entry_name: model_entry(spec)}, sort_keys=False).encode()
    put_named(out, MODELS_FILE, content, content)
    out.put(TRAINING_FILE, dump_checked(json.loads(json.dumps(record))))


def read_record(out: Store) -> dict[str, Any] | None:
    """Return `training.json` of a finished training, None where there is none."""
    try:
        return load_checked(out.get(TRAINING_FILE))
    except FileNotFoundError:
        return None
    except MalformedError as error:
        problem = f"{out.uri}/{TRAINING_FILE}: damaged ({error})"
        raise UsageError(f"{problem}; restore it, or delete it, and the same command trains again") from error
