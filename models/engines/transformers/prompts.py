"""From calls to tokens: chat template, pixels through the processor once, each call's own words by themselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jinja2
import numpy as np
import torch
from torch import Tensor

from models.engines.transformers.chat_formats import FORMS
from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.media_inputs import MediaRules, media_rules, places, show
from models.errors import PrefixSharingUnsupportedError
from models.messages import Call, CallReply, Failure, Frames, Media, Text, Turn
from models.spec import ModelSpec

ROW_ERRORS: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    OSError,
    MemoryError,
    StopIteration,
    jinja2.TemplateError,
    PrefixSharingUnsupportedError,
)
"""What one call's own content can make a processor, a template or a model raise."""

_KEPT_BYTES = 1 << 30
"""Pixels and tokens of beginnings kept for calls to come."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """A prompt's beginning up to its last picture or clip, as the processor made it."""

    media: tuple[Media, ...]
    ids: np.ndarray
    """[tokens], int64; empty without media."""
    inputs: Mapping[str, Tensor]
    """Pixel tensors and what goes with them, for one prompt."""
    extras: Mapping[str, Tensor]
    """Further tensors by token, [1, tokens]: zero for words; or [1, tokens, ...], where words go on as the last one."""

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return int(self.ids.nbytes + sum(t.numel() * t.element_size() for t in self.inputs.values()))

    def by_token(self, length: int) -> dict[str, Tensor]:
        """The tensors by token, cut or filled up with zeros to a length."""
        return {name: _lengthened(tensor, length) for name, tensor in self.extras.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A call made ready for the model."""

    call: Call
    head: Head
    ids: np.ndarray
    """[tokens], int64, the head's included."""
    words: Mapping[str, Tensor] = field(default_factory=dict)
    """[1, tokens] for a part of the model that reads the words by itself, with a tokenizer of its own."""


_Key: TypeAlias = tuple[tuple[Media, ...], str | bytes, str]
"""Media, the text or the tokens before the words, and how the words open."""
_BETWEEN = ("", " ")
"""What processors put between a picture and words that follow it at once: nothing, or a blank (Idefics2)."""
NO_HEAD = Head(media=(), ids=np.empty(0, dtype=np.int64), inputs={}, extras={})
"""Of prompts that are words alone."""


_TOWARDS_PIXELS = "cross_attention_mask"
"""Mllama's: which pictures each token sees."""
_READ_APART = ("qformer_input_ids", "qformer_attention_mask")
"""InstructBLIP's: the words as its query transformer reads them."""
_PIXEL_IDS = ("image_token_id", "video_token_id", "image_token_index", "video_token_index")


class PromptMaker:
    """Renders, tokenizes and preprocesses; calls that begin with the same media share one preprocessing."""

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        self._processor = checkpoint.processor
        self._tokenizer = checkpoint.tokenizer
        self._system = spec.system
        self._dtype = checkpoint.model.dtype
        self._config = checkpoint.model.config
        # Phi-4's processor leaves the template to its tokenizer, which takes turns of words with marks in them.
        templated = [
            part for part in (checkpoint.processor, checkpoint.tokenizer) if getattr(part, "chat_template", None)
        ]
        self._template: Any = templated[0] if templated else checkpoint.tokenizer
        self._form = (
            FORMS[spec.chat_format] if spec.chat_format else None if templated else FORMS.get(self._config.model_type)
        )
        self._written = self._form is not None or bool(templated)
        self.rules: MediaRules = media_rules(checkpoint.processor, spec.limits)
        self._marks = self._placeholders()
        self._heads: OrderedDict[_Key, tuple[Head, str]] = OrderedDict()

    def make(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> list[Prompt | CallReply]:
        """One prompt for each call, or the reply that says why there is none; in the order of the calls."""
        made: dict[int, Prompt | CallReply] = {}
        tails: dict[int, tuple[Head, str]] = {}
        for index, call in enumerate(calls):
            try:
                found = self._begin(call, media)
            except ROW_ERRORS as error:
                made[index] = _failed(call, error)
            else:
                if isinstance(found, Prompt):
                    made[index] = found
                else:
                    tails[index] = found
        encoded = self._encode([text for _, text in tails.values()])
        for (index, (head, _)), ids in zip(tails.items(), encoded, strict=True):
            if isinstance(ids, Exception):
                made[index] = _failed(calls[index], ids)
            else:
                own = np.concatenate([head.ids, ids[1:]]) if head.media else ids
                made[index] = Prompt(call=calls[index], head=head, ids=own)
        return [made[index] for index in range(len(calls))]

    def _begin(self, call: Call, media: Mapping[Media, Frames]) -> Prompt | tuple[Head, str]:
        """A call's head and the text yet to be tokenized; or all of it where the two cannot be told apart.

        The text goes on from the last placeholder, itself included: a special token, at which every tokenizer cuts.
        """
        text, count = self._render(call, media)
        cut = max((text.rfind(mark) for mark in self._marks), default=-1)
        marked = sum(text.count(mark) for mark in self._marks)
        if marked > (0 if self._form else count):
            raise ValueError(f"the words hold a mark of the model's own for an image: {', '.join(self._marks)}")
        if not call.media:
            return NO_HEAD, text
        if marked < count:
            return self._whole(call, text, media)
        mark = next(mark for mark in self._marks if text.startswith(mark, cut))
        rest = text[cut + len(mark) :]
        key = (call.media, text[:cut], _opening(rest))
        if key not in self._heads:
            prompt = self._whole(call, text, media)
            for between in _BETWEEN:
                (own,) = self._encode([mark + between + rest])
                if isinstance(own, Exception):
                    raise own
                split = len(prompt.ids) - len(own) + 1
                if len(prompt.head.ids) <= split and np.array_equal(prompt.ids[split:], own[1:]):
                    self._keep(key, _split(prompt, split), between)
                    break
            else:
                return prompt
        self._heads.move_to_end(key)
        head, between = self._heads[key]
        return head, mark + between + rest

    def _render(self, call: Call, media: Mapping[Media, Frames]) -> tuple[str, int]:
        """The chat template's text, and how many pictures and clips have a place in it."""
        if not self._written:
            raise ValueError(
                "the model has no chat template; say in its entry how turns are written (form: vicuna, or form: plain "
                "for words as they stand), or ask it for MAIA's unimodal setting, which needs none"
            )
        if self._form is not None:
            if self._processor is None and call.media:
                raise ValueError("the model reads text alone, and the prompt holds a picture or clip")
            return self._form.write(self._turns(call)), len(call.media)
        turns = [(turn.role, self._content(turn, media)) for turn in self._turns(call)]
        count = sum(part["type"] != "text" for _, parts in turns for part in parts)
        messages: list[dict[str, Any]] = [{"role": role, "content": parts} for role, parts in turns]
        if self._template is self._tokenizer:
            mark = getattr(self._processor, "image_token", "")
            messages = [
                {"role": role, "content": "".join(part.get("text", mark) for part in parts)} for role, parts in turns
            ]
        speaks = messages[-1]["role"] == "assistant"
        rendered = self._template.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=not speaks, continue_final_message=speaks
        )
        rendered.encode()  # half a surrogate pair is told by name here; tokenizers would only speak of a wrong type
        return str(rendered), count

    def _turns(self, call: Call) -> tuple[Turn, ...]:
        """The call's turns after the spec's system prompt; one of the call's own is joined to it."""
        if self._system is None:
            return call.turns
        first, rest = Turn("system", (Text(self._system),)), call.turns
        if rest and rest[0].role == "system":
            first, rest = Turn("system", (Text(f"{self._system}\n\n"), *rest[0].parts)), rest[1:]
        return (first, *rest)

    def _content(self, turn: Turn, media: Mapping[Media, Frames]) -> list[dict[str, str]]:
        """A turn's parts as chat templates name them; words that follow words are one part."""
        content: list[dict[str, str]] = []
        for part in turn.parts:
            if isinstance(part, Media):
                if part not in media:
                    raise LookupError(f"no pixels came with the call for the {part.kind} {part.source}")
                content.extend(places(part, media[part], self.rules))
            elif not isinstance(part, Text):
                raise TypeError(f"{type(part).__name__} must be text before it reaches an engine")
            elif content and content[-1]["type"] == "text":
                content[-1] = {"type": "text", "text": content[-1]["text"] + part.text}
            else:
                content.append({"type": "text", "text": part.text})
        return content

    def _whole(self, call: Call, text: str, media: Mapping[Media, Frames]) -> Prompt:
        """A prompt through the processor in one piece."""
        assert self._processor is not None
        shown = show(call.media, media, self.rules)
        given: dict[str, Any] = {}
        if shown.images:
            given |= {"images": [shown.images], "images_kwargs": dict(self.rules.images_kwargs)}
        if shown.videos:
            notes = {"video_metadata": shown.metadata}
            given |= {"videos": [shown.videos], "videos_kwargs": {**self.rules.videos_kwargs, **notes}}
        made = self._processor(
            text=[text], return_tensors="pt", text_kwargs={"add_special_tokens": self._adds(text)}, **given
        )
        tensors = {name: value for name, value in made.items() if isinstance(value, Tensor)}
        ids = tensors.pop("input_ids")
        tensors.pop("attention_mask", None)
        words = {name: tensors.pop(name) for name in _READ_APART if name in tensors}
        extras = {name: t for name, t in tensors.items() if t.shape == ids.shape or name == _TOWARDS_PIXELS}
        inputs = {
            name: t.to(self._dtype) if name.startswith("pixel_values") and t.is_floating_point() else t
            for name, t in tensors.items()
            if name not in extras
        }
        whole = ids[0].numpy()
        marked = np.flatnonzero(np.isin(whole, self._mark_ids()))
        head = Head(media=call.media, ids=whole, inputs=inputs, extras=extras)
        prompt = Prompt(call=call, head=head, ids=whole)
        end = int(marked[-1]) + 1 if len(marked) else len(whole)
        return Prompt(call=call, head=self._known(_split(prompt, end)), ids=whole, words=words)

    def _known(self, head: Head) -> Head:
        """The same head as an earlier call's, where there is one: its pixels are held once."""
        key = (head.media, head.ids.tobytes(), _opening(""))
        if head.media and key not in self._heads:
            self._keep(key, head, "")
        return self._heads[key][0] if head.media else head

    def _keep(self, key: _Key, head: Head, between: str) -> None:
        self._heads[key] = head, between
        while len(self._heads) > 1 and self._held() > _KEPT_BYTES:
            self._heads.popitem(last=False)

    def _held(self) -> int:
        """Bytes of all kept heads; pixels that two of them share count once."""
        heads = [head for head, _ in self._heads.values()]
        return sum({id(head.inputs): head.nbytes for head in heads}.values())

    def _encode(self, texts: Sequence[str]) -> list[np.ndarray | Exception]:
        """Token ids of texts of one kind; an error for each that the tokenizer does not take."""
        if not texts:
            return []
        try:
            listed = self._tokenizer(list(texts), add_special_tokens=self._adds(texts[0]))["input_ids"]
        except ROW_ERRORS as error:
            if len(texts) == 1:
                return [error]
            return [ids for text in texts for ids in self._encode([text])]
        return [np.asarray(ids, dtype=np.int64) for ids in listed]

    def _adds(self, text: str) -> bool:
        """Whether the tokenizer shall put its own first token: processors do, unless the template has done so.

        A text-only tokenizer's chat template is taken as it stands, as transformers does.
        """
        if (self._processor is None and self._form is None) or any(text.startswith(mark) for mark in self._marks):
            return False
        bos = self._tokenizer.bos_token
        return bos is None or not text.startswith(bos)

    def _placeholders(self) -> tuple[str, ...]:
        """Tokens that stand for a picture or a clip in the template's text, each a single special token."""
        named = (getattr(self._processor, name, None) for name in ("image_token", "video_token"))
        marks = (getattr(mark, "content", mark) for mark in named)
        return tuple(
            mark for mark in marks if mark and len(self._tokenizer(mark, add_special_tokens=False)["input_ids"]) == 1
        )

    def _mark_ids(self) -> list[int]:
        """Ids of the tokens that pixels fill, as the processor and the placeholders name them."""
        ids: set[Any] = {self._tokenizer.convert_tokens_to_ids(mark) for mark in self._marks}
        ids.update(getattr(self._config, name, None) for name in _PIXEL_IDS)
        for name in ("image_token_id", "video_token_id"):
            ids.add(getattr(self._processor, name, None))
        for name in ("image_token_ids", "video_token_ids"):
            ids.update(getattr(self._processor, name, None) or ())
        return [value for value in ids if value is not None]


def _opening(words: str) -> str:
    """How words begin, as far as it matters to what a processor does between a picture and them."""
    if not words:
        return ""
    return " " if words[0].isspace() else "<" if words[0] == "<" else "x"


def _lengthened(tensor: Tensor, length: int) -> Tensor:
    """A tensor by token, cut or filled up to a length."""
    more = length - tensor.shape[1]
    if more <= 0:
        return tensor[:, :length]
    if tensor.ndim == 2:
        return torch.nn.functional.pad(tensor, (0, more))
    return torch.cat([tensor, tensor[:, -1:].expand(-1, more, *tensor.shape[2:])], 1)


def _split(prompt: Prompt, length: int) -> Head:
    """The prompt's head, ending after so many tokens."""
    head = prompt.head
    return Head(media=head.media, ids=prompt.ids[:length], inputs=head.inputs, extras=head.by_token(length))


def _failed(call: Call, error: Exception) -> CallReply:
    message = f"{type(error).__name__}: {error}"
    return CallReply(call_id=call.call_id, outcome=Failure(type="preprocess", message=message))
