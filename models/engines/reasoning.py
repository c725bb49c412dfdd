"""Add thinking tokens to the limits of reasoning models, and split their reasoning from their answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from models.engines.base import Engine, EngineWrapper
from models.entry_fields import ReasoningMarkers
from models.messages import Answer, Call, CallReply, Frames, Media


class ReasoningEngine(EngineWrapper):
    """Forwards calls with `tokens` more for their answers, and moves what the model thought into `Answer.reasoning`.

    A model that is still thinking at the limit has given no answer: the text is empty, the finish reason `length`.
    """

    def __init__(self, engine: Engine, tokens: int, markers: ReasoningMarkers) -> None:
        super().__init__(engine)
        self._tokens, self._markers = tokens, markers

    def generate(self, calls: Sequence[Call], media: Mapping[Media, Frames]) -> Iterator[CallReply]:
        """Yield one reply for each call, in any order."""
        scored = {call.call_id for call in calls if call.scored}
        longer = [call if call.scored else _with_more_tokens(call, self._tokens) for call in calls]
        for reply in self.engine.generate(longer, media):
            if isinstance(reply.outcome, Answer) and reply.call_id not in scored:
                yield replace(reply, outcome=self._split(reply.outcome))
            else:
                yield reply

    def _split(self, answer: Answer) -> Answer:
        if answer.reasoning is not None:  # an endpoint that splits them itself
            return answer
        reasoning, text = split_reasoning(answer.text, self._markers, is_truncated=answer.finish_reason == "length")
        return replace(answer, text=text, reasoning=reasoning)


def split_reasoning(text: str, markers: ReasoningMarkers, *, is_truncated: bool = False) -> tuple[str | None, str]:
    """Return the reasoning, None if there is none, and the answer, which follows the last end marker.

    The start may be missing, where the chat template has written it into the prompt. Thoughts without an end are all of
    the text if it begins with the start marker; where it does not, they cannot be distinguished from an answer, unless
    the template opens them (`opened`) and the text `is_truncated` at the limit.
    """
    before, end, after = text.rpartition(markers.end)
    if end:
        return before.strip().removeprefix(markers.start).strip(), after.strip()
    if text.lstrip().startswith(markers.start):
        return text.lstrip().removeprefix(markers.start).strip(), ""
    if markers.opened and is_truncated:
        return text.strip(), ""
    return None, text


def _with_more_tokens(call: Call, tokens: int) -> Call:
    generation = replace(call.generation, max_new_tokens=call.generation.max_new_tokens + tokens)
    return replace(call, generation=generation)
