"""Train the demo's model and write its folder: `python -m tests.tools.demo_model FOLDER`, an hour on two idle cores."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from pipelines.benchmarks.mate.wording.own import build_prompt
from tests.tools.demo_model.network import make_model, make_tokenizer, save
from tests.tools.demo_model.questions import clip_question, questions_about
from tests.tools.demo_model.scenes import make_scenes
from tests.tools.demo_model.training import Trainer, accuracy

_SEED = 1001
_HELD_OUT_SEED = 2002
_SHOWN_EVERY = 50


def main() -> None:
    """Draw the scenes, train, and print what the model has learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkpoint goes")
    parser.add_argument("--scenes", type=int, default=4000)
    parser.add_argument("--cell-steps", type=int, default=1300, help="steps of the vision tower alone")
    parser.add_argument("--steps", type=int, default=2500, help="steps of the whole model")
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
    state = arguments.state
    if state and state.exists():
        saved = torch.load(state, weights_only=True)
        trainer.model.load_state_dict(saved["model"])
        trainer.cells.load_state_dict(saved["cells"])
    else:
        _follow("cells", trainer.learn_cells(arguments.cell_steps), arguments.cell_steps)
        if state:
            torch.save({"model": trainer.model.state_dict(), "cells": trainer.cells.state_dict()}, state)
    _follow("questions", trainer.learn_questions(arguments.steps), arguments.steps)
    held_out = make_scenes(_HELD_OUT_SEED, arguments.held_out)
    for name, white in (("pictures", False), ("white", True)):
        _print(f"held-out scenes, {name}: {accuracy(trainer, held_out, white=white)}")
    save(trainer.model, tokenizer, arguments.folder)


def _follow(phase: str, losses: Iterator[float], steps: int) -> None:
    begun, recent = time.monotonic(), []
    for step, loss in enumerate(losses, start=1):
        recent.append(loss)
        if step % _SHOWN_EVERY == 0 or step == steps:
            mean = sum(recent) / len(recent)
            _print(f"{phase}: {step} of {steps}, loss {mean:.3f}, {(time.monotonic() - begun) / step:.2f} s a step")
            recent.clear()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
