"""Answer prompts with a common prefix: the prefix is prefilled once, the questions run as one packed batch."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

import torch
from torch import Tensor

from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.memory import Memory, chunk_ranges
from models.engines.transformers.model_config import ATTENTION_LAYERS, STATE_LAYERS, layer_kinds
from models.engines.transformers.packed.kv_cache import PackedSequences, SharedSegment
from models.engines.transformers.packed.model import PackedModel
from models.engines.transformers.prefix_tree import Branch, build_prefix_tree
from models.engines.transformers.prompt_records import Prompt, joined_inputs
from models.engines.transformers.sampling import GeneratedTokens, decode
from models.errors import PrefixSharingUnsupportedError
from models.families import family
from models.messages import Media

_TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2}
"""Root mean square difference of logits, in units of their deviation, due to rounding; 0.1 for bfloat16."""
_INITIAL_ANSWER_TOKENS = 64  # tokens of an answer for which memory is allocated at the start
_MIN_PASS_TOKENS = 512  # below which a pass needs little memory beside the weights
_CACHED = -1  # owner of a segment that an earlier call computed
_Key: TypeAlias = tuple[tuple[Media, ...], bytes]  # of a prefix: its media and tokens
_Path: TypeAlias = tuple[tuple[SharedSegment, int], ...]  # segments, each with the index of the prompt that computes it


def sharing_unsupported_reason(config: Any) -> str | None:
    """Return why a model of this kind cannot share prefixes; None where no reason is known."""
    if config.is_encoder_decoder or config.get_text_config().is_encoder_decoder:
        return "the model is an encoder-decoder"
    if reason := family(config.model_type).unshared_reason:
        return f"{reason}; features of the vision tower are reused"
    if other := {*layer_kinds(config.get_text_config())} - ATTENTION_LAYERS - STATE_LAYERS:
        return f"its language model has layers of {', '.join(sorted(other))}, whose state after a prefix is not shared"
    return None


def max_sharable_tokens(checkpoint: Checkpoint) -> int | None:
    """Return the tokens beyond which a model scales its rotary positions differently; None for any length.

    Phi-4's `longrope` and the `dynamic` kind choose by the longest prompt of a batch, so cached keys no longer fit.
    Llama 4 attends in chunks, and scales queries by their index: both change nothing in a prompt of one chunk.
    """
    text = checkpoint.text_config
    if "chunked_attention" in layer_kinds(text):
        return min(int(text.attention_chunk_size), max_packed_tokens(text) or int(text.attention_chunk_size))
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") not in ("longrope", "dynamic"):
        return None
    return int(
        rope.get("original_max_position_embeddings")
        or getattr(text, "original_max_position_embeddings", None)
        or text.max_position_embeddings
    )


def max_packed_tokens(text: Any) -> int | None:
    """Return the tokens of a pass from which on Llama 4 scales queries by their index in it; None for any length."""
    return int(text.floor_scale) - 1 if getattr(text, "attn_temperature_tuning", False) else None


@dataclass(slots=True)
class SharedPrompt:
    """A prompt whose prefix is prefilled: its segments and the tokens still to be prefilled."""

    prompt: Prompt
    path: tuple[SharedSegment, ...]
    tail: list[int]
    cached: int  # tokens of the path that another call paid for
    logits: Tensor | None = None  # [vocabulary] of the first token, when the whole prompt is prefilled
    is_single: bool = False  # no other prompt has its path now
    seconds: float = 0.0  # of the prefill
    begun: float = 0.0  # when its answer began, by `perf_counter`: it waits for a place in a batch before


class SharedModel:
    """The packed model with a cache of prefixes."""

    def __init__(self, checkpoint: Checkpoint, memory: Memory, *, records_steps: bool) -> None:
        """Wrap a checkpoint with memory for prefixes that later calls may share, such as the next step."""
        self._packed = PackedModel(checkpoint.model, checkpoint.device, records_steps=records_steps)
        self._device = checkpoint.device
        self._end_ids = checkpoint.end_ids
        self._family = family(checkpoint.model.config.model_type)
        self._is_verified = self._family.is_verified
        self._chunk = min(memory.chunk, max_packed_tokens(checkpoint.text_config) or memory.chunk)
        self._cache_bytes = memory.prefix_cache_bytes
        self._cache: OrderedDict[_Key, SharedSegment] = OrderedDict()
        self._ahead: dict[_Key, SharedSegment] = {}  # computed for prompts that are prefilled next
        self._pad_id = checkpoint.pad_id
        self._is_batch_verified = False
        self.max_tokens = max_sharable_tokens(checkpoint)  # of prompt and answer; None for no limit

    @property
    def state_bytes(self) -> int:
        """Return the bytes of fixed size that a row holds while it is answered; 0 where all layers keep keys."""
        return self._packed.state_bytes

    def supports(self, prompt: Prompt) -> bool:
        """Return whether a prompt can be answered from shared prefixes."""
        generation = prompt.call.generation
        fits = self.max_tokens is None or len(prompt.ids) + generation.max_new_tokens <= self.max_tokens
        return generation.num_beams == 1 and fits

    @torch.inference_mode()
    def encode_ahead(self, prompts: Sequence[Prompt]) -> None:
        """Prefill together the prefixes of prompts with different media, for those that are prefilled next.

        Their last bits depend on the pass. The first one is compared with a prefix computed by itself: `ValueError`
        where the model computes another one in a batch.
        """
        self._ahead.clear()
        batches: dict[object, list[tuple[int, Prompt]]] = {}
        for prompt in prompts:
            end = self._pixels(prompt)[0]
            if prompt.head.inputs and end < len(prompt.ids) and _key(prompt, end) not in self._cache:
                length = None if self._packed.pads_at_end else end
                batches.setdefault((prompt.head.shapes, length), []).append((end, prompt))
        for batch in batches.values():
            batch.sort(key=lambda item: item[0])
            for first, last in chunk_ranges([end for end, _ in batch], self._packed.pass_tokens or self._chunk):
                if last - first > 1:
                    self._encode_batch(batch[first:last])

    def _encode_batch(self, batch: Sequence[tuple[int, Prompt]]) -> None:
        """Prefill the first tokens of several prompts in order of their number."""
        width = batch[-1][0]
        ids = torch.full((len(batch), width), self._pad_id)
        for row, (end, prompt) in enumerate(batch):
            ids[row, :end] = torch.from_numpy(prompt.ids[:end])
        by_token = [prompt.head.by_token(end, width) for end, prompt in batch]
        inputs = joined_inputs([prompt.head for _, prompt in batch])
        inputs |= {name: torch.cat([row[name] for row in by_token]) for name in by_token[0]}
        segments, _ = self._packed.encode_batch(
            ids,
            [end for end, _ in batch],
            {name: tensor.to(self._device) for name, tensor in inputs.items()},
            [self._pixels(prompt)[1] for _, prompt in batch],
        )
        if not self._is_batch_verified:
            for row in (0, -1):  # the one with most padding, and one with pixels before it
                end, prompt = batch[row]
                tails = [prompt.ids[end:].tolist()] * 2
                paths = [(segments[row],), (self._encode(prompt, end)[0],)]
                logits = self._packed.start(paths, tails, capacity=len(tails[0]), chunk=self._chunk)[1]
                if wrong := _differences([logits[0]], logits[1].float()):
                    raise ValueError(f"logits in a batch and alone differ by {wrong[0]:.2g} of their deviation")
            self._is_batch_verified = True
        self._ahead |= {_key(prompt, end): segment for (end, prompt), segment in zip(batch, segments, strict=True)}

    @torch.inference_mode()
    def prefill(self, prompts: Sequence[Prompt]) -> list[SharedPrompt]:
        """Prefill what prompts with equal heads share; return results in order, or `PrefixSharingUnsupportedError`.

        The prefix of a prompt that shares nothing now is computed by itself too: a question must get the same bits
        whether a caption was requested before it or not. The rest is prefilled with that of others of this kind.
        """
        first, results = prompts[0], dict[int, SharedPrompt]()
        self._verify(first)
        end, is_single = self._pixels(first)[0], len(prompts) == 1 and bool(first.head.inputs)
        if is_single and end >= len(first.ids):
            segment, logits = self._encode(first, len(first.ids))
            return [SharedPrompt(prompt=first, path=(segment,), tail=[], cached=0, logits=logits, is_single=True)]
        tree = build_prefix_tree([prompt.ids for prompt in prompts], end)
        self._walk(tree, prompts, self._root(tree, first), results)
        results[0].is_single = is_single
        return [results[index] for index in range(len(prompts))]

    @torch.inference_mode()
    def generate(self, prompts: Sequence[SharedPrompt], *, max_rows: int) -> Iterator[dict[int, GeneratedTokens]]:
        """Yield answers, by index, of prompts that are all prefilled whole, all `is_single`, or neither."""
        yield from decode(
            self._packed,
            lambda batch: self._start(prompts[batch.start : batch.stop]),
            [shared.prompt.call for shared in prompts],
            max_rows=max_rows,
            end_ids=self._end_ids,
        )

    def score(
        self,
        paths: Sequence[tuple[SharedSegment, ...]],
        tails: Sequence[Sequence[int]],
        counts: Sequence[int],
        *,
        chunk: int,
    ) -> Tensor:
        """Compute log-probabilities as `PackedModel.score` does."""
        with torch.inference_mode():
            return self._packed.score(paths, tails, counts, chunk=min(chunk, self._chunk))

    def verify(self, prompt: Prompt) -> None:
        """Raise `PrefixSharingUnsupportedError` unless shared logits equal unshared ones; a model is checked once."""
        with torch.inference_mode():
            self._verify(prompt)

    def _start(self, prompts: Sequence[SharedPrompt]) -> tuple[PackedSequences, Tensor]:
        for shared in prompts:
            shared.begun = perf_counter()
        limits = [shared.prompt.call.generation.max_new_tokens for shared in prompts]
        answer_tokens = min(_INITIAL_ANSWER_TOKENS, *limits)
        paths, tails = [shared.path for shared in prompts], [shared.tail for shared in prompts]
        if prompts[0].logits is not None:
            segments = [path[0] for path in paths]
            capacity = max(segment.length for segment in segments) + answer_tokens
            logits = torch.stack([shared.logits for shared in prompts if shared.logits is not None])
            return self._packed.adopt(segments, capacity=capacity), logits
        is_single, is_followed = prompts[0].is_single, max(limits) > 1
        capacity = max(map(len, tails)) + (0 if is_single else answer_tokens)
        rows, logits = self._packed.start(paths, tails, capacity=capacity, chunk=self._chunk, is_followed=is_followed)
        if is_single and is_followed:
            rows = self._packed.unshare(rows, answer_tokens=answer_tokens)
        return rows, logits

    def shorten_passes(self) -> bool:
        """Compute prefixes in passes of half as many tokens, at first of a chunk; whole again, and False, after 512."""
        before = self._packed.pass_tokens
        halved = self._chunk if before is None else max(before // 2, _MIN_PASS_TOKENS)
        self._packed.pass_tokens = halved if halved != before else None
        return halved != before

    def clear(self) -> None:
        """Drop every cached prefix."""
        self._cache.clear()
        self._ahead.clear()

    def _pixels(self, prompt: Prompt) -> tuple[int, int | None]:
        """Return the tokens before a prompt's text after its pixels, and that text's shift if they do not tell it."""
        tokens = len(prompt.head.ids) + (self._packed.has_own_positions and bool(prompt.head.media))
        if not self._family.closes_pictures or not prompt.head.media:
            return tokens, None
        start, shift = self._packed.text_after_pixels(prompt.ids.tolist(), self._on_device(prompt, len(prompt.ids)))
        return max(tokens, start), shift

    def _root(self, tree: Branch, prompt: Prompt) -> _Path:
        """Return a group's root, cached or not with equal bits: it always ends at the same token after the pixels."""
        if not tree.end:
            return ()
        key = _key(prompt, tree.end)
        owner = _CACHED if key in self._cache else tree.first
        segment = self._cache.pop(key, None) or self._ahead.pop(key, None) or self._encode(prompt, tree.end)[0]
        self._cache[key] = segment
        while sum(cached.nbytes for cached in self._cache.values()) > self._cache_bytes:
            self._cache.popitem(last=False)
        return ((segment, owner),)

    def _encode(self, prompt: Prompt, length: int) -> tuple[SharedSegment, Tensor]:
        inputs = self._on_device(prompt, length)
        return self._packed.encode(prompt.ids[:length].tolist(), inputs, self._pixels(prompt)[1])

    def _on_device(self, prompt: Prompt, length: int) -> dict[str, Tensor]:
        tensors = {**prompt.head.inputs, **prompt.head.by_token(length)}
        return {name: tensor.to(self._device) for name, tensor in tensors.items()}

    def _walk(self, branch: Branch, prompts: Sequence[Prompt], path: _Path, results: dict[int, SharedPrompt]) -> None:
        segments = tuple(segment for segment, _ in path)
        for member in branch.members:
            results[member] = SharedPrompt(
                prompt=prompts[member],
                path=segments,
                tail=prompts[member].ids[branch.end :].tolist(),
                cached=sum(segment.length for segment, owner in path if owner != member),
            )
        for child in branch.children:
            ids = prompts[child.first].ids[child.start : child.end].tolist()
            segment = self._packed.extend(segments, ids)
            self._walk(child, prompts, (*path, (segment, child.first)), results)

    def _verify(self, prompt: Prompt) -> None:
        """Compare the logits after a prompt, computed once in one piece by the model and in packed pieces.

        The second piece is computed whole, and without its last token, which follows as a step: rows of different
        lengths, whose states must be those after their own last tokens.
        """
        if self._is_verified:
            return
        split_at = max(self._pixels(prompt)[0], len(prompt.ids) // 2)
        if split_at >= len(prompt.ids):
            return
        expected = self._encode(prompt, len(prompt.ids))[1].float()
        if expected.isnan().any():
            return  # no prompt is answered, and decoding says why
        ids = prompt.ids[:split_at].tolist()
        first = self._encode(prompt, split_at)[0] if prompt.head.inputs else self._packed.extend((), ids)
        tail = prompt.ids[split_at:].tolist()
        tails = [tail, tail[:-1]] if len(tail) > 1 else [tail]
        rows, logits = self._packed.start([(first,)] * len(tails), tails, capacity=len(tail) + 1, chunk=self._chunk)
        compared = [logits[0]]
        if len(tails) > 1:
            compared.append(self._packed.step(rows, [tail[-1], tail[-1]])[1])
        if wrong := _differences(compared, expected):
            raise PrefixSharingUnsupportedError(
                f"shared and unshared logits differ by {wrong[0]:.2g} of their deviation"
            )
        self._is_verified = True


def _differences(logits: Sequence[Tensor], expected: Tensor) -> list[float]:
    """Return those differences from the expected logits, in units of their deviation, that are not due to rounding."""
    differences = [float((a.float() - expected).square().mean().sqrt() / expected.std()) for a in logits]
    return [difference for difference in differences if not difference <= _TOLERANCE.get(logits[0].dtype, 0.1)]


def _key(prompt: Prompt, end: int) -> _Key:
    return prompt.head.media, prompt.ids[:end].tobytes()
