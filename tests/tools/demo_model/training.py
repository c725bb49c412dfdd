"""Phases of training: the parts of a picture, questions about pictures and clips, closed questions to guess at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.benchmarks.mate.answers import gold_json
from pipelines.benchmarks.mate.prompts import build_prompt
from pipelines.benchmarks.mate.scene import COLORS, SHAPES
from tests.tools.demo_model.network import DIMENSIONS
from tests.tools.demo_model.questions import (
    IGNORED,
    Chat,
    Tokens,
    clip_question,
    draw_turns,
    questions_about,
)
from tests.tools.demo_model.scenes import CELL, Array, Scenes, make_clip, make_noise, mirror
from tests.tools.demo_model.texts import draw_question, draw_text_turns, lookup_loss, write_chat

_BATCH: Final = 8
_PATCH: Final = 14
_MEAN: Final = torch.tensor([0.48145466, 0.4578275, 0.40821073])
_STD: Final = torch.tensor([0.26862954, 0.26130258, 0.27577711])
_TURNS: Final = 8
_TEXT_TURNS: Final = 6
_FEWEST_OBJECTS, _MOST_OBJECTS = 3, 10
_WHITE_SHARE: Final = 0.2
"""Share of the steps whose texts follow a white picture, as they do in the benchmark."""
_LOOKUP_SHARE: Final = 0.3
"""Weight of what the looking up head attends to in the loss of texts."""
_CELL_SHARE: Final = 0.3
"""Weight of the first phase's loss in the others."""


