from __future__ import annotations

import shutil
from pathlib import Path

from models.engines.transformers.chat_formats import FORMS
from models.engines.transformers.engine import TransformersEngine
from models.messages import Answer, Failure, Text, Turn, user
from models.spec import ModelSpec
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import MEDIA, PICTURE, calls_about

VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions. USER: Hello! ASSISTANT:"
)


def test_vicuna_as_its_makers_write_it() -> None:
    form, first = FORMS["vicuna"], user("Hello!")
    assert form.write([first]) == VICUNA
    talk = [first, Turn("assistant", (Text("Hi!"),)), user("How are you?")]
    assert form.write(talk) == f"{VICUNA} Hi!</s>USER: How are you? ASSISTANT:"
    assert form.write(talk[:2]) == f"{VICUNA} Hi!", "an answer that has begun is left open"
    assert form.write([Turn("system", (Text("Be brief."),)), first]) == "Be brief.\nUSER: Hello! ASSISTANT:"


def test_a_model_without_a_template_says_what_it_needs(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    bare = shutil.copytree(checkpoint_of("llama"), tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    calls = calls_about((), (PICTURE,), limits=(2,))
    spec = ModelSpec(engine="transformers", model=str(bare), device="cpu", dtype="float32")
    outcomes = [reply.outcome for reply in TransformersEngine(spec).generate(calls, MEDIA)]
    assert all(isinstance(one, Failure) and "form: vicuna" in one.message for one in outcomes)
    told = TransformersEngine(spec.model_copy(update={"form": "vicuna"})).generate(calls, MEDIA)
    outcomes = [
        reply.outcome for reply in sorted(told, key=lambda reply: [c.call_id for c in calls].index(reply.call_id))
    ]
    words, seen = outcomes[: len(calls) // 2], outcomes[len(calls) // 2 :]
    assert all(isinstance(one, Answer) for one in words)
    assert all(isinstance(one, Failure) and "text alone" in one.message for one in seen)
