"""Reference for the `transformers` engine: one prompt at a time by processor and `generate`, no product code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

from models.engines.transformers.engine import TransformersEngine
from models.engines.transformers.sampling import GeneratedTokens
from models.messages import Answer, Call, CallReply, Frames, Generation, Media, Text, user
from models.spec import ModelSpec

ROUNDING = 2e-4
"""The two best logits may swap by float32 rounding if closer than this; their deviation is about 1."""


def _pixels(frames: int, seed: int, height: int = 60, width: int = 90) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)


def _clip(frames: int, seed: int) -> Frames:
    total = 750
    indices = [j * (total - 1) // max(1, frames - 1) for j in range(frames)]
    return Frames(pixels=_pixels(frames, seed), seconds=tuple(i / 25 for i in indices), fps=25.0, total_frames=total)


_PAIRED_FRAMES = ("Qwen3VLVideoProcessor", "Glm4vVideoProcessor")
PICTURE = Media("image", "1" * 64)
OTHER = Media("image", "2" * 64)
LARGE = Media("image", "4" * 64)
CLIP = Media("video", "3" * 64, 32)
SHORT_CLIP = Media("video", "3" * 64, 6)
FIRST_FRAME = Media("video", "3" * 64, 1)
QUICK_CLIP = Media("video", "5" * 64, 6)
"""A quarter of a second: its moments take fewer positions than its height and width."""
MEDIA: dict[Media, Frames] = {
    QUICK_CLIP: Frames(pixels=_pixels(6, 5), seconds=tuple(i / 25 for i in range(6)), fps=25.0, total_frames=6),
    PICTURE: Frames(pixels=_pixels(1, 1)),
    OTHER: Frames(pixels=_pixels(1, 2, 80, 64)),
    LARGE: Frames(pixels=_pixels(1, 9, 140, 200)),
    CLIP: _clip(32, 3),
    SHORT_CLIP: _clip(6, 3),
    FIRST_FRAME: _clip(1, 4),
}

QUESTIONS = (
    "Domanda: chi entra nella stanza? Risposta:",
    "Rispondi soltanto con la lettera. A) Il gatto dorme sul divano B) Il cane corre verso il portone. Risposta:",
    "Perché?",
    "Quanto dura l'azione? Dura circa dieci secondi, forse meno di mezzo minuto. E poi che cosa succede alla fine?",
    "Rispondi soltanto con la lettera. A) Nella scena ci sono 2 ombrelli B) Nella scena non ci sono. Risposta:",
)


def calls_about(
    *media: tuple[Media, ...],
    limits: tuple[int, ...] = (1, 16, 64),
    temperature: float = 0.0,
    num_beams: int = 1,
) -> list[Call]:
    """Return every question about every tuple of media, with limits that differ within a group."""
    calls: list[Call] = []
    for items in media:
        for number, question in enumerate(QUESTIONS):
            generation = Generation(
                max_new_tokens=limits[number % len(limits)], temperature=temperature, num_beams=num_beams
            )
            call_id = f"{len(calls)}"
            calls.append(Call(call_id=call_id, turns=(user(*items, question),), generation=generation))
    return calls


@dataclass(slots=True)
class ReferenceModel:
    """A checkpoint that answers one prompt at a time."""

    folder: Path
    dtype: torch.dtype = torch.float32
    model: Any = None
    processor: Any = None
    tokenizer: Any = None
    takes_video: bool = False
    images_kwargs: dict[str, Any] = field(default_factory=dict)
    videos_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.folder / "processor_config.json").is_file():
            phi = AutoConfig.from_pretrained(self.folder).model_type == "phi4_multimodal"
            auto_class = AutoModelForCausalLM if phi else AutoModelForImageTextToText
            self.model = auto_class.from_pretrained(self.folder, dtype=self.dtype).eval()
            self.processor = AutoProcessor.from_pretrained(self.folder)
            self.tokenizer = self.processor.tokenizer
            has_video = getattr(self.processor, "video_processor", None) is not None
            self.takes_video = has_video and "video" in self.processor.chat_template
        else:
            self.model = AutoModelForCausalLM.from_pretrained(self.folder, dtype=self.dtype).eval()
            self.tokenizer = AutoTokenizer.from_pretrained(self.folder)

    def answer(self, call: Call) -> tuple[str, list[float]]:
        """Return the answer, and for each of its tokens the gap between the two best logits."""
        ids, gaps = self.generate(call)
        return self.tokenizer.decode(ids, skip_special_tokens=True), gaps

    def generate(self, call: Call) -> tuple[list[int], list[float]]:
        """Return the answer's tokens without an end token, and the gaps including the end token's."""
        inputs = {
            name: tensor.to(self.dtype) if name.startswith("pixel_values") and tensor.is_floating_point() else tensor
            for name, tensor in self.inputs(call).items()
        }
        model = self.model
        if model.config.model_type in ("blip-2", "instructblip") and "pixel_values" not in inputs:
            model = model.language_model
            inputs = {name: tensor for name, tensor in inputs.items() if not name.startswith("qformer")}
        with torch.inference_mode():
            out = model.generate(
                **inputs,
                max_new_tokens=call.generation.max_new_tokens,
                num_beams=call.generation.num_beams,
                do_sample=False,
                repetition_penalty=1.0,
                return_dict_in_generate=True,
                output_logits=True,
            )
        prompt = 1 if model.config.get_text_config().is_encoder_decoder else inputs["input_ids"].shape[1]
        ids = out.sequences[0, prompt:].tolist()
        ends = self.model.generation_config.eos_token_id
        if ids[-1] in (ends if isinstance(ends, list) else [ends]):
            ids.pop()
        gaps = [float(best[0] - best[1]) for best in (logits[0].topk(2).values for logits in out.logits)]
        return ids, gaps

    def _text(self, messages: list[dict[str, Any]]) -> str:
        """Render the chat template; two models have none and take one turn here."""
        if self.processor.chat_template:
            return str(self.processor.apply_chat_template(messages, add_generation_prompt=True))
        if self.tokenizer.chat_template:
            for message in messages:
                message["content"] = "".join(
                    part.get("text", self.processor.image_token) for part in message["content"]
                )
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        text = "".join(part["text"] for part in messages[0]["content"] if part["type"] == "text")
        return f"Question: {text} Answer:" if self.model.config.model_type == "blip-2" else text

    def inputs(self, call: Call) -> Mapping[str, torch.Tensor]:
        """Return the model's inputs for one call."""
        images: list[Image.Image] = []
        videos: list[np.ndarray] = []
        notes: list[dict[str, Any]] = []
        messages: list[dict[str, Any]] = []
        for turn in call.turns:
            content: list[dict[str, str]] = []
            for part in turn.parts:
                if isinstance(part, Text):
                    content.append({"type": "text", "text": part.text})
                    continue
                assert isinstance(part, Media)
                frames = MEDIA[part]
                if part.kind == "video" and self.takes_video:
                    content.append({"type": "video"})
                    indices = [round(second * frames.fps) for second in frames.seconds]
                    # These processors pad odd clips with their last frame, but reject a single frame.
                    repeats = len(indices) == 1 and type(self.processor.video_processor).__name__ in _PAIRED_FRAMES
                    videos.append(np.repeat(frames.pixels, 1 + repeats, axis=0))
                    indices *= 1 + repeats
                    notes.append(
                        {
                            "total_num_frames": frames.total_frames,
                            "fps": frames.fps,
                            "duration": frames.total_frames / frames.fps,
                            "frames_indices": indices,
                        }
                    )
                else:
                    content.extend([{"type": "image"}] * len(frames.pixels))
                    images.extend(Image.fromarray(frame) for frame in frames.pixels)
            messages.append({"role": turn.role, "content": content})
        if self.processor is None:
            for message in messages:
                message["content"] = "".join(part["text"] for part in message["content"])
            return dict(
                self.tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
                )
            )
        text = self._text(messages)
        arguments: dict[str, Any] = {}
        if images:
            arguments |= {"images": [images], "images_kwargs": self.images_kwargs}
        if videos:
            kwargs = {"video_metadata": notes, "do_sample_frames": False, "input_data_format": "channels_last"}
            if hasattr(self.processor.video_processor, "cap_pixels_per_frame"):
                kwargs["cap_pixels_per_frame"] = True
            if type(self.processor).__name__ == "MuseGlimmerProcessor":
                kwargs["return_metadata"] = True  # its replacement of the placeholder reads the times there
            arguments |= {"videos": [videos], "videos_kwargs": kwargs | self.videos_kwargs}
        has_bos = self.tokenizer.bos_token is not None and text.startswith(self.tokenizer.bos_token)
        text_kwargs = {"add_special_tokens": not has_bos}
        inputs = dict(self.processor(text=[text], return_tensors="pt", text_kwargs=text_kwargs, **arguments))
        inputs.pop("video_metadata", None)
        return inputs


