"""Folders that no engine can load: each is refused by its files alone, with the remedy."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.checkpoints import problems
from models.checkpoints.problems import checkpoint_problem
from models.spec import ModelSpec
from tests.support.checkpoint_folder import POINTER, safetensors, write_checkpoint

Break = Callable[[Path], Any]


def configure(**changes: Any) -> Break:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config.update(changes)
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))

    return change


def write(name: str, content: str | bytes) -> Break:
    return lambda folder: (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def drop(*names: str) -> Break:
    return lambda folder: [(folder / name).unlink() for name in names]


def in_turn(*steps: Break) -> Break:
    return lambda folder: [step(folder) for step in steps]


def quantized(**config: Any) -> Break:
    return configure(quantization_config=config)


def sharded(*present: str) -> Break:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    return in_turn(
        drop("model.safetensors"),
        write("model.safetensors.index.json", json.dumps(index)),
        *(write(name, safetensors()) for name in present),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder in the form of a whole checkpoint."""
    return write_checkpoint(tmp_path / "my-model")


def entry(folder: Path, engine: str = "transformers", **more: Any) -> ModelSpec:
    return ModelSpec.model_validate({"engine": engine, "model": str(folder), **more})


BROKEN: dict[str, tuple[Break, str]] = {
    "awq": (
        quantized(quant_method="awq", bits=4),
        "its weights are quantized (awq), which needs a package that is not installed here: pip install 'gptqmodel'",
    ),
    "gptq": (quantized(quant_method="gptq", bits=4), "packages that are not installed here: pip install 'optimum' 'gp"),
    "bitsandbytes": (quantized(load_in_8bit=True), "quantized (bitsandbytes), which needs a package that is not inst"),
    "4bit": (quantized(quant_method="bitsandbytes", load_in_4bit=True), "pip install 'bitsandbytes>=0.46.1'"),
    "compressed": (quantized(quant_method="compressed-tensors"), "pip install 'compressed-tensors>=0.15.0'"),
    "hqq": (quantized(quant_method="hqq"), "pip install 'hqq>=0.2.1'"),
    "torchao": (quantized(quant_method="torchao"), "pip install 'torchao>=0.15.0'"),
    "of-the-text-model": (
        configure(text_config={"quantization_config": {"quant_method": "aqlm"}}),
        "quantized (aqlm), which needs",
    ),
    "unknown-method": (quantized(quant_method="exl9"), "quantized (exl9), which transformers "),
    "nvfp4": (quantized(quant_method="nvfp4"), "quantized (nvfp4), which transformers "),
    "no-method": (quantized(bits=4), "quantized (None), which transformers "),
    "modelopt": (write("hf_quant_config.json", "{}"), "quantized (modelopt), which transformers "),
    "only-on-gpus": (quantized(quant_method="vptq"), "quantized (vptq), which needs a package"),
    "unknown-class": (configure(model_type="qwen9_vl"), "has no code for qwen9_vl ("),
    "no-class": (configure(model_type=None), "config.json names no model_type"),
    "class-list": (configure(model_type=["llava"]), "config.json names no model_type"),
    "publisher's-code": (
        configure(model_type="own", auto_map={"AutoConfig": "c.C"}),
        "it comes with code of its publisher that would run on this machine (",
    ),
    "config-cut": (write("config.json", '{"model_type": "qw'), "config.json is not valid JSON ("),
    "config-list": (write("config.json", "[]"), "config.json is no JSON object"),
    "config-bytes": (write("config.json", b"\xff\xfe"), "config.json: not UTF-8 text"),
    "config-deep": (write("config.json", "[" * 100_000), "config.json is not valid JSON"),
    "config-pointer": (
        write("config.json", POINTER),
        "config.json is a pointer of git-lfs, not the file itself: run `",
    ),
    "no-config": (drop("config.json"), "my-model has no config.json: give the folder that save_pretrained wrote"),
    "several-gguf-files": (
        in_turn(drop("config.json", "model.safetensors"), write("a.gguf", "GGUF"), write("b.gguf", "GGUF")),
        "my-model holds several *.gguf: name one of them as `model`",
    ),
    "adapter-for-a-model": (
        in_turn(drop("config.json"), write("adapter_config.json", "{}")),
        "holds an adapter and no model: name it as `adapter` in an entry of a models file",
    ),
    "weights-pointer": (write("model.safetensors", POINTER), "model.safetensors is a pointer of git-lfs, not the file"),
    "weights-cut": (
        write("model.safetensors", safetensors(data=5)),
        f"model.safetensors is truncated: it has {len(safetensors()) - 3} bytes of {len(safetensors())}; fetch",
    ),
    "weights-cut-in-the-header": (
        write("model.safetensors", safetensors()[:20]),
        "model.safetensors is truncated: it has 20",
    ),
    "weights-empty": (write("model.safetensors", ""), "model.safetensors is truncated: it has 0 bytes of 8"),
    "weights-too-long": (write("model.safetensors", safetensors(data=9)), "damaged: 1 bytes follow its last tensor"),
    "weights-no-header": (write("model.safetensors", struct.pack("<Q", 4) + b"oops"), "its header is damaged ("),
    "weights-header-list": (write("model.safetensors", struct.pack("<Q", 2) + b"[]"), "its header is damaged ("),
    "no-weights": (drop("model.safetensors"), "my-model has no weights (*.safetensors)"),
    "pickles": (
        in_turn(drop("model.safetensors"), write("pytorch_model.bin", "-")),
        "the folder holds pytorch_model.bin and no *.safetensors, and no other weights are read",
    ),
    "shard-absent": (
        sharded("model-1.safetensors"),
        "lacks model-2.safetensors, one of 2 files of weights that mo",
    ),
    "all-shards-absent": (sharded(), "lacks model-1.safetensors, one of 2 files"),
    "shard-cut": (
        in_turn(sharded("model-1.safetensors"), write("model-2.safetensors", safetensors(data=0))),
        "model-2.safetensors is truncated",
    ),
    "index-empty": (in_turn(sharded(), write("model.safetensors.index.json", "{}")), "index.json names no weights"),
    "no-index": (
        in_turn(drop("model.safetensors"), write("model-1.safetensors", safetensors())),
        "has neither model.safetensors nor model.safetensors.index.json",
    ),
    "no-tokenizer": (drop("tokenizer.json", "tokenizer_config.json"), "my-model has no tokenizer: copy tokenizer.json"),
    "no-vocabulary": (drop("tokenizer.json"), "my-model has no tokenizer"),
    "tokenizer-cut": (write("tokenizer.json", '{"a":'), "tokenizer.json is not valid JSON"),
    "tokenizer-pointer": (write("tokenizer.json", POINTER), "tokenizer.json is a pointer of git-lfs"),
    "no-processor": (
        drop("preprocessor_config.json"),
        "my-model has no image processor: copy preprocessor_config",
    ),
    "pipe": (
        in_turn(drop("model.safetensors"), lambda folder: os.mkfifo(folder / "model.safetensors")),
        "model.safetensors cannot be read: it is a named pipe",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_folder_that_cannot_be_loaded_is_refused_with_the_remedy(folder: Path, case: str) -> None:
    spoil, message = BROKEN[case]
    assert checkpoint_problem(entry(folder)) == ""
    spoil(folder)
    assert message in checkpoint_problem(entry(folder))
    assert "\n" not in checkpoint_problem(entry(folder))


WHOLE: dict[str, Break] = {
    "fp8": quantized(quant_method="fp8"),  # transformers unpacks it where no kernel computes with it
    "mxfp4": quantized(quant_method="mxfp4"),
    "not-quantized": configure(quantization_config=None, text_config={"quantization_config": None}),
    "sharded": sharded("model-1.safetensors", "model-2.safetensors"),
    "sentencepiece": in_turn(drop("tokenizer.json"), write("tokenizer.model", b"\x00")),
    "vocabulary-and-merges": in_turn(
        drop("tokenizer.json"), write("vocab.json", "{}"), write("merges.txt", "#version")
    ),
    "processor-in-one-file": in_turn(drop("preprocessor_config.json"), write("processor_config.json", "{}")),
    "text-only": in_turn(configure(model_type="llama", vision_config=None), drop("preprocessor_config.json")),
    "pickle-of-a-trainer": write("training_args.bin", "-"),
    "unused-shard": write("consolidated.safetensors", POINTER),  # model.safetensors alone is read
    "publisher's-code-of-a-known-class": configure(auto_map={"AutoConfig": "c.C"}),
}


@pytest.mark.parametrize("case", WHOLE)
def test_folder_that_can_be_loaded_is_left_alone(folder: Path, case: str) -> None:
    WHOLE[case](folder)
    assert checkpoint_problem(entry(folder)) == ""


def test_trusted_code_brings_its_own_class(folder: Path) -> None:
    configure(model_type="own", auto_map={"AutoConfig": "c.C"})(folder)
    assert "--trust-remote-code" in checkpoint_problem(entry(folder))
    assert checkpoint_problem(entry(folder, trust_remote_code=True)) == ""


def test_method_for_gpus_alone_needs_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quantized(quant_method="vptq")(folder)
    monkeypatch.setattr(problems, "missing_packages", lambda _method: [])
    monkeypatch.setattr(problems.shutil, "which", lambda _name: None)
    assert "quantized (vptq), which runs on GPUs only" in checkpoint_problem(entry(folder))
    monkeypatch.setattr(problems.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert checkpoint_problem(entry(folder)) == ""
    assert "which runs on GPUs only" in checkpoint_problem(entry(folder, device="cpu"))


def test_vllm_reads_quantized_weights_and_classes_of_its_own(folder: Path) -> None:
    for spoil in ("awq", "unknown-class", "no-tokenizer"):
        BROKEN[spoil][0](folder)
    assert checkpoint_problem(entry(folder, "vllm")) == ""
    write("model.safetensors", POINTER)(folder)
    assert "is a pointer of git-lfs" in checkpoint_problem(entry(folder, "vllm"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop("adapter_model.safetensors"), "has no adapter_model.safetensors; weights of other formats are not read"),
        (drop("adapter_config.json"), "has no adapter_config.json"),
        (write("adapter_model.safetensors", POINTER), "adapter_model.safetensors is a pointer of git-lfs"),
        (write("adapter_model.safetensors", safetensors(data=0)), "adapter_model.safetensors is truncated"),
        (write("adapter_config.json", "{"), "adapter_config.json is not valid JSON"),
    ],
)
def test_adapter_that_cannot_be_loaded_is_refused(folder: Path, tmp_path: Path, spoil: Break, message: str) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    write("adapter_config.json", "{}")(adapter)
    write("adapter_model.safetensors", safetensors())(adapter)
    assert checkpoint_problem(entry(folder, adapter=str(adapter))) == ""
    spoil(adapter)
    assert message in checkpoint_problem(entry(folder, adapter=str(adapter)))


def test_only_folders_of_this_machine_are_looked_at(folder: Path, tmp_path: Path) -> None:
    write("model.safetensors", POINTER)(folder)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert checkpoint_problem(entry(tmp_path / "m.gguf")) == ""
    assert checkpoint_problem(entry(tmp_path / "m.gguf"), str(folder))  # what it was converted into
    for name in ("org/name", "s3://bucket/key", str(tmp_path / "absent")):
        assert checkpoint_problem(ModelSpec(engine="transformers", model=name)) == ""
    assert checkpoint_problem(ModelSpec(engine="openai", model=str(folder), base_url="http://x/v1")) == ""


def test_nothing_heavy_is_imported(folder: Path) -> None:
    code = (
        "import sys; from models.checkpoints.problems import checkpoint_problem; from models.spec import ModelSpec; "
        f"print(checkpoint_problem(ModelSpec(engine='transformers', model={str(folder)!r}))); "
        "print(sorted({'torch', 'ray', 'transformers', 'huggingface_hub'} & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "\n[]\n"
