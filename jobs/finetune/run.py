"""Fine-tune: copy the examples, train on Ray, write the adapter with its entry."""

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from cluster.connection import connect
from jobs.finetune.checkpoints import (
    ADAPTER,
    CHECKPOINTS,
    EXAMPLES,
    EXAMPLES_MARK,
    MODELS_FILE,
    SETTINGS_FILE,
    TRAINING_FILE,
    ExampleCounts,
    FinetuneSpec,
    History,
    TrainingListener,
    check_examples,
    delete_checkpoints,
)
from jobs.finetune.example_store import TRAIN, VALIDATION, ExampleWriter, delete_examples, stored_counts
from jobs.finetune.ray_train import train_on_ray
from jobs.finetune.source_rows import evil_rows, vflute_rows
from models.fingerprint import answer_fingerprint, resolved_revision
from pipelines.benchmarks.vflute.source import hub_files
from pipelines.errors import SourceError, UsageError
from pipelines.ingest.source_folder import Folder
from pipelines.json_records import MalformedError, dump_checked, load_checked
from pipelines.storage.backend import is_remote
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store, put_named
from pipelines.version import __version__

_LIBRARIES: Final = ("torch", "transformers", "peft", "ray")
_ENTRY_FIELDS: Final = ("revision", "trust_remote_code", "limits", "system", "chat_format", "device", "checksums")
"""Of the base model's entry that its adapter needs as well."""


def finetune(spec: FinetuneSpec, listener: TrainingListener) -> dict[str, Any]:
    """Train, or resume a training that was interrupted, or do nothing where it is finished; return `training.json`.

    Raises:
        UsageError: the output holds a training with other settings or on other data.
        SourceError, ModelError, ClusterError, StoreError: the data, the model, the cluster or the store cannot be used.
    """
    out = Store(spec.out)
    out.check_writable()
    with run_lock(out):
        _check_settings(spec, out)
        record = read_record(out)
        if record is None:
            start = time.monotonic()
            counts = prepare_examples(spec, out, listener)
            check_examples(out, counts.fingerprint)
            with connect(spec.address) as cluster:
                listener.phase("loading the model")
                history = train_on_ray(spec, counts, cluster, listener)
            record = training_record(spec, counts, history, time.monotonic() - start)
            write_result(spec, out, record)
        else:
            _check_data(spec, record)
        delete_checkpoints(out)
        delete_examples(out)
        for folder in (CHECKPOINTS, f"{EXAMPLES}/pictures", EXAMPLES) if not is_remote(out.uri) else ():
            with contextlib.suppress(OSError):  # a user's own files in it keep it
                Path(out.uri, folder).rmdir()
    return record


def _check_data(spec: FinetuneSpec, record: Mapping[str, Any]) -> None:
    """Compare the data with those of a finished training."""
    for flag, stored, present in (
        ("--data", record["data"]["vflute"], spec.data),
        ("--evil", record["data"]["evil"], spec.evil),
    ):
        if stored != present:
            raise UsageError(
                f"{spec.out} holds a finished training on other data ({flag}: {stored} there, {present} here); give it "
                "another --out"
            )


def _check_settings(spec: FinetuneSpec, out: Store) -> None:
    """Store what decides the trained weights, or compare it with what an interrupted training stored."""
    present = {
        "variant": spec.variant.name,
        "model": answer_fingerprint(spec.model),
        **asdict(spec.settings),
        "eval_every": spec.eval_every,
    }
    present = json.loads(json.dumps(present))
    try:
        stored = load_checked(out.get(SETTINGS_FILE))
    except MalformedError as error:
        raise UsageError(
            f"{spec.out}/{SETTINGS_FILE}: damaged ({error}); delete it, and the same command resumes"
        ) from error
    except FileNotFoundError:
        present_files = [info.path for folder in (CHECKPOINTS, EXAMPLES) for info in out.list(folder)]
        if present_files and not out.exists(EXAMPLES_MARK):
            raise UsageError(
                f"{spec.out} holds files that no training wrote, such as {present_files[0]}; give an empty --out"
            ) from None
        out.put(SETTINGS_FILE, dump_checked(present))
        return
    differing = [name for name in present if stored.get(name) != present[name]]
    if differing:
        name = differing[0]
        raise UsageError(
            f"{spec.out} holds a training with other settings ({name}: {stored.get(name)} there, {present[name]} "
            "here); give it another --out, or the same settings to resume"
        )


def prepare_examples(spec: FinetuneSpec, out: Store, listener: TrainingListener) -> ExampleCounts:
    """Copy training rows, and V-FLUTE's validation rows where the folder has them; once for each output.

    Raises:
        SourceError: files are missing or unreadable, rows cannot be used, or none are left.
    """
    variant = spec.variant
    sources = {"data": spec.data, "evil": spec.evil}
    identity = {"variant": variant.name, **sources, "skip_bad_rows": spec.skip_bad_rows}
    if counts := stored_counts(out, identity):
        return counts
    delete_examples(out)
    listener.phase("reading examples")
    writer = ExampleWriter(out, listener, skip_bad_rows=spec.skip_bad_rows)
    data = Folder(spec.data) if spec.data else None
    rows = []
    if variant.vflute and data:
        rows.append(vflute_rows(data, TRAIN, white=variant.white))
    if variant.evil and spec.evil:
        rows.append(evil_rows(Folder(spec.evil)))
    numbers = {TRAIN: writer.write(TRAIN, (row for source in rows for row in source))}
    if not numbers[TRAIN]:
        raise SourceError(f"{spec.data or spec.evil}: no row that can be trained on")
    if data and hub_files(data, VALIDATION):
        numbers[VALIDATION] = writer.write(VALIDATION, vflute_rows(data, VALIDATION, white=variant.white))
    return writer.finish(numbers, identity)


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
