"""Models on vLLM: one offline engine per replica, with vLLM's tensor parallelism. Checked against vLLM 0.33.0.

Optional: `pip install 'vlmsweep[vllm]'`. Importing this module imports vllm, so that its absence is reported by name.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import jinja2
import vllm
from vllm.model_executor.model_loader import get_model_cls

from models.engines.transformers.chat_formats import render_template
from models.engines.transformers.checkpoint import check_files
from models.engines.transformers.fetch import ensure_local
from models.engines.transformers.media_inputs import media_rules
from models.engines.vllm.core_watch import CoreWatch
from models.engines.vllm.prompt_media import PromptMedia, has_video_placeholder, processor_settings
from models.engines.vllm.settings import engine_settings, lora_request
from models.engines.vllm.stream import PromptStream, Submission, rejection
from models.engines.weights import check_checkpoint
from models.errors import EngineUnreachableError
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, Text, Turn, decoding_name, logprobs_to_text
from models.spec import ModelSpec
from models.weight_headers import gguf_file

log = logging.getLogger(__name__)

_NO_TEMPLATE = (
    "the model has no chat template, and vllm gets none of ours: say `engine: transformers` in its entry, with "
    "chat_format (vicuna, or plain for unformatted text) where it is no BLIP"
)
_LOAD_ERRORS = (OSError, ValueError, RuntimeError, ImportError, LookupError, AttributeError, AssertionError)
"""The last two where a field of the configuration is absent, or a weight has another shape than vLLM expects."""
_PLACES = 256  # of a batch, where vLLM does not say
_UNSCORABLE = Failure(type="unscorable", message="a text has no token to score")


class VLLMEngine:
    """Answers calls with vLLM's batches, those of several threads together.

    It has no beam search: requests with beams are decoded greedily.

    All calls of a media group are submitted together and name their media by content hash, so that vLLM's caches of
    prefixes, encoder outputs and media hit. A prompt that vLLM rejects fails alone.

    Processors with a chat template get media as parts of a turn. A model with a tokenizer only (InternVL2,
    Phi-3.5-vision, Molmo) gets text with vLLM's placeholders. Where a model takes no clips, it gets frames as pictures.
    """

    warnings: tuple[str, ...] = ()
    has_own_timeout = False

    def __init__(self, spec: ModelSpec, *, make: Callable[..., Any] | None = None) -> None:
        """Load the weights, or raise `EngineUnreachableError`; `make` creates the engine, `vllm.LLM` by default."""
        from transformers import AutoProcessor, PreTrainedTokenizerBase

        if gguf_file(spec.model):
            spec = spec.model_copy(update={"model": ensure_local(spec).source})  # the folder it is converted into
        self._spec = spec
        is_folder = Path(spec.model).is_dir()
        revision = None if is_folder else spec.revision
        if is_folder:
            launched = ensure_local(spec)
            check_checkpoint(launched)
            if not spec.trust_remote_code:
                check_files(launched)
        try:
            self._processor = AutoProcessor.from_pretrained(
                spec.model, revision=revision or "main", trust_remote_code=spec.trust_remote_code
            )
            self._llm: Any = (make or vllm.LLM)(**engine_settings(spec, revision, self._processor))
        except _LOAD_ERRORS as error:
            raise EngineUnreachableError(f"the model {spec.model} cannot be loaded by vllm: {error}") from error
        self._watch = CoreWatch(self._llm)
        self._has_warned = False
        config = getattr(getattr(self._llm.llm_engine, "vllm_config", None), "scheduler_config", None)
        self._places: int = spec.batch_size or getattr(config, "max_num_seqs", None) or _PLACES
        self._stream = PromptStream(self._llm, lora_request(spec), self._places)
        self._max_len: int = self._llm.model_config.max_model_len
        self._template: Any = self._processor
        self._placeholder: Callable[[str, int], str | None] | None = None
        if isinstance(self._processor, PreTrainedTokenizerBase) or not self._processor.chat_template:
            self._template = self._llm.get_tokenizer()
            placeholder = getattr(get_model_cls(self._llm.model_config), "get_placeholder_str", _reject_media)
            self._placeholder, takes_video = placeholder, has_video_placeholder(placeholder)
            self._rules = replace(media_rules(None, spec.limits), kind="video" if takes_video else "image")
        else:
            self._rules = media_rules(self._processor, spec.limits)
        self._processor_settings = processor_settings(self._rules)

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call; `EngineDiedError` when vLLM ended or failed: a new engine is needed."""
        submissions: list[Submission] = []
        self._warn_of_beams(calls)
        for call in calls:
            try:
                parts = (
                    self._scored_texts(call, media) if call.scored else [Submission(call, self._prompt(call, media))]
                )
            except (ValueError, jinja2.TemplateError) as error:  # a text or medium, or their order, is not supported
                yield CallReply(call_id=call.call_id, outcome=rejection(error))
                continue
            if call.scored and not all(part.scored for part in parts):
                yield CallReply(call_id=call.call_id, outcome=_UNSCORABLE)
            else:
                submissions += parts
        wanted = Counter(submission.call.call_id for submission in submissions)
        answered: dict[str, list[tuple[int, Any, float]]] = {}
        for result in self._stream.complete(submissions):
            call = submissions[result[0]].call
            results = answered.setdefault(call.call_id, [])
            results.append(result)
            if len(results) < wanted[call.call_id]:
                continue
            results.sort(key=itemgetter(0))
            seconds = sum(each[2] for each in results)
            failures = [output for _, output, _ in results if isinstance(output, Failure)]
            answers = [(submissions[index], output) for index, output, _ in results]
            if failures:
                yield CallReply(call_id=call.call_id, outcome=failures[0])
            else:
                outcome = _read_scores(answers) if call.scored else self._read_output(*answers[0])
                yield CallReply(call_id=call.call_id, outcome=outcome, latency_s=seconds)

    @property
    def wanted_calls(self) -> int:
        """Return how many open calls keep its batches full: two for each place of a batch."""
        return 2 * self._places

    def close(self) -> None:
        """End vLLM's processes and release the memory."""
        self._watch.close()
        self._stream.close()
        core = getattr(getattr(self._llm, "llm_engine", None), "engine_core", None)
        if core is not None:
            core.shutdown()
        self._llm = None

    def _warn_of_beams(self, calls: Sequence[Call]) -> None:
        """Log once that answers are not decoded as asked; each says so in its `decoding`."""
        beams = max((call.generation.num_beams for call in calls), default=1)
        if beams > 1 and not self._has_warned:
            self._has_warned = True
            log.warning("vllm has no beam search: requests with %d beams are decoded greedily", beams)

    def _scored_texts(self, call: Call, media: Mapping[Media, Frames]) -> list[Submission]:
        """Return one prompt for each text, tokenized as the `transformers` engine does: by itself, after the turns."""
        tokenizer = self._llm.get_tokenizer()
        "".join(call.scored).encode()  # as in `render_template`
        prompt = self._prompt(call, media) if call.turns else {}
        if call.turns:
            before: list[int] = tokenizer(prompt.pop("prompt"), add_special_tokens=False)["input_ids"]
        else:
            before = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        submissions = []
        for text in call.scored:
            ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
            # The first token of all has nothing to follow from.
            scored = len(ids) if before else max(0, len(ids) - 1)
            submissions.append(Submission(call, {"prompt_token_ids": [*before, *ids], **prompt}, scored))
        return submissions

    def _prompt(self, call: Call, media: Mapping[Media, Frames]) -> dict[str, Any]:
        turns = call.turns
        if self._spec.system and turns[0].role != "system":
            turns = (Turn("system", (Text(self._spec.system),)), *turns)
        if not getattr(self._template, "chat_template", None):
            raise ValueError(_NO_TEMPLATE)
        prompt_media = PromptMedia(self._placeholder, self._rules)
        messages = [{"role": turn.role, "content": prompt_media.content(turn, media)} for turn in turns]
        text = render_template(self._template, messages)
        if not prompt_media.data:
            return {"prompt": text}
        prompt = {"prompt": text, "multi_modal_data": prompt_media.data, "multi_modal_uuids": prompt_media.names}
        return prompt | ({"mm_processor_kwargs": self._processor_settings} if self._processor_settings else {})

    def _read_output(self, submission: Submission, output: Any) -> Answer | Failure:
        """Return the answer; a failure where prompt and limit exceed the model's context, which would cut the answer.

        The `transformers` engine fails these calls too, before it computes anything.
        """
        first, generation = output.outputs[0], submission.call.generation
        tokens, new = len(output.prompt_token_ids or ()), generation.max_new_tokens
        if tokens + new > self._max_len:
            message = f"{tokens} tokens of prompt and {new} of answer exceed {self._max_len}"
            return Failure(type="context_length", message=message)
        return Answer(
            text=first.text,
            finish_reason=first.finish_reason or "stop",
            input_tokens=tokens,
            output_tokens=len(first.token_ids),
            cached_tokens=output.num_cached_tokens or 0,
            decoding=decoding_name(generation, beams=False),
        )


def _reject_media(kind: str, number: int) -> str:
    raise ValueError(f"the model is text-only, and the prompt holds {kind} {number}")


def _read_scores(parts: Sequence[tuple[Submission, Any]]) -> Answer:
    means, counts = [], []
    for submission, output in parts:
        scored = list(zip(output.prompt_token_ids, output.prompt_logprobs, strict=True))[-submission.scored :]
        means.append(sum(logprobs[token].logprob for token, logprobs in scored) / submission.scored)
        counts.append(submission.scored)
    return Answer(
        text=logprobs_to_text(means, counts),
        input_tokens=sum(len(output.prompt_token_ids) for _, output in parts),
        cached_tokens=sum(output.num_cached_tokens or 0 for _, output in parts),
    )
