from __future__ import annotations

import shutil
from pathlib import Path

from models.engines.transformers.chat_formats import CHAT_FORMATS
from models.engines.transformers.engine import TransformersEngine
from models.messages import Answer, Failure, Text, Turn, user
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import MEDIA, PICTURE, calls_about

VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions. USER: Hello! ASSISTANT:"
)


def test_vicuna_format_matches_fastchat() -> None:
    chat_format, first = CHAT_FORMATS["vicuna"], user("Hello!")
    assert chat_format.render([first]) == VICUNA
    turns = [first, Turn("assistant", (Text("Hi!"),)), user("How are you?")]
    assert chat_format.render(turns) == f"{VICUNA} Hi!</s>USER: How are you? ASSISTANT:"
    assert chat_format.render(turns[:2]) == f"{VICUNA} Hi!", "a last assistant turn is left open"
    assert chat_format.render([Turn("system", (Text("Be brief."),)), first]) == "Be brief.\nUSER: Hello! ASSISTANT:"


def test_model_without_a_template_reports_the_remedy(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    bare = shutil.copytree(checkpoint_of("llama"), tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    calls = calls_about((), (PICTURE,), limits=(2,))
    spec = ModelSpec(engine="transformers", model=str(bare), device="cpu", dtype="float32")
    outcomes = [reply.outcome for reply in TransformersEngine(spec).generate(calls, MEDIA)]
    assert all(isinstance(outcome, Failure) and "set chat_format" in outcome.message for outcome in outcomes)
    replies = TransformersEngine(spec.model_copy(update={"chat_format": "vicuna"})).generate(calls, MEDIA)
    outcomes = [
        reply.outcome for reply in sorted(replies, key=lambda reply: [c.call_id for c in calls].index(reply.call_id))
    ]
    text_only, with_picture = outcomes[: len(calls) // 2], outcomes[len(calls) // 2 :]
    assert all(isinstance(outcome, Answer) for outcome in text_only)
    assert all(isinstance(outcome, Failure) and "text-only" in outcome.message for outcome in with_picture)
