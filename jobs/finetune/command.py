"""`vlmsweep finetune`: the fine-tuned models of a paper, from data that the user has."""

from typing import Any

from jobs.finetune.options import FinetuneOptions
from jobs.shared.commands import listed
from jobs.shared.output import print_result, results_only_on_stdout


@listed("Set up", "finetune vflute --variant vf --data VFLUTE_FOLDER --out tuned")
def finetune(options: FinetuneOptions) -> int:
    """Fine-tune V-FLUTE's models with LoRA. Run the same command again to resume a training that was interrupted."""
    from jobs.finetune.progress import TrainingProgress
    from jobs.finetune.run import finetune as run_training
    from jobs.finetune.spec import build_finetune_spec

    spec = build_finetune_spec(options)
    with results_only_on_stdout():
        record = run_training(spec, TrainingProgress(quiet=options.json))
    print_result(options.json, record, *_summary(record, spec.out, spec.variant.white))
    return 0


def _summary(record: dict[str, Any], out: str, white: bool) -> list[str]:
    """Return the lines that say what was trained, and how to run it."""
    losses = record["losses"]
    best = record["best_loss"]
    chosen = (
        "no validation rows: the last step's weights"
        if best is None
        else f"weights of step {record['adapter_step']}, with the lowest validation loss {best:.4f}"
    )
    steps, examples = record["steps"], record["data"]["train"]
    setting = "no-image" if white else "zero-shot"
    command = f"vlmsweep run --models-file {out}/models.yaml --models {record['model']} --benchmarks vflute"
    return [
        f"{record['model']}: {steps} steps on {examples} examples, loss {losses[0]:.4f} -> {losses[-1]:.4f}; {chosen}",
        f"adapter: {out}/adapter   record: {out}/training.json",
        f"evaluate it with: {command} --settings {setting} --data DATA --out OUT",
    ]
