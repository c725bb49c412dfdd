"""Answers prompts that begin alike: their common tokens are read once, the questions as one packed batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.kv_cache import PackedSequences, SharedSegment
from models.engines.transformers.packed_model import PackedModel
from models.engines.transformers.prefix_tree import Branch, build_prefix_tree
from models.engines.transformers.prompts import Head, Prompt
from models.engines.transformers.sampling import GeneratedTokens, decode
from models.errors import PrefixSharingUnsupportedError
from models.messages import Media

VERIFIED_MODEL_TYPES = frozenset(
    {
        "blip-2",
        "gemma3",
        "gemma3_text",
        "idefics2",
        "idefics3",
        "internvl",
        "llama",
        "llava",
        "llava_next",
        "llava_next_video",
        "llava_onevision",
        "mistral",
        "ovis2",
        "phi4_multimodal",
        "qwen2",
        "qwen2_5_vl",
        "qwen2_vl",
        "qwen3_vl",
        "smolvlm",
    }
)
"""Model types whose shared answers are tested to equal the plain ones; others are compared on their first prompt."""

_TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2}
"""Root mean square difference of logits, in units of their spread, that rounding explains; 0.1 for bfloat16."""


_ROOM = 64
"""Tokens of an answer for which memory is taken at the start."""
_NOBODY = -1
_Path: TypeAlias = tuple[tuple[SharedSegment, int], ...]
"""Segments, each with the index of the prompt that it was read for."""


def unshareable(config: Any) -> str | None:
    """Why a model of this kind cannot share beginnings; None where nothing is known against it."""
    if config.is_encoder_decoder or config.get_text_config().is_encoder_decoder:
        return "the model is an encoder and a decoder"
    if config.model_type == "instructblip":
        return "its query transformer reads the words together with the picture; the vision tower's work is reused"
    if config.model_type == "mllama":
        return "its language model looks across at the picture; the vision tower's work is reused"
    return None


def short_rotation(checkpoint: Checkpoint) -> int | None:
    """Tokens after which a model turns all its positions another way, and no longer fits what it has read before.

    Phi-4's `longrope` and the `dynamic` kind choose by the longest prompt of a batch; None for all others.
    """
    text = checkpoint.text_config
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") not in ("longrope", "dynamic"):
        return None
    return int(
        rope.get("original_max_position_embeddings")
        or getattr(text, "original_max_position_embeddings", None)
        or text.max_position_embeddings
    )


@dataclass(slots=True)
class SharedPrompt:
    """A prompt whose beginning is read: what it begins with and what is still to be read."""

    prompt: Prompt
    path: tuple[SharedSegment, ...]
    tail: list[int]
    cached: int
    """Tokens of the path that an earlier call paid for."""
    logits: Tensor | None = None
    """[vocabulary] of the first token, when the whole prompt is read already."""
    seconds: float = 0.0
    """What reading the beginning took."""


class SharedModel:
    """The packed model, and the beginnings it has read."""

    def __init__(self, checkpoint: Checkpoint, *, kept_bytes: int, chunk: int) -> None:
        """Wrap a checkpoint.

        Args:
            checkpoint: the model.
            kept_bytes: memory for beginnings kept for calls to come, such as the next step of the same requests.
            chunk: tokens read in one pass.
        """
        self._model = checkpoint.model
        self._packed = PackedModel(checkpoint.model, checkpoint.device)
        self._device = checkpoint.device
        self._end_ids = checkpoint.end_ids
        self._proven = checkpoint.model.config.model_type in VERIFIED_MODEL_TYPES
        self._chunk = chunk
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[tuple[tuple[Media, ...], bytes], SharedSegment] = OrderedDict()
        self.longest = short_rotation(checkpoint)
        """Tokens of prompt and answer that may be shared; None for any number."""

    def takes(self, prompt: Prompt) -> bool:
        """Whether a prompt can be answered from shared beginnings."""
        generation = prompt.call.generation
        fits = self.longest is None or len(prompt.ids) + generation.max_new_tokens <= self.longest
        return generation.num_beams == 1 and fits

    def read(self, prompts: Sequence[Prompt]) -> list[SharedPrompt]:
        """Read what the prompts, all with equal heads, have in common; one job for each, in their order.

        Raises:
            SharingUnsupportedError: this model cannot share.
        """
        tree = build_prefix_tree([prompt.ids for prompt in prompts], self._end_of_root(prompts[0].head))
        jobs: dict[int, SharedPrompt] = {}
        with torch.inference_mode():
            self._prove(prompts[0])
            self._walk(tree, prompts, self._root(tree, prompts[0]), jobs)
        return [jobs[index] for index in range(len(prompts))]

    def read_alone(self, prompt: Prompt) -> SharedPrompt:
        """Read a whole prompt that shares nothing now; its beginning is kept for a later step about the same pixels.

        The beginning is read by itself, as in `read`: a question must get the same bits whether a caption was asked
        for before it or not. What comes out is one piece, so that such prompts go on as one batch without segments.
        """
        with torch.inference_mode():
            self._prove(prompt)
            end = self._end_of_root(prompt.head)
            if end >= len(prompt.ids):
                segment, logits = self._encode(prompt.head, prompt.ids)
                return SharedPrompt(prompt=prompt, path=(segment,), tail=[], cached=0, logits=logits)
            ((root, payer),) = self._root(Branch(0, end, members=[0]), prompt)
            whole, logits = self._packed.lengthen(root, prompt.ids[end:].tolist())
        cached = root.length if payer == _NOBODY else 0
        return SharedPrompt(prompt=prompt, path=(whole,), tail=[], cached=cached, logits=logits)

    def answer(self, jobs: Sequence[SharedPrompt]) -> list[GeneratedTokens]:
        """Write the answers of jobs that were all read alone, or none of them."""
        with torch.inference_mode():
            rows, logits = self._start(jobs)
            calls = [job.prompt.call for job in jobs]
            return decode(self._packed, rows, logits, calls, end_ids=self._end_ids)

    def score(
        self,
        paths: Sequence[tuple[SharedSegment, ...]],
        tails: Sequence[Sequence[int]],
        counts: Sequence[int],
        *,
        chunk: int,
    ) -> Tensor:
        """See `PackedModel.score`."""
        with torch.inference_mode():
            return self._packed.score(paths, tails, counts, chunk=min(chunk, self._chunk))

    def prove(self, prompt: Prompt) -> None:
        """See once that shared logits equal plain ones, for a model not known to do so.

        Raises:
            SharingUnsupportedError: they do not.
        """
        with torch.inference_mode():
            self._prove(prompt)

    def _start(self, jobs: Sequence[SharedPrompt]) -> tuple[PackedSequences, Tensor]:
        room = max(len(job.tail) for job in jobs)
        room += min(_ROOM, *(job.prompt.call.generation.max_new_tokens for job in jobs))
        if jobs[0].logits is None:
            paths, tails = [job.path for job in jobs], [job.tail for job in jobs]
            return self._packed.start(paths, tails, room=room, chunk=self._chunk)
        segments = [job.path[0] for job in jobs]
        rows = self._packed.adopt(segments, room=room + max(segment.length for segment in segments))
        return rows, torch.stack([job.logits for job in jobs if job.logits is not None])

    def forget(self) -> None:
        """Drop every kept beginning."""
        self._kept.clear()

    def _end_of_root(self, head: Head) -> int:
        """Tokens of the segment that prompts with this head begin with."""
        return len(head.ids) + (self._packed.counts_apart and bool(head.media))

    def _root(self, tree: Branch, prompt: Prompt) -> _Path:
        """The segment that a group begins with, read now or kept from before: the same bits either way.

        It always ends at the same place behind the pixels, whatever more the group has in common: what was answered
        earlier must not change the rounding of what is answered now.
        """
        if not tree.end:
            return ()
        ids = prompt.ids[: tree.end]
        key = (prompt.head.media, ids.tobytes())
        payer = _NOBODY if key in self._kept else tree.first
        segment = self._kept.pop(key, None) or self._encode(prompt.head, ids)[0]
        self._kept[key] = segment
        while sum(kept.nbytes for kept in self._kept.values()) > self._kept_bytes:
            self._kept.popitem(last=False)
        return ((segment, payer),)

    def _encode(self, head: Head, ids: np.ndarray) -> tuple[SharedSegment, Tensor]:
        inputs, extras = (
            {name: tensor.to(self._device) for name, tensor in tensors.items()}
            for tensors in (head.inputs, head.by_token(len(ids)))
        )
        return self._packed.encode(ids.tolist(), inputs, extras)

    def _walk(self, branch: Branch, prompts: Sequence[Prompt], path: _Path, jobs: dict[int, SharedPrompt]) -> None:
        """Jobs of a branch's own members, then of its children, each after its own further tokens."""
        segments = tuple(segment for segment, _ in path)
        for member in branch.members:
            jobs[member] = SharedPrompt(
                prompt=prompts[member],
                path=segments,
                tail=prompts[member].ids[branch.end :].tolist(),
                cached=sum(segment.length for segment, payer in path if payer != member),
            )
        for child in branch.children:
            ids = prompts[child.first].ids[child.start : child.end].tolist()
            further = self._packed.extend(segments, ids)
            self._walk(child, prompts, (*path, (further, child.first)), jobs)

    def _prove(self, prompt: Prompt) -> None:
        """Once: compare the logits after a prompt, read in one piece by the model itself and in two packed ones."""
        if self._proven:
            return
        cut = max(len(prompt.head.ids), len(prompt.ids) // 2)
        whole = self._encode(prompt.head, prompt.ids)[1].float()
        ids = prompt.ids[:cut]
        first = self._encode(prompt.head, ids)[0] if prompt.head.inputs else self._packed.extend((), ids.tolist())
        tail = prompt.ids[cut:].tolist()
        _, logits = self._packed.start([(first,)], [tail], room=len(tail), chunk=self._chunk)
        apart = float((logits[0].float() - whole).square().mean().sqrt() / whole.std())
        if not apart <= _TOLERANCE.get(logits.dtype, 0.1):
            raise PrefixSharingUnsupportedError(f"shared and plain logits differ by {apart:.2g} of their spread")
        self._proven = True
