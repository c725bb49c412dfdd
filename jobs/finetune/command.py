"""`vlmsweep finetune`: the fine-tuned models of a paper, from data that the user has."""

from __future__ import annotations

import sys
import time
from typing import Any

from jobs.finetune.flags import FinetuneFlags
from jobs.options import takes
from jobs.output import print_error, print_json, print_line, results_only_on_stdout, write_error
from pipelines.clean_text import one_line
from pipelines.finetune.records import TrainingEvent
from pipelines.progress import span


@takes(FinetuneFlags)
def finetune(flags: FinetuneFlags) -> int:
    """Fine-tune V-FLUTE's models with LoRA. Run the same command again to resume a training that was interrupted."""
    from jobs.finetune.command import TrainingProgress
    from jobs.finetune.spec import build_finetune_spec
    from pipelines.finetune.run import finetune as run_training

    spec = build_finetune_spec(flags)
    with results_only_on_stdout():
        record = run_training(spec, TrainingProgress(quiet=flags.json))
    if flags.json:
        print_json(record)
    else:
        for line in _summary(record, spec.out, spec.variant.white):
            print_line(line)
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


_LINE_EVERY_S = 30.0  # between lines where there is no terminal


class TrainingProgress:
    """A live line on a terminal; elsewhere a line now and then, and one for each validation."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._title, self._rows = "", 0
        self._first: tuple[int, float] | None = None  # step and time of the first event
        self._shown = 0.0

    def phase(self, title: str) -> None:
        """Start a phase."""
        self._title, self._rows = title, 0
        self._write(title, permanent=True)

    def read(self, rows: int) -> None:
        """Count rows that were read."""
        self._rows += rows
        self._write(f"{self._title}: {self._rows} rows")

    def event(self, event: TrainingEvent) -> None:
        """Show a finished step or validation."""
        if self._first is None:
            self._first = event.step, time.monotonic()
        if event.is_validation:
            self._write(f"step {event.step}: validation loss {event.loss:.4f}", permanent=True)
            return
        is_last = event.step == event.total_steps
        self._write(self._step_line(event, self._first), permanent=is_last)

    def _step_line(self, event: TrainingEvent, first: tuple[int, float]) -> str:
        step, start = first
        seconds = time.monotonic() - start
        rate = (event.step - step) / seconds if seconds > 0 else 0.0
        left = f", {rate:.2f} steps/s, {span((event.total_steps - event.step) / rate)} left" if rate else ""
        return (
            f"training: step {event.step}/{event.total_steps}, epoch {event.epoch}/{event.epochs}, "
            f"loss {event.loss:.4f}{left}"
        )

    def _write(self, line: str, *, permanent: bool = False) -> None:
        """Show a line; a lasting one stays, others are replaced, or shown now and then where they cannot be."""
        if self._quiet:
            return
        line = one_line(line)
        if self._live:
            write_error(f"\r\x1b[2K{line}{chr(10) if permanent else ''}")
        elif permanent or time.monotonic() - self._shown > _LINE_EVERY_S:
            self._shown = time.monotonic()
            print_error(line)
