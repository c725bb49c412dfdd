"""Train the demo's model and write its folder: `python -m tests.tools.demo_model FOLDER`, in an hour of one core."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from pipelines.benchmarks.mate.wording.own import build_prompt
from tests.tools.demo_model.formats import closed_questions
from tests.tools.demo_model.network import make_model, make_tokenizer, save
from tests.tools.demo_model.questions import clip_question, questions_about
from tests.tools.demo_model.scenes import make_scenes
from tests.tools.demo_model.training import Mixture, Trainer, accuracy

_SEED = 1001
_HELD_OUT_SEED = 2002
_SHOWN_EVERY = 50
_WITH_FORMS = Mixture(pictures=5, clips=2, guesses=3)


def main() -> None:
    """Draw the scenes, train, and print what the model has learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkpoint goes")
    parser.add_argument("--scenes", type=int, default=4000)
    parser.add_argument("--cell-steps", type=int, default=1000, help="steps of the vision tower alone")
    parser.add_argument("--steps", type=int, default=2000, help="steps of the whole model")
    parser.add_argument("--form-steps", type=int, default=600, help="more steps, with closed questions of the samples")
    parser.add_argument("--held-out", type=int, default=200, help="scenes for the final figures")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--state", type=Path, help="a file for the state after each phase, and to go on from")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    scenes = make_scenes(_SEED, arguments.scenes)
    first = scenes.scenes[0]
    prompts = [build_prompt(first, group[0]) for group in questions_about(first) if group]
    tokenizer = make_tokenizer([*prompts, clip_question("first"), clip_question("last")])
    trainer = Trainer(make_model(tokenizer, _SEED), tokenizer, scenes, _SEED)
    with tempfile.TemporaryDirectory() as folder:
        closed = closed_questions(Path(folder), _SEED)
    phases = (
        ("cells", arguments.cell_steps, trainer.learn_cells(arguments.cell_steps)),
        ("questions", arguments.steps, trainer.learn_questions(arguments.steps, 1e-3, Mixture(late_share=0.4))),
        ("forms", arguments.form_steps, trainer.learn_questions(arguments.form_steps, 3e-4, _WITH_FORMS, closed)),
    )
    done = _restore(trainer, arguments.state)
    for number, (name, steps, losses) in enumerate(phases, start=1):
        if number > done:
            _follow(name, losses, steps)
            _save_state(trainer, arguments.state, number)
    held_out = make_scenes(_HELD_OUT_SEED, arguments.held_out)
    for name, white in (("pictures", False), ("white", True)):
        _print(f"held-out scenes, {name}: {accuracy(trainer, held_out, white=white)}")
    save(trainer.model, tokenizer, arguments.folder)


def _restore(trainer: Trainer, state: Path | None) -> int:
    """Load what an earlier call saved; return the number of phases that it finished."""
    if state is None or not state.exists():
        return 0
    saved = torch.load(state, weights_only=True)
    trainer.model.load_state_dict(saved["model"])
    trainer.cells.load_state_dict(saved["cells"])
    return int(saved["phases"])


def _save_state(trainer: Trainer, state: Path | None, phases: int) -> None:
    if state is not None:
        parts = {"model": trainer.model.state_dict(), "cells": trainer.cells.state_dict(), "phases": phases}
        torch.save(parts, state)


def _follow(phase: str, losses: Iterator[dict[str, float]], steps: int) -> None:
    begun, recent = time.monotonic(), []
    for step, loss in enumerate(losses, start=1):
        recent.append(loss)
        if step % _SHOWN_EVERY == 0 or step == steps:
            means = ", ".join(f"{kind} {np.mean([loss[kind] for loss in recent]):.3f}" for kind in loss)
            _print(f"{phase}: {step} of {steps}, {means}, {(time.monotonic() - begun) / step:.2f} s a step")
            recent.clear()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