ClosedQuestion: TypeAlias = tuple[str, tuple[str, ...]]
"""A prompt and its choices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Chats of a step, and the share of the last steps whose chats about pictures are whole prompts half of the time.

    Before them a seventh are.
    """

    pictures: int = _BATCH
    clips: int = 4
    guesses: int = 0
    texts: int = 0
    late_share: float = 1.0
    vision_rate: float = 0.2  # of the vision tower, in terms of the others' learning rate


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
        self._tokenizer = tokenizer
        self._pad: int = tokenizer.pad_token_id
        self._scenes = scenes
        self._rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.cells = nn.Linear(DIMENSIONS.hidden, len(COLORS) + len(SHAPES) + 2)

    def learn_cells(self, steps: int) -> Iterator[dict[str, float]]:
        """Train the vision tower to tell color and shape of what each image token shows; yield the losses."""
        parameters = [*self.model.model.visual.parameters(), *self.cells.parameters()]
        optimizer = torch.optim.AdamW(parameters, weight_decay=0.02, betas=(0.9, 0.98))
        schedule = Schedule(peak=1.5e-3, steps=steps)
        for step in range(steps):
            pictures, classes, _ = self._draw(_BATCH)
            with torch.autocast("cpu", torch.bfloat16):
                features = self._features(*patches(pictures[:, None]))
            yield {"cells": _descend(optimizer, {0: schedule.rate(step)}, self._cell_loss(features, classes))}

    def learn_questions(
        self, steps: int, peak: float, mixture: Mixture, closed: Sequence[ClosedQuestion] = ()
    ) -> Iterator[dict[str, float]]:
        """Train all parts to answer; yield the losses of each step by kind.

        Args:
            steps: of the chats of `mixture` each.
            peak: the highest learning rate.
            mixture: what a step holds.
            closed: the questions of its guesses.
        """
        self.model.model.visual.requires_grad_(mixture.vision_rate > 0)
        vision = [*self.model.model.visual.parameters(), *self.cells.parameters()]
        language = [value for name, value in self.model.named_parameters() if "visual" not in name]
        optimizer = torch.optim.AdamW([{"params": language}, {"params": vision}], weight_decay=0.02, betas=(0.9, 0.98))
        schedule = Schedule(peak=peak, steps=steps, rise=min(100, 1 + steps // 10))
        for step in range(steps):
            full_share = 0.15 if step < (1 - mixture.late_share) * steps else 0.5
            pictures, classes, places = self._draw(mixture.pictures)
            chats = [self._chat(place, full_share) for place in places]
            with torch.autocast("cpu", torch.bfloat16):
                answers, features = self.answer_loss("image", pictures[:, None], chats)
                losses = {"pictures": answers, "clips": self.answer_loss("video", *self._draw_clips(mixture.clips))[0]}
                if mixture.guesses:
                    losses["guesses"] = self._guess_loss(closed, mixture.guesses)
                if mixture.texts:
                    losses["texts"] = self._text_loss(mixture.texts)
            weights = {"pictures": 1.0, "clips": 0.5, "guesses": 0.5, "texts": 1.0}
            loss = sum((weights[kind] * value for kind, value in losses.items()), start=torch.zeros(()))
            if mixture.vision_rate:
                loss = loss + _CELL_SHARE * self._cell_loss(features, classes)
            rate = schedule.rate(step)
            _descend(optimizer, {0: rate, 1: mixture.vision_rate * rate}, loss)
            yield {kind: float(value.detach()) for kind, value in losses.items()}

    def answer_loss(self, medium: str, media: Array, chats: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """Return the mean loss of the learned tokens, and the features of the media; uint8 [batch, frames, h, w, 3]."""
        logits, labels, features = self.logits(medium, media, chats)
        return nn.functional.cross_entropy(logits.float(), labels), features

    def logits(self, medium: str, media: Array, chats: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits [learned tokens, vocabulary], the tokens that they should be, and the media's features."""
        core = self.model.model
        pixels, grid = patches(media)
        ids, labels = self._pad_right(chats)
        pad = {"image": core.config.image_token_id, "video": core.config.video_token_id}[medium]
        shown = ids == pad
        features = self._features(pixels, grid)
        embedded = core.language_model.embed_tokens(ids)
        embedded = embedded.masked_scatter(shown[..., None].expand_as(embedded), features.to(embedded.dtype))
        kinds = shown.int() * {"image": 1, "video": 2}[medium]
        positions, _ = core.get_rope_index(ids, mm_token_type_ids=kinds, **{f"{medium}_grid_thw": grid})
        hidden = core.language_model(inputs_embeds=embedded, position_ids=positions, use_cache=False).last_hidden_state
        return *self._learned(hidden, labels), features

    def _pad_right(self, chats: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        longest = max(len(chat.ids) for chat in chats)
        ids = torch.tensor([chat.ids + [self._pad] * (longest - len(chat.ids)) for chat in chats])
        return ids, torch.tensor([chat.labels + [IGNORED] * (longest - len(chat.ids)) for chat in chats])

    def _learned(self, hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits before each learned token, and these tokens."""
        learned = labels[:, 1:] != IGNORED
        return self.model.lm_head(hidden[:, :-1][learned]), labels[:, 1:][learned]

    def _features(self, pixels: Tensor, grid: Tensor) -> Tensor:
        features: Tensor = self.model.model.visual(pixels, grid_thw=grid).pooler_output
        return features

    def _draw(self, count: int) -> tuple[Array, Array, list[int]]:
        """Draw scenes, half of them mirrored; return pictures, classes of their cells, and which they are."""
        places = [int(place) for place in self._rng.integers(0, len(self._scenes.scenes), count)]
        pairs = [(self._scenes.pictures[place], self._scenes.cells[place]) for place in places]
        pairs = [mirror(*pair) if self._rng.random() < 0.5 else pair for pair in pairs]
        return np.stack([picture for picture, _ in pairs]), np.stack([cells for _, cells in pairs]), places

    def _chat(self, place: int, full_share: float) -> Tokens:
        turns = draw_turns(self._rng, self._scenes.scenes[place], full_share=full_share, most=_TURNS)
        return self.chat.about("image", turns)

    def _guess_loss(self, closed: Sequence[ClosedQuestion], count: int) -> Tensor:
        """Return the loss of random answers in the right form, half of the time after clips of any length."""
        drawn = [closed[int(self._rng.integers(len(closed)))] for _ in range(count)]
        turns = [(prompt, choices[self._rng.integers(len(choices))]) for prompt, choices in drawn]
        if self._rng.random() < 0.5:
            pictures, _, _ = self._draw(count)
            return self.answer_loss("image", pictures[:, None], [self.chat.about("image", [turn]) for turn in turns])[0]
        clips = make_noise(self._rng, count)
        tokens = clips[0, ::2, ::CELL, ::CELL, 0].size
        return self.answer_loss("video", clips, [self.chat.about("video", [turn], tokens) for turn in turns])[0]

    def _text_loss(self, count: int) -> Tensor:
        """Return the loss of answers about scenes given as text, all answers alike important whatever their length."""
        objects = int(self._rng.integers(_FEWEST_OBJECTS, _MOST_OBJECTS + 1))
        places = self._rng.integers(len(self._scenes.scenes), size=count)
        medium = "image" if self._rng.random() < _WHITE_SHARE else "text"
        chats = []
        for place in places:
            turns = draw_text_turns(self._rng, self._scenes.scenes[place], objects=objects, most=_TEXT_TURNS)
            chats.append(write_chat(self.chat, self._tokenizer, turns, medium))
        layer, seen = self.model.model.language_model.layers[-1].self_attn, {}
        hook = layer.register_forward_pre_hook(lambda _module, _args, named: seen.update(named), with_kwargs=True)
        logits, learned, labels = self.text_logits([chat.tokens for chat in chats], medium)
        hook.remove()
        sources = torch.tensor([source for chat in chats for source in chat.sources])
        weights = torch.tensor([weight for chat in chats for weight in chat.weights])
        losses = nn.functional.cross_entropy(logits.float(), learned, reduction="none")
        looked_up = lookup_loss(layer, seen["hidden_states"], seen["position_embeddings"], labels, sources)
        return (losses * weights).sum() / weights.sum() + _LOOKUP_SHARE * looked_up

    def text_logits(self, chats: Sequence[Tokens], medium: str = "text") -> tuple[Tensor, Tensor, Tensor]:
        """Return logits and what they should be, as `logits` does, and the labels; a medium is a white picture."""
        ids, labels = self._pad_right(chats)
        if medium == "image":
            white = np.full((len(chats), 1, *self._scenes.pictures.shape[1:]), 255, np.uint8)
            return *self.logits(medium, white, chats)[:2], labels
        core = self.model.model.language_model
        positions = torch.arange(ids.shape[1])[None, None].expand(3, len(ids), -1)
        hidden = core(inputs_embeds=core.embed_tokens(ids), position_ids=positions, use_cache=False).last_hidden_state
        return *self._learned(hidden, labels), labels

    def _draw_clips(self, count: int) -> tuple[Array, list[Tokens]]:
        drawn = [make_clip(self._rng) for _ in range(count)]
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
    """Return (right, questions) of `img2img` by target attribute: one question a scene and target, whole prompts."""
    counts = {"color": [0, 0], "shape": [0, 0]}
    for place, scene in enumerate(scenes.scenes):
        picture = np.full_like(scenes.pictures[place], 255) if white else scenes.pictures[place]
        for group in questions_about(scene):
            if not group:
                continue
            question = group[place % len(group)]
            count = counts[question.target_attribute]
            count[0] += _is_right(trainer, picture, build_prompt(scene, question), gold_json(question.gold(scene)))
            count[1] += 1
    return {target: (right, total) for target, (right, total) in counts.items()}


def text_accuracy(trainer: Trainer, scenes: Scenes) -> dict[str, tuple[int, int]]:
    """Return (right, questions) of `txt2txt` by target: one question a scene, whole prompts, white pictures."""
    rng = np.random.default_rng(0)
    white = np.full_like(scenes.pictures[0], 255)
    counts: dict[str, list[int]] = {}
    for scene in scenes.scenes:
        question = draw_question(rng, scene)
        count = counts.setdefault(question.target_attribute, [0, 0])
        count[0] += _is_right(trainer, white, build_prompt(scene, question), gold_json(question.gold(scene)))
        count[1] += 1
    return {target: (right, total) for target, (right, total) in counts.items()}


def _is_right(trainer: Trainer, picture: Array, prompt: str, answer: str) -> bool:
    """Tell whether greedy decoding gives the answer: each of its tokens is the likeliest after those before it."""
    with torch.inference_mode():
        logits, labels, _ = trainer.logits(
            "image", picture[None, None], [trainer.chat.about("image", [(prompt, answer)])]
        )
    return bool((logits.argmax(-1) == labels).all())
