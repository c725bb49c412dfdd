"""Fine-tune: copy the examples, train on Ray, write the adapter with its entry."""

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cluster.connection import connect
from jobs.finetune.checkpoints import EXAMPLES_MARK, check_examples, delete_checkpoints
from jobs.finetune.example_store import delete_examples
from jobs.finetune.prepare import prepare_examples
from jobs.finetune.ray_train import train_on_ray
from jobs.finetune.records import CHECKPOINTS, EXAMPLES, SETTINGS_FILE, FinetuneSpec, TrainingListener
from jobs.finetune.result import read_record, training_record, write_result
from models.fingerprint import answer_fingerprint
from pipelines.errors import UsageError
from pipelines.json_records import MalformedError, dump_checked, load_checked
from pipelines.storage.backend import is_remote
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store


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
