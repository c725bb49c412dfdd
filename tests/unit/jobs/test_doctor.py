"""The doctor: findings as data, exit codes, and memory checks against scripted hardware."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cluster.hardware import Node
from jobs import doctor
from jobs.cli.main import run
from models.catalog_loader import load_models, select_models
from models.engines.hub import HubAnswer
from models.spec import ModelSpec

GB = 10**9


def findings(capsys: pytest.CaptureFixture[str], *flags: str, code: int = 0) -> dict[str, dict[str, str]]:
    assert run(["doctor", "--json", *flags]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] == (code == 0)
    return {finding["what"]: finding for finding in document["findings"]}


def machine(monkeypatch: pytest.MonkeyPatch, *cards: int, memory: int = 64) -> None:
    node = Node(name="this machine", cpus=8, memory=memory * GB, gpu_bytes=tuple(card * GB for card in cards))
    monkeypatch.setattr(doctor, "_this_node", lambda: node)
    hub_answers(monkeypatch, HubAnswer(state="known"))


def hub_answers(monkeypatch: pytest.MonkeyPatch, answer: HubAnswer) -> None:
    monkeypatch.setattr(doctor, "ask_hub", lambda questions, deadline_s: dict.fromkeys(questions, answer))


def test_unavailable_models_that_no_flag_names_are_notes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine(monkeypatch)
    checks = findings(capsys, "--out", str(tmp_path))
    assert set(load_models()) <= set(checks)
    assert checks["internvl2-8b"]["state"] == "note"
    assert "--trust-remote-code" in checks["internvl2-8b"]["detail"]
    assert "GB free" in checks[str(tmp_path)]["detail"]
    assert checks["decoders"]["state"] == "ok"
    assert checks["random"]["state"] == "ok"


def test_without_models_the_machine_is_shown_and_models_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine(monkeypatch)
    assert run(["doctor", "--out", str(tmp_path)]) == 0
    *checks, last = capsys.readouterr().out.splitlines()
    assert len(checks) == 4
    assert re.fullmatch(rf"\d+ of {len(load_models())} models can run here; .* says which, and why not", last)


def test_model_of_a_hub_out_of_reach_runs_only_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine(monkeypatch)
    hub_answers(monkeypatch, HubAnswer(state="unreachable", problem="no route"))
    check = findings(capsys, "--models", "qwen2.5-vl-7b", code=3)["qwen2.5-vl-7b"]
    assert check["state"] == "bad"
    assert "not in this machine's cache, and the hub cannot be reached (no route)" in check["detail"]
    monkeypatch.setattr(doctor, "cached_folder", lambda _model, _revision: tmp_path)
    assert findings(capsys, "--models", "qwen2.5-vl-7b")["qwen2.5-vl-7b"]["state"] == "ok"


@pytest.mark.parametrize(
    ("cards", "model", "state", "detail"),
    [
        ([], "qwen2.5-vl-7b", "ok", "runs on the CPU"),
        ([], "qwen2.5-vl-72b", "bad", "146.8 GB of weights against 64 GB of memory: does not fit"),
        ([80] * 8, "qwen2.5-vl-72b", "ok", "fits: tensor_parallel 4, 2 replicas per node"),
        ([80] * 2, "qwen2.5-vl-72b", "bad", "needs"),
        ([16] * 4, "qwen2.5-vl-7b", "bad", "it would with tensor_parallel 2"),
        ([141] * 8, "qwen2.5-vl-72b", "ok", "the estimate proposes tensor_parallel 2"),
    ],
)
def test_sums(
    cards: list[int],
    model: str,
    state: str,
    detail: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine(monkeypatch, *cards)
    checks = findings(capsys, "--models", model, code=0 if state == "ok" else 3)
    assert checks[model]["state"] == state
    assert detail in checks[model]["detail"]


def test_gpus_of_unknown_size_are_no_cpu() -> None:
    nodes = [Node(name="a", cpus=8, memory=64 * GB, gpu_bytes=(0, 0))]
    (name, spec), *_ = select_models(["qwen2.5-vl-72b"], load_models()).items()
    assert doctor._node(nodes[0]).detail.endswith("2 GPUs of unknown size")
    check = doctor._model(name, spec, nodes, named=True)
    assert (check.state, "nvidia-smi" in check.detail) == ("note", True)


def test_gpus_are_counted_per_node() -> None:
    nodes = [Node(name=name, cpus=8, memory=GB, gpu_bytes=(80 * GB,) * 2) for name in "ab"]
    (name, spec), *_ = select_models(["qwen2.5-vl-72b"], load_models()).items()
    check = doctor._model(name, spec, nodes, named=True)
    assert check.state == "bad"  # four GPUs in all, but no node has them together


def test_unreachable_folders_and_clusters_end_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine(monkeypatch)
    file = tmp_path / "file"
    file.write_text("")
    assert findings(capsys, "--models", "random", "--out", str(file), code=3)[str(file)]["state"] == "bad"
    checks = findings(capsys, "--models", "random", "--address", "127.0.0.1:9", code=3)
    assert checks["cluster"]["state"] == "bad"
    assert "127.0.0.1:9" in checks["cluster"]["detail"]


def test_missing_key_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY" in findings(capsys, "--models", "gpt-4o", code=3)["gpt-4o"]["detail"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    assert findings(capsys, "--models", "gpt-4o")["gpt-4o"]["state"] == "ok"
    assert run(["doctor", "--models", "nobody"]) == 2
    assert run(["doctor", "--models", "gpt-4o"]) == 0
    assert "sk-planted" not in capsys.readouterr().out


def test_an_endpoint_that_was_not_asked_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("far: {engine: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}\nchance: {engine: random}\n")
    assert run(["doctor", "--models", "far,chance", "--models-file", str(models)]) == 0
    shown = capsys.readouterr().out
    assert "far: needs no GPU; its endpoint was not asked, which `vlmsweep doctor --eyes MODEL` does" in shown
    assert "chance: needs no GPU\n" in shown


@pytest.mark.parametrize(
    ("cards", "detail"),
    [
        ([], "does not fit; offload brings 0 bytes of weights from CPU memory and 102.0 GB from disk"),
        ([80], "use more or larger GPUs; offload brings 44.8 GB of weights from CPU memory and 46.0 GB from disk"),
    ],
)
def test_model_that_does_not_fit_may_run_with_offload(
    cards: list[int],
    detail: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    machine(monkeypatch, *cards)
    entry = {"engine": "transformers", "model": "org/big", "revision": "0" * 40, "parameters_b": 73.4, "offload": True}
    (tmp_path / "models.yaml").write_text(json.dumps({"big": entry}))
    checks = findings(capsys, "--models", "big", "--models-file", str(tmp_path / "models.yaml"))
    assert checks["big"]["state"] == "note"
    assert detail in checks["big"]["detail"]


def test_gpus_that_torch_cannot_use_are_bad() -> None:
    node = Node(name="a", cpus=8, memory=64 * GB, gpu_bytes=(80 * GB,), gpu_problem="driver 550.1 is too old")
    assert doctor._node(node).state == "bad"
    assert doctor._node(node).detail.endswith("which torch cannot use: driver 550.1 is too old")


@pytest.mark.parametrize(
    ("absent", "shown"),
    [
        ((), ("ok", "decord, and PyAV when it fails")),
        (("decord",), ("note", "not installed: decord2; pip install decord2")),
        (("decord", "av"), ("bad", "not installed: decord2 and av; pip install decord2 av")),
    ],
)
def test_absent_decoders_are_named_by_their_packages(
    absent: tuple[str, ...], shown: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in absent else name)
    (result,) = doctor._decoders()
    assert (result.state, result.detail) == shown


def test_model_that_pays_for_clips_again_says_so() -> None:
    nodes = [Node(name="a", cpus=8, memory=64 * GB, gpu_bytes=(80 * GB,))]
    spec = ModelSpec(engine="vllm", model="org/m", architecture="qwen3_5", parameters_b=9)
    sentence = "clips and pictures are paid for with every question: vllm keeps no state of qwen3_5"
    assert sentence in doctor._model("m", spec, nodes, named=True).detail
    shared = spec.with_engine("transformers")
    assert "paid for" not in doctor._model("m", shared, nodes, named=True).detail
