"""Copy the examples of a variant into the output."""

from jobs.finetune.example_store import TRAIN, VALIDATION, ExampleWriter, delete_examples, stored_counts
from jobs.finetune.records import ExampleCounts, FinetuneSpec, TrainingListener
from jobs.finetune.source_rows import evil_rows, vflute_rows
from pipelines.benchmarks.vflute.source_hub import hub_files
from pipelines.errors import SourceError
from pipelines.ingest.source_folder import Folder
from pipelines.storage.store import Store


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