def engine_of(folder: Path, *, padded: bool = False, **spec: Any) -> TransformersEngine:
    """Build the engine on the CPU; `padded` turns prefix sharing off."""
    engine = TransformersEngine(ModelSpec(engine="transformers", model=str(folder), device="cpu", **spec))
    if padded:
        engine._stop_sharing("the test turns it off")
    return engine


def texts(replies: Sequence[CallReply]) -> dict[str, str]:
    """Return texts by call id; assert that there is no failure."""
    by_call = {}
    for reply in replies:
        assert isinstance(reply.outcome, Answer), (reply.call_id, reply.outcome)
        by_call[reply.call_id] = reply.outcome.text
    return by_call


def near_ties(actual: Mapping[str, str], expected: Mapping[str, tuple[str, list[float]]]) -> list[str]:
    """Return calls that differ from the reference where two logits were nearly equal; assert no other difference."""
    assert set(actual) == set(expected)
    ties = []
    for call_id, text in actual.items():
        reference, gaps = expected[call_id]
        if text == reference:
            continue
        assert min(gaps) < ROUNDING, f"call {call_id}: {text!r}, reference {reference!r}; no two logits were near"
        ties.append(call_id)
    return ties


class LimitedMemory:
    """Wraps a method that answers batches; those of more than `max_rows` run out of memory."""

    def __init__(self, generate: Callable[..., Any], max_rows: int, error: Exception) -> None:
        self.sizes: list[int] = []
        self._generate, self._max_rows, self._error = generate, max_rows, error

    def __call__(self, batch: Sequence[Any], **options: int) -> Any:
        if options:
            return self._stream(batch, **options)
        self._check(len(batch))
        return self._generate(batch)

    def _stream(self, batch: Sequence[Any], *, max_rows: int) -> Iterator[dict[int, GeneratedTokens]]:
        self._check(max_rows)
        yield from self._generate(batch, max_rows=max_rows)

    def _check(self, rows: int) -> None:
        self.sizes.append(rows)
        if rows > self._max_rows:
            raise self._error
