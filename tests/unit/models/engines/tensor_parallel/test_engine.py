"""Groups of ranks: the same answers as one process, half of the weights in each, and no survivor when one dies."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models.engines import build_engine
from models.engines.base import Engine
from models.engines.tensor_parallel.engine import TensorParallelEngine
from models.engines.tensor_parallel.log_forwarding import own_level, relay
from models.engines.tensor_parallel.protocol import pack_calls, pack_reply, unpack_calls, unpack_reply
from models.errors import EngineDiedError, EngineUnreachableError
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, user
from models.spec import ModelSpec
from tests.support.rank_lines import a_rank_that_logs
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    MEDIA,
    PICTURE,
    Alone,
    calls_about,
    excused,
    texts,
)

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),  # peft's
]


def ranked(folder: Path | str, ranks: int = 2, **more: object) -> Engine:
    raw = {"engine": "transformers", "model": str(folder), "device": "cpu", "tensor_parallel": ranks, **more}
    return build_engine("m", ModelSpec.model_validate(raw))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # ended, and its parent has asked about it
        return False


@pytest.fixture(scope="module")
def adapter(checkpoint_of: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LoRA layers on weights that are divided by columns and by rows."""
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("adapter")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"], init_lora_weights=False)
        get_peft_model(Alone(checkpoint_of("qwen2_5_vl")).model, config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pair(checkpoint_of: Checkpoints, adapter: Path) -> Iterator[TensorParallelEngine]:
    """Two ranks of one model with an adapter."""
    engine = ranked(checkpoint_of("qwen2_5_vl"), adapter=str(adapter))
    assert isinstance(engine, TensorParallelEngine)
    yield engine
    engine.close()


def test_two_ranks_answer_like_one_process(
    pair: TensorParallelEngine, checkpoint_of: Checkpoints, adapter: Path
) -> None:
    from peft import PeftModel

    alone = Alone(checkpoint_of("qwen2_5_vl"))
    whole = sum(p.numel() * p.element_size() for p in alone.model.parameters())
    alone.model = PeftModel.from_pretrained(alone.model, adapter).eval()
    calls = calls_about((PICTURE,), (CLIP,), ())
    replies = list(pair.generate(calls, MEDIA))
    assert not excused(texts(replies), {call.call_id: alone.ask(call) for call in calls})
    assert sum(isinstance(r.outcome, Answer) and r.outcome.cached_tokens > 0 for r in replies) >= 8, "beginnings shared"
    vision = sum(p.numel() * p.element_size() for name, p in alone.model.named_parameters() if ".visual." in name)
    assert all(held < (whole - vision) * 0.55 + vision for held in pair.parameter_bytes), "the tower is whole in each"


def test_a_failure_in_all_ranks_is_a_reply(pair: TensorParallelEngine) -> None:
    unknown = Call(
        call_id="0", turns=(user(Media("image", "f" * 64), "Perché?"),), generation=calls_about(())[0].generation
    )
    good = replace(calls_about(())[0], call_id="1")
    replies = {reply.call_id: reply.outcome for reply in pair.generate([unknown, good], MEDIA)}
    assert isinstance(replies["0"], Failure)
    assert isinstance(replies["1"], Answer)


def test_one_dead_rank_takes_all_down(pair: TensorParallelEngine) -> None:
    pids = pair.pids
    assert len(pids) == 2
    assert all(is_alive(pid) for pid in pids)
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(EngineDiedError, match=r"rank 1 of 2 died \(signal 9\)"):
        list(pair.generate(calls_about(()), MEDIA))
    assert not any(is_alive(pid) for pid in pids)
    with pytest.raises(EngineDiedError, match="closed"):
        list(pair.generate(calls_about(()), MEDIA))


def test_more_ranks_than_key_heads(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    config = AutoConfig.from_pretrained(checkpoint_of("llama"))
    config.num_key_value_heads = 1
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(checkpoint_of("llama")).save_pretrained(tmp_path)
    calls = [*calls_about(()), *(replace(call, call_id=f"b{call.call_id}") for call in calls_about((), num_beams=2))]
    alone = Alone(tmp_path)
    engine = ranked(tmp_path)
    try:
        assert not excused(texts(list(engine.generate(calls, {}))), {call.call_id: alone.ask(call) for call in calls})
    finally:
        engine.close()


def test_heads_that_cannot_be_divided(checkpoint_of: Checkpoints, adapter: Path) -> None:
    with pytest.raises(EngineUnreachableError, match=r"4 attention heads over 2 key heads .* can be 1, 2, 4"):
        ranked(checkpoint_of("qwen2_5_vl"), ranks=3)
    with pytest.raises(EngineUnreachableError, match="set tensor_parallel to 2"):
        ranked(checkpoint_of("qwen2_5_vl"), ranks=4, adapter=str(adapter))


def test_a_model_without_a_plan_is_one_process_and_says_so(
    checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaConfig

    monkeypatch.setattr(LlamaConfig, "base_model_tp_plan", None)
    engine = ranked(checkpoint_of("llama"))
    assert not isinstance(engine, TensorParallelEngine)
    (warning,) = engine.warnings
    assert "no tensor-parallel plan for llama" in warning
    assert len(texts(list(engine.generate(calls_about(()), {})))) == 5


def test_a_model_that_is_not_there() -> None:
    with pytest.raises(EngineUnreachableError, match="there is no folder"):
        ranked("/nowhere/at/all")


@pytest.mark.parametrize(
    ("level", "rank", "told"),
    [
        (logging.INFO, 0, ["info of ours", "warning of ours", "error of a library"]),
        (logging.WARNING, 0, ["warning of ours", "error of a library"]),
        (logging.INFO, 1, ["error of a library"]),
    ],
)
def test_lines_of_ranks_are_their_parents(
    level: int, rank: int, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=a_rank_that_logs, args=(theirs, level, rank))
    process.start()
    theirs.close()
    caplog.set_level(logging.INFO)
    with contextlib.suppress(EOFError):
        while True:
            relay(json.loads(ours.recv_bytes()), rank)
    process.join()
    assert [record.message.splitlines()[0] for record in caplog.records] == [f"rank {rank}: {text}" for text in told]
    assert {record.name for record in caplog.records} <= {"models.engines.some", "library"}
    assert "ValueError: why" in caplog.records[-1].message


def test_what_an_engine_says_in_its_ranks_is_said_here(
    checkpoint_of: Checkpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(own_level())
    engine = ranked(checkpoint_of("llama"), share_prefix=False)
    engine.close()
    lines = [(record.name, record.message) for record in caplog.records]
    told = "rank 0: llama answers in plain batches: share_prefix is false"
    assert lines == [("models.engines.transformers.engine", told)]


def test_messages_cross_unchanged() -> None:
    calls = calls_about((PICTURE,), (CLIP,), ())
    media = {**MEDIA, PICTURE: replace(MEDIA[PICTURE], encoded=b"jpeg")}
    head, *rest = (bytes(message) for message in pack_calls(calls, media))
    queue = iter(rest)
    got_calls, got_media = unpack_calls(head, lambda: next(queue))
    assert got_calls == calls
    assert _plain(got_media) == _plain(media)
    for outcome in (Answer(text="Sì", cached_tokens=3), Failure(type="compute", message="no")):
        reply = CallReply(call_id="a/0", outcome=outcome, latency_s=0.5)
        assert unpack_reply(pack_reply(reply)) == reply


def _plain(media: Mapping[Media, Frames]) -> Sequence[object]:
    return [
        (one, f.pixels.tolist(), f.seconds, f.fps, f.total_frames, f.encoded)
        for one, f in sorted(media.items(), key=str)
    ]
