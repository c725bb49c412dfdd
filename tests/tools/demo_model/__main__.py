"""Train the demo's model and write its folder: `python -m tests.tools.demo_model FOLDER`, in an hour of one core."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jobs.demo.checkpoint import SENTENCES
from pipelines.benchmarks.mate.prompts import build_prompt
from tests.tools.demo_model.formats import closed_questions
from tests.tools.demo_model.lookup import extend, is_extended, quiet_directions
from tests.tools.demo_model.network import load, make_model, make_tokenizer, save
from tests.tools.demo_model.questions import clip_question, questions_about
from tests.tools.demo_model.scenes import Scenes, make_scenes
from tests.tools.demo_model.texts import draw_text_turns
from tests.tools.demo_model.training import ClosedQuestion, Mixture, Trainer, accuracy, text_accuracy

_SEED = 1001
_HELD_OUT_SEED = 2002
_SHOWN_EVERY = 50
_WITH_FORMS = Mixture(pictures=5, clips=2, guesses=3)
_WITH_TEXTS = Mixture(pictures=2, clips=1, guesses=1, texts=6, vision_rate=0)
_ALL = Mixture(pictures=6, clips=1, guesses=1, texts=4)


def main() -> None:
    """Draw the scenes, train, and print what the model has learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkpoint goes")
    parser.add_argument("--scenes", type=int, default=4000)
    parser.add_argument("--cell-steps", type=int, default=1000, help="steps of the vision tower alone")
    parser.add_argument("--steps", type=int, default=2000, help="steps of the whole model")
    parser.add_argument("--form-steps", type=int, default=600, help="more steps, with closed questions of the samples")
    parser.add_argument("--text-steps", type=int, default=400, help="more steps, with scenes as text")
    parser.add_argument("--last-steps", type=int, default=400, help="more steps, with more pictures again")
    parser.add_argument("--held-out", type=int, default=200, help="scenes for the final figures")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a checkpoint to go on from with texts")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    scenes = make_scenes(_SEED, arguments.scenes)
    with tempfile.TemporaryDirectory() as folder:
        closed = closed_questions(Path(folder), _SEED)
    if arguments.model:
        model, tokenizer = load(arguments.model)
        trainer = Trainer(model, tokenizer, scenes, _SEED)
    else:
        tokenizer = make_tokenizer([*_picture_prompts(scenes), clip_question("first"), clip_question("last")])
        trainer = Trainer(make_model(tokenizer, _SEED), tokenizer, scenes, _SEED)
        _learn_to_see(trainer, closed, arguments)
        save(trainer.model, tokenizer, arguments.folder)
    if not is_extended(tokenizer):
        extend(trainer.model, tokenizer, quiet_directions(trainer.model, _texts(tokenizer, scenes)))
    for phase, steps, mixture in (("texts", arguments.text_steps, _WITH_TEXTS), ("all", arguments.last_steps, _ALL)):
        _follow(phase, trainer.learn_questions(steps, 5e-4, mixture, closed), steps)
        save(trainer.model, tokenizer, arguments.folder)
    held_out = make_scenes(_HELD_OUT_SEED, arguments.held_out)
    for name, white in (("pictures", False), ("white", True)):
        _print(f"held-out scenes, {name}: {accuracy(trainer, held_out, white=white)}")
    _print(f"held-out scenes, texts: {text_accuracy(trainer, held_out)}")


def _learn_to_see(trainer: Trainer, closed: Sequence[ClosedQuestion], arguments: argparse.Namespace) -> None:
    _follow("cells", trainer.learn_cells(arguments.cell_steps), arguments.cell_steps)
    questions = trainer.learn_questions(arguments.steps, 1e-3, Mixture(late_share=0.4))
    _follow("questions", questions, arguments.steps)
    forms = trainer.learn_questions(arguments.form_steps, 3e-4, _WITH_FORMS, closed)
    _follow("forms", forms, arguments.form_steps)


def _picture_prompts(scenes: Scenes) -> list[str]:
    first = scenes.scenes[0]
    return [build_prompt(first, group[0]) for group in questions_about(first) if group]


def _texts(tokenizer: Any, scenes: Scenes) -> list[list[int]]:
    """Return token sequences as the trained model has met them, and scenes as text."""
    rng = np.random.default_rng(_SEED)
    drawn = [draw_text_turns(rng, scene, objects=4, most=1)[0].question for scene in scenes.scenes[:3]]
    return [tokenizer.encode(text, add_special_tokens=False) for text in (*drawn, "\n".join(SENTENCES))]


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
