"""Rank groups: answers as by one process, half of the weights in each, and the group ends as a whole."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.engines import load_engine
from models.engines.base import Engine
from models.engines.launch import LaunchedModel
from models.engines.tensor_parallel.engine import TensorParallelEngine
from models.engines.tensor_parallel.log_forwarding import effective_level, relay
from models.engines.tensor_parallel.protocol import pack_calls, pack_reply, unpack_calls, unpack_reply
from models.engines.transformers.sharding import plan_ranks
from models.errors import EngineDiedError, EngineUnreachableError, RankBugError
from models.messages import Answer, Call, CallReply, Failure, Frames, Media, StepOutput, user
from models.spec import ModelSpec
from tests.support.paths import ROOT
from tests.support.rank_limits import (
    rank_main_that_notes_pixels,
    rank_main_with_limit,
    rank_main_with_limit_in_one,
)
from tests.support.rank_lines import log_as_rank
from tests.support.turns import in_turns
from tests.unit.models.engines.conftest import Checkpoints
from tests.unit.models.engines.transformers.reference_answers import (
    CLIP,
    MEDIA,
    PICTURE,
    ReferenceModel,
    calls_about,
    near_ties,
    texts,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),  # peft's
]


def tensor_parallel_engine(folder: Path | str, ranks: int = 2, **more: object) -> Engine:
    raw = {"engine": "transformers", "model": str(folder), "device": "cpu", "tensor_parallel": ranks, **more}
    return load_engine("m", ModelSpec.model_validate(raw))


def pids_of(engine: Engine) -> tuple[int, ...]:
    return tuple(process.pid for process in engine._processes)  # type: ignore[attr-defined]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # ended, and its parent has reaped it
        return False


@pytest.fixture
def forked_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork ranks from a process that has imported for all, where starts and ends of ranks are not what is tested."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["models.engines.transformers.engine", "transformers.modeling_utils"])
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)


@pytest.fixture(scope="module")
def adapter(checkpoint_of: Checkpoints, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LoRA layers on weights that are sharded by columns and by rows."""
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("adapter")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"], init_lora_weights=False)
        get_peft_model(ReferenceModel(checkpoint_of("qwen2_5_vl")).model, config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pair(checkpoint_of: Checkpoints, adapter: Path) -> Iterator[TensorParallelEngine]:
    """Two ranks of one model with an adapter."""
    engine = tensor_parallel_engine(checkpoint_of("qwen2_5_vl"), adapter=str(adapter))
    assert isinstance(engine, TensorParallelEngine)
    yield engine
    engine.close()


def test_two_ranks_answer_like_one_process(
    pair: TensorParallelEngine, checkpoint_of: Checkpoints, adapter: Path
) -> None:
    from peft import PeftModel

    reference = ReferenceModel(checkpoint_of("qwen2_5_vl"))
    total = sum(p.numel() * p.element_size() for p in reference.model.parameters())
    reference.model = PeftModel.from_pretrained(reference.model, adapter).eval()
    calls = calls_about((PICTURE,), (CLIP,), ())
    replies = list(pair.generate(calls, MEDIA))
    assert not near_ties(texts(replies), {call.call_id: reference.answer(call) for call in calls})
    assert sum(isinstance(r.outcome, Answer) and r.outcome.cached_tokens > 0 for r in replies) >= 8, (
        "prefixes are shared"
    )
    vision = sum(p.numel() * p.element_size() for name, p in reference.model.named_parameters() if ".visual." in name)
    assert all(rank_bytes < (total - vision) * 0.55 + vision for rank_bytes in pair.parameter_bytes), (
        "every rank holds the whole tower"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("forked_ranks")
@pytest.mark.parametrize("architecture", in_turns(("qwen3_5", "gemma4", "qwen3_5_moe")))
def test_ranks_go_on_from_the_states_of_a_shared_prefix(
    architecture: str, checkpoint_of: Checkpoints, caplog: pytest.LogCaptureFixture
) -> None:
    calls = calls_about((CLIP,), limits=(1, 6, 16))
    reference = ReferenceModel(checkpoint_of(architecture))
    engine = tensor_parallel_engine(checkpoint_of(architecture))
    assert isinstance(engine, TensorParallelEngine)
    replies = list(engine.generate(calls, MEDIA))
    engine.close()
    assert not near_ties(texts(replies), {call.call_id: reference.answer(call) for call in calls})
    cached = [reply.outcome.cached_tokens for reply in replies if isinstance(reply.outcome, Answer)]
    assert sorted(tokens > 0 for tokens in cached) == [False, True, True, True, True]
    assert not [record for record in caplog.records if "padded batches" in record.getMessage()]


def test_failure_in_all_ranks_is_a_reply(pair: TensorParallelEngine) -> None:
    unknown = Call(
        call_id="0", turns=(user(Media("image", "f" * 64), "Perché?"),), generation=calls_about(())[0].generation
    )
    good = replace(calls_about(())[0], call_id="1")
    replies = {reply.call_id: reply.outcome for reply in pair.generate([unknown, good], MEDIA)}
    assert isinstance(replies["0"], Failure)
    assert isinstance(replies["1"], Answer)


def test_pixels_that_the_first_rank_rejects_are_a_reply_of_all(pair: TensorParallelEngine) -> None:
    bad = Media("image", "4" * 64)
    calls = [replace(calls_about((medium,))[0], call_id=medium.source) for medium in (bad, PICTURE)]
    media = {**MEDIA, bad: Frames(pixels=MEDIA[CLIP].pixels[0])}
    replies = {reply.call_id: reply.outcome for reply in pair.generate(calls, media)}
    failure, answer = (replies[call.call_id] for call in calls)
    assert isinstance(failure, Failure)
    assert (failure.type, isinstance(answer, Answer)) == ("preprocess", True)
    assert failure.message.startswith("ValueError: pixels are uint8")


@pytest.mark.full
@pytest.mark.usefixtures("forked_ranks")
def test_first_rank_preprocesses_once_for_all_and_ahead(
    checkpoint_of: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.engines.tensor_parallel.engine.rank_main", rank_main_that_notes_pixels)
    folder = shutil.copytree(checkpoint_of("qwen2_5_vl"), tmp_path / "m")
    engine = tensor_parallel_engine(folder)
    assert isinstance(engine, TensorParallelEngine)
    calls = calls_about((PICTURE,), (CLIP,))
    engine.prepare(calls, MEDIA)
    deadline = monotonic() + 60
    while not (folder / "processed").exists() or (folder / "processed").read_text() != "0\n0\n":
        assert monotonic() < deadline, "nothing is preprocessed ahead"
        sleep(0.05)
    replies = list(engine.generate(calls, MEDIA))
    engine.close()
    reference = ReferenceModel(folder)
    assert not near_ties(texts(replies), {call.call_id: reference.answer(call) for call in calls})
    assert (folder / "processed").read_text() == "0\n0\n", "each medium once, in rank 0"


@pytest.fixture
def small_memory(checkpoint_of: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint whose ranks run out of memory above 16 rows."""
    monkeypatch.setattr("models.engines.tensor_parallel.engine.rank_main", rank_main_with_limit)
    shutil.copytree(checkpoint_of("qwen2_5_vl"), tmp_path / "m")
    return tmp_path / "m"


def numbered(count: int) -> list[Call]:
    call = calls_about(())[0]
    return [replace(call, call_id=str(n), turns=(user(f"{n}. Perché?"),)) for n in range(count)]


@pytest.mark.usefixtures("forked_ranks")
@pytest.mark.parametrize("share_prefix", in_turns((True, False), (True,)))
def test_ranks_without_memory_go_on_with_smaller_batches_and_one_load(small_memory: Path, share_prefix: bool) -> None:
    engine = tensor_parallel_engine(small_memory, share_prefix=share_prefix)
    assert isinstance(engine, TensorParallelEngine)
    pids = pids_of(engine)
    replies = [*engine.generate(numbered(64), {}), *engine.generate(numbered(40), {})]
    assert pids_of(engine) == pids
    engine.close()
    assert [reply.outcome for reply in replies if not isinstance(reply.outcome, Answer)] == []
    assert (len(replies), sorted((small_memory / "loads").read_text().split())) == (104, ["0", "1"])


@pytest.mark.slow
def test_rank_alone_without_memory_ends_the_group_and_tells_what_may_fit(
    small_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.engines.tensor_parallel.engine.rank_main", rank_main_with_limit_in_one)
    engine = tensor_parallel_engine(small_memory, share_prefix=False)
    with pytest.raises(EngineDiedError, match="OutOfMemoryError") as raised:
        list(engine.generate(numbered(64), {}))
    assert raised.value.max_rows == 32


def test_store_of_the_ranks_listens_on_the_loopback_address_alone(pair: TensorParallelEngine) -> None:
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    listening = {line[1].rpartition(":")[0] for line in lines
                 if line[3] == "0A" and int(line[1].rpartition(":")[2], 16) == pair._store.port}  # fmt: skip
    assert listening == {"0100007F"}


def test_dead_rank_ends_the_group(pair: TensorParallelEngine) -> None:
    pids = pids_of(pair)
    assert len(pids) == 2
    assert all(is_alive(pid) for pid in pids)
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(EngineDiedError, match=r"rank 1 of 2 died \(signal 9\)"):
        list(pair.generate(calls_about(()), MEDIA))
    assert not any(is_alive(pid) for pid in pids)
    with pytest.raises(EngineDiedError, match="closed"):
        list(pair.generate(calls_about(()), MEDIA))


@pytest.mark.full
@pytest.mark.usefixtures("forked_ranks")
def test_ranks_beyond_the_key_heads_share_them(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    config = AutoConfig.from_pretrained(checkpoint_of("llama"))
    config.num_key_value_heads = 1
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(checkpoint_of("llama")).save_pretrained(tmp_path)
    calls = [*calls_about(()), *(replace(call, call_id=f"b{call.call_id}") for call in calls_about((), num_beams=2))]
    reference = ReferenceModel(tmp_path)
    engine = tensor_parallel_engine(tmp_path)
    try:
        assert not near_ties(
            texts(list(engine.generate(calls, {}))), {call.call_id: reference.answer(call) for call in calls}
        )
    finally:
        engine.close()


def test_heads_that_do_not_divide_are_reported(checkpoint_of: Checkpoints, adapter: Path) -> None:
    with pytest.raises(EngineUnreachableError, match=r"4 attention heads over 2 key heads .* can be 1, 2, 4"):
        tensor_parallel_engine(checkpoint_of("qwen2_5_vl"), ranks=3)
    with pytest.raises(EngineUnreachableError, match="set tensor_parallel to 2"):
        tensor_parallel_engine(checkpoint_of("qwen2_5_vl"), ranks=4, adapter=str(adapter))


def test_model_without_a_plan_runs_in_one_process_with_a_warning(
    checkpoint_of: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaConfig

    monkeypatch.setattr(LlamaConfig, "base_model_tp_plan", None)
    engine = tensor_parallel_engine(checkpoint_of("llama"))
    assert not isinstance(engine, TensorParallelEngine)
    (warning,) = engine.warnings
    assert warning.endswith("no tensor-parallel plan for llama: one process holds it all and shares prefixes")
    assert len(texts(list(engine.generate(calls_about(()), {})))) == 5


WITHOUT_RANKS = ("qwen3_vl", "lfm3_vl", "molmo2", "mllama", "blip-2", "instructblip_t5")
"""Architectures that transformers cannot divide among ranks."""


@pytest.mark.parametrize("architecture", in_turns(WITHOUT_RANKS, WITHOUT_RANKS[:1]))
def test_page_names_the_architectures_without_a_plan(architecture: str, checkpoint_of: Checkpoints) -> None:
    raw = {"engine": "transformers", "model": str(checkpoint_of(architecture)), "tensor_parallel": 2}
    warning = plan_ranks(LaunchedModel.as_named(ModelSpec.model_validate(raw)), "cuda")
    assert warning is not None
    assert (
        "spreads its layers over the 2 GPUs of a replica and answers in padded batches; tensor_parallel: 1" in warning
    )
    assert architecture in (ROOT / "docs" / "families.md").read_text().partition("## Several GPUs a replica")[2]


def test_missing_model_is_reported() -> None:
    with pytest.raises(EngineUnreachableError, match="there is no folder"):
        tensor_parallel_engine("/nowhere/at/all")


@pytest.mark.usefixtures("forked_ranks")
def test_checkpoint_without_a_layer_is_refused_by_the_ranks(checkpoint_of: Checkpoints, tmp_path: Path) -> None:
    copy = shutil.copytree(checkpoint_of("qwen2_5_vl"), tmp_path / "copy")
    tensors = {name: t for name, t in load_file(copy / "model.safetensors").items() if ".layers.1." not in name}
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineUnreachableError, match=r"missing .*layers\.1\."):
        tensor_parallel_engine(copy)


@pytest.mark.parametrize(
    ("level", "rank", "texts_logged"),
    [
        (logging.INFO, 0, ["info of ours", "warning of ours", "error of a library"]),
        (logging.WARNING, 0, ["warning of ours", "error of a library"]),
        (logging.INFO, 1, ["error of a library"]),
    ],
)
def test_log_lines_of_ranks_are_relayed_by_the_parent(
    level: int, rank: int, texts_logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    context = multiprocessing.get_context("spawn")
    parent_end, rank_end = context.Pipe()
    process = context.Process(target=log_as_rank, args=(rank_end, level, rank))
    process.start()
    rank_end.close()
    caplog.set_level(logging.INFO)
    with contextlib.suppress(EOFError):
        while True:
            relay(json.loads(parent_end.recv_bytes()), rank)
    process.join()
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        f"rank {rank}: {text}" for text in texts_logged
    ]
    assert {record.name for record in caplog.records} <= {"models.engines.some", "library"}
    assert "ValueError: why" in caplog.records[-1].message


@pytest.mark.usefixtures("forked_ranks")
def test_log_lines_and_bugs_of_ranks_reach_the_parent(
    checkpoint_of: Checkpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(effective_level())
    engine = tensor_parallel_engine(checkpoint_of("llama"), share_prefix=False)
    bug = replace(calls_about(())[0], turns=(user(StepOutput(0)),))  # no engine is sent one
    with pytest.raises(RankBugError, match=r"(?s)Traceback .*in _content.*TypeError: StepOutput must be replaced"):
        list(engine.generate([bug], MEDIA))
    assert pids_of(engine) == (), "the other rank may wait for the one with the bug"
    engine.close()
    lines = [(record.name, record.message) for record in caplog.records]
    message = "rank 0: llama runs in padded batches: share_prefix is false"
    assert lines == [("models.engines.transformers.engine", message)]


def test_messages_cross_unchanged() -> None:
    calls = calls_about((PICTURE,), (CLIP,), ())
    head, *rest = (bytes(message) for message in pack_calls(calls, MEDIA, action="prepare"))
    queue = iter(rest)
    assert unpack_calls(head, lambda: next(queue))[:2] == ("prepare", calls)
    head, *rest = (bytes(message) for message in pack_calls(calls, MEDIA))
    queue = iter(rest)
    action, got_calls, got_media = unpack_calls(head, lambda: next(queue))
    assert (action, got_calls, _plain(got_media)) == ("generate", calls, _plain(MEDIA))
    head, *rest = (bytes(message) for message in pack_calls(calls, MEDIA, pixels=False))
    queue = iter(rest)
    black = unpack_calls(head, lambda: next(queue))[2]
    assert {m: f.pixels.shape for m, f in black.items()} == {m: f.pixels.shape for m, f in MEDIA.items()}
    assert not any(frames.pixels.any() for frames in black.values())
    for outcome in (Answer(text="Sì", cached_tokens=3), Failure(type="compute", message="no")):
        reply = CallReply(call_id="a/0", outcome=outcome, latency_s=0.5)
        assert unpack_reply(pack_reply(reply)) == reply


def _plain(media: Mapping[Media, Frames]) -> Sequence[object]:
    return [
        (medium, f.pixels.tolist(), f.seconds, f.fps, f.total_frames) for medium, f in sorted(media.items(), key=str)
    ]
