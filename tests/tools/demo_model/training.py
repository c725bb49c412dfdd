"""Two phases of training: what each part of a picture shows, then questions about pictures and clips."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.scene import COLORS, SHAPES
from pipelines.benchmarks.mate.wording.own import build_prompt
from tests.tools.demo_model.network import DIMENSIONS
from tests.tools.demo_model.questions import IGNORED, Chat, Tokens, clip_question, draw_turns, questions_about
from tests.tools.demo_model.scenes import Array, Scenes, make_clip, mirror

BATCH: Final = 8
_CLIPS: Final = 4
"""Clips in each step of the second phase, beside the pictures."""
_PATCH: Final = 14
_MEAN: Final = torch.tensor([0.48145466, 0.4578275, 0.40821073])
_STD: Final = torch.tensor([0.26862954, 0.26130258, 0.27577711])
_TURNS: Final = 8
_GUESSES: Final = 2
"""Chats of each step that are guessed, where there are closed questions."""
_CELL_SHARE: Final = 0.3
"""Weight of the first phase's loss in the second."""


ClosedQuestion: TypeAlias = tuple[str, tuple[str, ...]]
"""A prompt and its choices."""


@dataclass(slots=True)
class Schedule:
    """Learning rate of a phase: a short rise, then half a cosine down to a fiftieth."""

    peak: float
    steps: int
    rise: int = 100

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 0."""
        cosine = (1 + math.cos(math.pi * step / self.steps)) / 2
        return self.peak * min(1.0, (step + 1) / self.rise) * max(0.02, cosine)


class Trainer:
    """Trains a model on scenes; the same seed, versions and threads give the same weights."""

    def __init__(self, model: Any, tokenizer: Any, scenes: Scenes, seed: int) -> None:
        self.model = model
        self.chat = Chat(tokenizer)
        self._pad: int = tokenizer.pad_token_id
        self._scenes = scenes
        self._rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.cells = nn.Linear(DIMENSIONS.hidden, len(COLORS) + len(SHAPES) + 2)

    def learn_cells(self, steps: int) -> Iterator[float]:
        """Train the vision tower to tell color and shape of what each image token shows; yield the losses."""
        parameters = [*self.model.model.visual.parameters(), *self.cells.parameters()]
        optimizer = torch.optim.AdamW(parameters, weight_decay=0.02, betas=(0.9, 0.98))
        schedule = Schedule(peak=1.5e-3, steps=steps)
        for step in range(steps):
            pictures, classes, _ = self._draw()
            with torch.autocast("cpu", torch.bfloat16):
                features = self._features(*patches(pictures[:, None]))
            yield _descend(optimizer, {0: schedule.rate(step)}, self._cell_loss(features, classes))

    def learn_questions(
        self, steps: int, peak: float, *, late_share: float, closed: Sequence[ClosedQuestion] = ()
    ) -> Iterator[float]:
        """Train all parts to answer, the vision tower at a fifth of the rate; yield the losses of the answers.

        Args:
            steps: of `BATCH` pictures and some clips each.
            peak: the highest learning rate.
            late_share: share of the last steps whose chats are whole prompts half of the time; before, a seventh.
            closed: questions that the model learns to guess at, two in each step.
        """
        vision = [*self.model.model.visual.parameters(), *self.cells.parameters()]
        language = [value for name, value in self.model.named_parameters() if "visual" not in name]
        optimizer = torch.optim.AdamW([{"params": language}, {"params": vision}], weight_decay=0.02, betas=(0.9, 0.98))
        schedule = Schedule(peak=peak, steps=steps)
        for step in range(steps):
            full_share = 0.15 if step < (1 - late_share) * steps else 0.5
            pictures, classes, places = self._draw()
            chats = [self._chat(place, full_share) for place in places]
            if closed:
                chats[-_GUESSES:] = [self._guess(closed) for _ in range(_GUESSES)]
            clips, clip_chats = self._draw_clips()
            with torch.autocast("cpu", torch.bfloat16):
                answers, features = self.answer_loss("image", pictures[:, None], chats)
                about_clips, _ = self.answer_loss("video", clips, clip_chats)
            loss = answers + _CELL_SHARE * self._cell_loss(features, classes) + about_clips * _CLIPS / BATCH
            rate = schedule.rate(step)
            _descend(optimizer, {0: rate, 1: rate / 5}, loss)
            yield float(answers.detach())

    def answer_loss(self, medium: str, media: Array, chats: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """Return the mean loss of the learned tokens, and the features of the media; uint8 [batch, frames, h, w, 3]."""
        logits, labels, features = self.logits(medium, media, chats)
        return nn.functional.cross_entropy(logits.float(), labels), features

    def logits(self, medium: str, media: Array, chats: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits [learned tokens, vocabulary], the tokens that they should be, and the media's features."""
        core = self.model.model
        pixels, grid = patches(media)
        longest = max(len(chat.ids) for chat in chats)
        ids = torch.tensor([chat.ids + [self._pad] * (longest - len(chat.ids)) for chat in chats])
        labels = torch.tensor([chat.labels + [IGNORED] * (longest - len(chat.ids)) for chat in chats])
        pad = {"image": core.config.image_token_id, "video": core.config.video_token_id}[medium]
        shown = ids == pad
        features = self._features(pixels, grid)
        embedded = core.language_model.embed_tokens(ids)
        embedded = embedded.masked_scatter(shown[..., None].expand_as(embedded), features.to(embedded.dtype))
        kinds = shown.int() * {"image": 1, "video": 2}[medium]
        positions, _ = core.get_rope_index(ids, mm_token_type_ids=kinds, **{f"{medium}_grid_thw": grid})
        hidden = core.language_model(inputs_embeds=embedded, position_ids=positions, use_cache=False).last_hidden_state
        learned = labels[:, 1:] != IGNORED
        return self.model.lm_head(hidden[:, :-1][learned]), labels[:, 1:][learned], features

    def _features(self, pixels: Tensor, grid: Tensor) -> Tensor:
        features: Tensor = self.model.model.visual(pixels, grid_thw=grid).pooler_output
        return features

    def _draw(self) -> tuple[Array, Array, list[int]]:
        """Draw scenes, half of them mirrored; return pictures, classes of their cells, and which they are."""
        places = [int(place) for place in self._rng.integers(0, len(self._scenes.scenes), BATCH)]
        pairs = [(self._scenes.pictures[place], self._scenes.cells[place]) for place in places]
        pairs = [mirror(*pair) if self._rng.random() < 0.5 else pair for pair in pairs]
        return np.stack([picture for picture, _ in pairs]), np.stack([cells for _, cells in pairs]), places

    def _chat(self, place: int, full_share: float) -> Tokens:
        turns = draw_turns(self._rng, self._scenes.scenes[place], full_share=full_share, most=_TURNS)
        return self.chat.about("image", turns)

    def _guess(self, closed: Sequence[ClosedQuestion]) -> Tokens:
        prompt, choices = closed[int(self._rng.integers(len(closed)))]
        return self.chat.about("image", [(prompt, choices[int(self._rng.integers(len(choices)))])])

    def _draw_clips(self) -> tuple[Array, list[Tokens]]:
        drawn = [make_clip(self._rng) for _ in range(_CLIPS)]
        chats = []
        for _, first, last in drawn:
            turns = [(clip_question("first"), gold_json(first)), (clip_question("last"), gold_json(last))]
            chats.append(self.chat.about("video", turns if self._rng.random() < 0.5 else turns[::-1]))
        return np.stack([clip for clip, _, _ in drawn]), chats

    def _cell_loss(self, features: Tensor, classes: Array) -> Tensor:
        """Return the loss of colors plus that of shapes; the floor counts a tenth."""
        out, goal = self.cells(features.float()), torch.from_numpy(classes).reshape(-1, 2)
        colors, shapes = out.split([len(COLORS) + 1, len(SHAPES) + 1], dim=-1)
        losses = [
            nn.functional.cross_entropy(part, goal[:, column], torch.tensor([1.0] * (part.shape[1] - 1) + [0.1]))
            for column, part in enumerate((colors, shapes))
        ]
        return losses[0] + losses[1]


