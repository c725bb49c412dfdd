"""Sweeps as flags name them."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.shared.options import RunOptions
from jobs.shared.spec_builder import build_run_spec, validate_remote_flags
from models.errors import UnknownModelError
from pipelines.errors import ModelUnavailableError, UsageError


def flags(*captioners: str) -> RunOptions:
    return RunOptions(
        models=("random",), benchmarks=("vague",), data="data", out="out", captioner=",".join(captioners), dry_run=True
    )


def test_captioners_are_listed_or_repeated_and_each_counts_once() -> None:
    for listed in (("random,gpt-4o",), ("random", "gpt-4o"), ("random", "gpt-4o,random")):
        spec = build_run_spec(flags(*listed))
        assert [name for name, _ in spec.captioners] == ["random", "gpt-4o"]
        assert spec.record().captioner == "random,gpt-4o"


def test_own_captions_are_not_listed_with_others() -> None:
    assert build_run_spec(flags("self")).own_captions
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UsageError, match="self allows no other captioner"):
            check(flags("self", "random"))  # type: ignore[operator]


@pytest.mark.parametrize("flag", ["limit", "until"])
def test_limit_of_an_unset_variable_is_no_run_without_one(flag: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag} .*: give "):
        build_run_spec(replace(flags(), **{flag: ""}))


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200.0), ("1.5m", 90.0), ("90s", 90.0)])
def test_wait_for_nodes_is_a_time_with_its_unit(text: str, seconds: float) -> None:
    assert build_run_spec(replace(flags(), wait_for_nodes=text)).wait_for_nodes_s == seconds


@pytest.mark.parametrize("text", ["2", "2d", "-1h", ""])
def test_other_times_to_wait_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 2h"):
        build_run_spec(replace(flags(), wait_for_nodes=text))


def test_unknown_captioner_is_refused_wherever_the_sweep_runs() -> None:
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UnknownModelError, match="randon"):
            check(flags("random", "randon"))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Which?\nA) {a}", "the text lacks the placeholder {b}; this prompt's placeholders: {a}, {b}"),
        ("{a} {b} {c}", "the text has the unknown placeholder {c}; this prompt's placeholders: {a}, {b}"),
    ],
)
def test_wording_must_have_the_prompts_placeholders(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "maia" / "vsv-it-v1.txt"
    path.parent.mkdir()
    path.write_text(text)
    maia = RunOptions(models=("random",), benchmarks=("maia",), data="data", out="out", prompts=tmp_path, dry_run=True)
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UsageError) as raised:
            check(maia)  # type: ignore[operator]
        assert str(raised.value) == f"--prompts {path}: {problem}"
    path.write_text('{a}, {b}: answer {"letter": "A"}\n')
    assert build_run_spec(maia).prompts == {"maia": {"vsv-it-v1": '{a}, {b}: answer {"letter": "A"}'}}


def test_texts_of_no_benchmark_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "maja").mkdir()
    (tmp_path / "maja" / "vsv-it-v1.txt").write_text("{a} {b}")
    maia = RunOptions(models=("random",), benchmarks=("maia",), data="data", out="out", prompts=tmp_path, dry_run=True)
    assert build_run_spec(maia).prompts == {}
    assert "this run uses no text for maja" in caplog.text


def gguf_flags(folder: Path, content: bytes | None) -> RunOptions:
    if content is not None:
        (folder / "m.gguf").write_bytes(content)
    (folder / "models.yaml").write_text(f"m: {{engine: transformers, model: {folder / 'm.gguf'}, device: cpu}}\n")
    files = (folder / "models.yaml",)
    return RunOptions(models=("m",), models_file=files, benchmarks=("vague",), data="data", out="out", dry_run=True)


def text_field(name: str, value: str) -> bytes:
    name_and_kind = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", 8)
    return name_and_kind + struct.pack("<Q", len(value)) + value.encode()


def header(*fields: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "model 'm': no file .*m.gguf; give a GGUF file"),
        (b"", "m.gguf cannot be read: it is no GGUF file"),
        (b"GGUF\x01\0\0\0", "its format has version 1"),
        (header(text_field("general.architecture", "llama"))[:-1], "it ends within its header"),
        (header(struct.pack("<Q", 1 << 60)), "a text is longer than the file"),
        (header(text_field("general.name", "x")), "it names no architecture"),
    ],
)
def test_unusable_gguf_file_is_refused_before_a_cluster_starts(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        build_run_spec(gguf_flags(tmp_path, content))


def test_missing_chat_template_of_a_gguf_file_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    architecture = text_field("general.architecture", "llama")
    build_run_spec(gguf_flags(tmp_path, header(architecture)))
    assert "model 'm': m.gguf has no chat template" in caplog.text
    caplog.clear()
    build_run_spec(gguf_flags(tmp_path, header(architecture, text_field("tokenizer.chat_template", "{{ 1 }}"))))
    assert caplog.text == ""


def test_gguf_file_needs_its_package_where_the_model_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = replace(gguf_flags(tmp_path, header(text_field("general.architecture", "llama"))), dry_run=False)
    monkeypatch.setattr("models.availability.importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'vlmsweep\[gguf\]'"):
        build_run_spec(flags)
    assert build_run_spec(replace(flags, address="ray://head:10001")).models


def test_folder_of_pickled_weights_is_refused_where_the_model_runs(tmp_path: Path) -> None:
    flags = replace(gguf_flags(tmp_path, None), dry_run=False)
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    (tmp_path / "models.yaml").write_text(f"m: {{engine: transformers, model: {tmp_path}, device: cpu}}\n")
    for is_plan in (False, True):
        message = r"'m': the folder holds pytorch_model.bin and no \*.safetensors"
        with pytest.raises(ModelUnavailableError, match=message):
            build_run_spec(replace(flags, dry_run=is_plan))
    assert "m" in build_run_spec(replace(flags, address="ray://127.0.0.1:1")).models


def test_a_table_of_a_root_that_only_the_cluster_has_is_not_checked_here(tmp_path: Path) -> None:
    table = RunOptions(models=("random",), benchmarks=("my-table",), data=str(tmp_path / "absent"), out="out")
    assert list(validate_remote_flags(table)) == ["random"]
    tmp_path.joinpath("absent").mkdir()
    with pytest.raises(UsageError, match="unknown benchmark 'my-table'"):
        validate_remote_flags(table)
