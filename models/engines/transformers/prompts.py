"""From calls to tokens: chat template, one preprocessing of shared pixels, and each call's own text."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from models.engines.transformers.chat_formats import CHAT_FORMATS, render_template
from models.engines.transformers.checkpoint import Checkpoint
from models.engines.transformers.media_inputs import (
    MediaRules,
    blank_media,
    media_inputs,
    media_rules,
    template_parts,
    without_media,
)
from models.engines.transformers.prompt_records import NO_HEAD, Head, Prompt
from models.engines.transformers.rank_pixels import join_pixels
from models.engines.transformers.row_errors import ROW_ERRORS, failure_reply
from models.errors import BUGS
from models.messages import Call, CallReply, Frames, Media, Text, Turn
from models.spec import ModelSpec

_CACHE_BYTES = 1 << 30  # pixels and tokens of heads cached for later calls
_Key: TypeAlias = tuple[tuple[Media, ...], str | bytes, str]  # media, preceding text or tokens, `_opening_kind`
_SEPARATORS = ("", " ")  # between a picture and text right after it: nothing, or a space (Idefics2)
_CROSS_ATTENTION = "cross_attention_mask"  # Mllama's: the pictures that each token attends to
_TEXT_INPUTS = ("qformer_input_ids", "qformer_attention_mask")  # InstructBLIP's, of the query transformer
_STARTING_PROCESSORS = frozenset({"Molmo2Processor"})  # put the first token before a text by themselves
_PIXEL_IDS = ("image_token_id", "video_token_id", "image_token_index", "video_token_index")


class PromptMaker:
    """Renders, tokenizes and preprocesses calls; those with the same media share one preprocessing."""

    def __init__(self, checkpoint: Checkpoint, spec: ModelSpec) -> None:
        self._processor = checkpoint.processor
        self._tokenizer = checkpoint.tokenizer
        self._system = spec.system
        self._dtype = checkpoint.model.dtype
        self._config = checkpoint.model.config
        # Phi-4's processor leaves the template to its tokenizer, which takes turns of text with placeholders in them.
        with_template = [part for part in (self._processor, self._tokenizer) if getattr(part, "chat_template", None)]
        self._template: Any = with_template[0] if with_template else checkpoint.tokenizer
        self._format = None if with_template else CHAT_FORMATS.get(self._config.model_type)
        if spec.chat_format:
            self._format = CHAT_FORMATS[spec.chat_format]
        self._has_format = self._format is not None or bool(with_template)
        self.rules: MediaRules = media_rules(checkpoint.processor, spec.limits)
        self._placeholders = self._find_placeholders()
        self._heads: OrderedDict[_Key, tuple[Head, str]] = OrderedDict()
        self._ranks = join_pixels() if spec.tensor_parallel > 1 else None  # else a worker of a training
        self._prepared: dict[tuple[tuple[Media, ...], str], dict[str, Tensor]] = {}  # in rank 0, for `_process`
        self._lock = threading.Lock()  # processors and tokenizers change their own settings while they work

    def make(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> list[Prompt | CallReply]:
        """Return a prompt for each call, or the reply with the reason for none; in the order of the calls."""
        with self._lock:
            return self._make(calls, media)

    @property
    def reads_pixels(self) -> bool:
        """Whether this process needs the pixels of media: of ranks with a processor the first alone does."""
        return self._processor is None or self._ranks is None or self._ranks.has_pixels

    def prepare(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> None:
        """Preprocess the media of calls that come next, for `make` in another thread; of ranks the first alone does."""
        firsts = {call.media: call for call in reversed(calls) if call.media}
        if self._ranks is None:
            for call in firsts.values():
                self.make([call], media)
        elif self._processor is not None:
            with self._lock:
                cached = {items for items, _, _ in self._heads}
                self._prepare_for_ranks([call for call in firsts.values() if call.media not in cached], media)

    def _prepare_for_ranks(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> None:
        self._prepared.clear()
        for call in calls:
            try:
                text, _ = self._render(call, media)
                self._prepared[call.media, text] = self._run_processor(call, text, media)
            except BUGS:
                raise
            except ROW_ERRORS:  # `make` meets it again, and answers with it
                continue

    def _make(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> list[Prompt | CallReply]:
        results: dict[int, Prompt | CallReply] = {}
        tails: dict[int, tuple[Head, str]] = {}
        blank = frozenset() if self._processor else blank_media(media)
        for index, call in enumerate(calls):
            try:
                prepared = self._prepare(without_media(call, blank), media)
            except BUGS:
                raise
            except ROW_ERRORS as error:
                results[index] = failure_reply(call, error, "preprocess")
            else:
                if isinstance(prepared, Prompt):
                    results[index] = prepared
                else:
                    tails[index] = prepared
        encoded = self._encode([text for _, text in tails.values()])
        for (index, (head, _)), ids in zip(tails.items(), encoded, strict=True):
            if isinstance(ids, Exception):
                results[index] = failure_reply(calls[index], ids, "preprocess")
            else:
                prompt_ids = np.concatenate([head.ids, ids[1:]]) if head.media else ids
                results[index] = Prompt(call=calls[index], head=head, ids=prompt_ids)
        return [results[index] for index in range(len(calls))]

    def _prepare(self, call: Call, media: Mapping[Media, Frames]) -> Prompt | tuple[Head, str]:
        """Return a call's head and the text still to be tokenized; or the whole prompt where they cannot be separated.

        The text starts at the last placeholder, included: a special token, at which every tokenizer splits.
        """
        text, count = self._render(call, media)
        split_at = max((text.rfind(token) for token in self._placeholders), default=-1)
        occurrences = sum(text.count(token) for token in self._placeholders)
        if occurrences > (0 if self._format else count):
            raise ValueError(f"the text holds an image placeholder of the model: {', '.join(self._placeholders)}")
        if not call.media:
            return NO_HEAD, text
        if occurrences < count:
            return self._process(call, text, media)
        placeholder = next(token for token in self._placeholders if text.startswith(token, split_at))
        following_text = text[split_at + len(placeholder) :]
        key = (call.media, text[:split_at], _opening_kind(following_text))
        if key not in self._heads:
            prompt = self._process(call, text, media)
            for separator in _SEPARATORS:
                (tail_ids,) = self._encode([placeholder + separator + following_text])
                if isinstance(tail_ids, Exception):
                    raise tail_ids
                split = len(prompt.ids) - len(tail_ids) + 1
                if len(prompt.head.ids) <= split and np.array_equal(prompt.ids[split:], tail_ids[1:]):
                    self._cache(key, prompt.split(split), separator)
                    break
            else:
                return prompt
        self._heads.move_to_end(key)
        head, separator = self._heads[key]
        return head, placeholder + separator + following_text

    def _render(self, call: Call, media: Mapping[Media, Frames]) -> tuple[str, int]:
        if not self._has_format:
            raise ValueError(
                "the model has no chat template; set chat_format in its entry (vicuna, or plain for unformatted text), "
                "or run MAIA's unimodal setting"
            )
        if self._format is not None:
            if self._processor is None and call.media:
                raise ValueError("the model is text-only, and the prompt holds a picture or clip")
            return self._format.render(self._turns(call)), len(call.media)
        turns = [(turn.role, self._content(turn, media)) for turn in self._turns(call)]
        count = sum(part["type"] != "text" for _, parts in turns for part in parts)
        messages: list[dict[str, Any]] = [{"role": role, "content": parts} for role, parts in turns]
        if self._template is self._tokenizer:
            token = getattr(self._processor, "image_token", "")
            for message in messages:
                message["content"] = "".join(part.get("text", token) for part in message["content"])
        return self._with_start(render_template(self._template, messages)), count

    def _with_start(self, rendered: str) -> str:
        """Add the first token where the processor does so itself, and neither template nor tokenizer would."""
        start = self._tokenizer.bos_token or self._tokenizer.eos_token
        if type(self._processor).__name__ not in _STARTING_PROCESSORS or rendered.startswith(start):
            return rendered
        return f"{start}{rendered}"

    def _turns(self, call: Call) -> tuple[Turn, ...]:
        """Return the call's turns after the spec's system prompt, merged with the call's own system turn."""
        if self._system is None:
            return call.turns
        first, rest = Turn("system", (Text(self._system),)), call.turns
        if rest and rest[0].role == "system":
            first, rest = Turn("system", (Text(f"{self._system}\n\n"), *rest[0].parts)), rest[1:]
        return (first, *rest)

    def _content(self, turn: Turn, media: Mapping[Media, Frames]) -> list[dict[str, str]]:
        """Return a turn's parts as chat templates name them; adjacent texts are merged."""
        content: list[dict[str, str]] = []
        for part in turn.parts:
            if isinstance(part, Media):
                if part not in media:
                    raise ValueError(f"the call has no pixels for the {part.kind} {part.source}")
                content.extend(template_parts(part, media[part], self.rules))
            elif not isinstance(part, Text):
                raise TypeError(f"{type(part).__name__} must be replaced by text before it reaches an engine")
            elif content and content[-1]["type"] == "text":
                content[-1] = {"type": "text", "text": content[-1]["text"] + part.text}
            else:
                content.append({"type": "text", "text": part.text})
        return content

    def _run_processor(self, call: Call, text: str, media: Mapping[Media, Frames]) -> dict[str, Tensor]:
        """Return the tensors of a prompt, floating-point pixels in the model's type."""
        assert self._processor is not None
        pixels = media_inputs(call.media, media, self.rules)
        arguments: dict[str, Any] = {}
        if pixels.images:
            arguments |= {"images": [pixels.images], "images_kwargs": dict(self.rules.images_kwargs)}
        if pixels.videos:
            videos_kwargs = {**self.rules.videos_kwargs, "video_metadata": pixels.metadata}
            arguments |= {"videos": [pixels.videos], "videos_kwargs": videos_kwargs}
        text_kwargs = {"add_special_tokens": self._adds_special_tokens(text)}
        outputs = self._processor(text=[text], return_tensors="pt", text_kwargs=text_kwargs, **arguments)
        return {
            name: t.to(self._dtype) if name.startswith("pixel_values") and t.is_floating_point() else t
            for name, t in outputs.items()
            if isinstance(t, Tensor)
        }

    def _process(self, call: Call, text: str, media: Mapping[Media, Frames]) -> Prompt:
        def process() -> dict[str, Tensor]:
            return self._prepared.pop((call.media, text), None) or self._run_processor(call, text, media)

        tensors = self._ranks.share(process) if self._ranks else process()
        ids = tensors.pop("input_ids")
        tensors.pop("attention_mask", None)
        text_inputs = {name: tensors.pop(name) for name in _TEXT_INPUTS if name in tensors}
        extras = {name: t for name, t in tensors.items() if t.shape == ids.shape or name == _CROSS_ATTENTION}
        inputs = {name: t for name, t in tensors.items() if name not in extras}
        tokens = ids[0].numpy()
        pixel_positions = np.flatnonzero(np.isin(tokens, self._pixel_token_ids()))
        head = Head(media=call.media, ids=tokens, inputs=inputs, extras=extras)
        prompt = Prompt(call=call, head=head, ids=tokens)
        end = int(pixel_positions[-1]) + 1 if len(pixel_positions) else len(tokens)
        head = self._deduplicate(prompt.split(end))
        return Prompt(call=call, head=head, ids=tokens, text_inputs=text_inputs)

    def _deduplicate(self, head: Head) -> Head:
        """Return an earlier call's equal head if there is one, so that its pixels are held once."""
        key = (head.media, head.ids.tobytes(), _opening_kind(""))
        if head.media and key not in self._heads:
            self._cache(key, head, "")
        return self._heads[key][0] if head.media else head

    def _cache(self, key: _Key, head: Head, separator: str) -> None:
        self._heads[key] = head, separator
        while len(self._heads) > 1:
            if sum({id(cached.inputs): cached.nbytes for cached, _ in self._heads.values()}.values()) <= _CACHE_BYTES:
                return
            self._heads.popitem(last=False)

    def _encode(self, texts: Sequence[str]) -> list[np.ndarray | Exception]:
        if not texts:
            return []
        try:
            encoded = self._tokenizer(list(texts), add_special_tokens=self._adds_special_tokens(texts[0]))["input_ids"]
        except BUGS:
            raise
        except ROW_ERRORS as error:
            if len(texts) == 1:
                return [error]
            return [ids for text in texts for ids in self._encode([text])]
        return [np.asarray(ids, dtype=np.int64) for ids in encoded]

    def _adds_special_tokens(self, text: str) -> bool:
        """Return whether the tokenizer adds its first token: not for text-only models or if the template added it."""
        if (self._processor is None and self._format is None) or text.startswith(self._placeholders):
            return False
        bos = self._tokenizer.bos_token
        return bos is None or not text.startswith(bos)

    def _find_placeholders(self) -> tuple[str, ...]:
        """Return the single special tokens that stand for a picture or a clip in the template's text."""
        attributes = (getattr(self._processor, name, None) for name in ("image_token", "video_token"))
        tokens = (getattr(token, "content", token) for token in attributes)
        return tuple(t for t in tokens if t and len(self._tokenizer(t, add_special_tokens=False)["input_ids"]) == 1)

    def _pixel_token_ids(self) -> list[int]:
        """Return the ids of the tokens that pixels replace, by processor, configuration and placeholders."""
        ids: set[Any] = {self._tokenizer.convert_tokens_to_ids(token) for token in self._placeholders}
        ids.update(getattr(self._config, name, None) for name in _PIXEL_IDS)
        for name in ("image_token_id", "video_token_id"):
            ids.add(getattr(self._processor, name, None))
        for name in ("image_token_ids", "video_token_ids"):
            ids.update(getattr(self._processor, name, None) or ())
        return [value for value in ids if value is not None]


def _opening_kind(text: str) -> str:
    """Classify the first character of a text by what decides how a processor joins it to a picture."""
    if not text:
        return ""
    return " " if text[0].isspace() else "<" if text[0] == "<" else "x"