def patches(media: Array) -> tuple[Tensor, Tensor]:
    """Cut media into patches as `Qwen2VLImageProcessor` does: [patches, 1176] and the grid of each medium.

    Args:
        media: uint8 [batch, frames, height, width, 3]; a single frame is shown twice.
    """
    frames = torch.from_numpy(np.ascontiguousarray(media)).float() / 255
    frames = ((frames - _MEAN) / _STD).permute(0, 1, 4, 2, 3)
    if frames.shape[1] == 1:
        frames = frames.expand(-1, 2, -1, -1, -1)
    batch, count, channels, height, width = frames.shape
    rows, columns = height // _PATCH, width // _PATCH
    tiles = frames.reshape(batch, count // 2, 2, channels, rows // 2, 2, _PATCH, columns // 2, 2, _PATCH)
    tiles = tiles.permute(0, 1, 4, 7, 5, 8, 3, 2, 6, 9)
    return tiles.reshape(-1, channels * 2 * _PATCH * _PATCH), torch.tensor([[count // 2, rows, columns]] * batch)


def _descend(optimizer: torch.optim.Optimizer, rates: dict[int, float], loss: Tensor) -> float:
    for place, rate in rates.items():
        optimizer.param_groups[place]["lr"] = rate
    optimizer.zero_grad()
    loss.backward()
    for group in optimizer.param_groups:
        nn.utils.clip_grad_norm_(group["params"], 1.0)
    optimizer.step()
    return float(loss.detach())


def accuracy(trainer: Trainer, scenes: Scenes, *, white: bool = False) -> dict[str, tuple[int, int]]:
    """Return (right, questions) by target attribute: one question a scene and target, whole prompts, first tokens."""
    counts = {"color": [0, 0], "shape": [0, 0]}
    for place, scene in enumerate(scenes.scenes):
        picture = np.full_like(scenes.pictures[place], 255) if white else scenes.pictures[place]
        for group in questions_about(scene):
            if not group:
                continue
            question = group[place % len(group)]
            chat = trainer.chat.about("image", [(build_prompt(scene, question), gold_json(question.gold(scene)))])
            with torch.inference_mode():
                logits, labels, _ = trainer.logits("image", picture[None, None], [chat])
            count = counts[question.target_attribute]
            count[0] += bool((logits.argmax(-1) == labels).all())
            count[1] += 1
    return {target: (right, total) for target, (right, total) in counts.items()}
