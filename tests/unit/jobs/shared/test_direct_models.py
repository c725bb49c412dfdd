"""Models given by hub id, folder or address: every command that runs models takes them, by one function."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.cli.main import run
from jobs.shared.model_checks import checked_model
from jobs.shared.options import RunOptions
from jobs.shared.spec_builder import build_run_spec, validate_remote_flags
from models.errors import UnknownModelError
from models.fingerprint import answer_fingerprint
from pipelines.errors import ModelUnavailableError, UsageError
from tests.support.checkpoint_folder import POINTER, safetensors, write_checkpoint

SWEEP = ("--benchmarks", "vague", "--data", "data", "--out", "out")
HUB = "Qwen/Qwen2.5-VL-3B-Instruct"
URL = "http://127.0.0.1:9/v1#org/served"


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunOptions:
    """A sweep of a folder in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "my-checkpoint")
    return RunOptions(models=("./my-checkpoint",), benchmarks=("vague",), data="data", out="out", dry_run=True)


def test_models_judges_and_captioners_are_given_alike(flags: RunOptions, tmp_path: Path) -> None:
    spec = build_run_spec(
        replace(flags, models=("random", "./my-checkpoint", HUB), judge=URL, captioner=f"./my-checkpoint,{HUB}")
    )
    assert list(spec.models) == ["random", "my-checkpoint", "Qwen2.5-VL-3B-Instruct"]
    assert spec.models["my-checkpoint"].model == str(tmp_path / "my-checkpoint")
    assert [(name, judge.model) for name, judge in spec.judges] == [("served", "org/served")]
    assert [name for name, _ in spec.captioners] == ["my-checkpoint", "Qwen2.5-VL-3B-Instruct"]


def test_model_is_trusted_by_the_word_that_gives_it_or_by_its_name(flags: RunOptions) -> None:
    for word in ("./my-checkpoint", "my-checkpoint"):
        assert build_run_spec(replace(flags, trust_remote_code=(word,))).models["my-checkpoint"].trust_remote_code
    with pytest.raises(UnknownModelError, match="--trust-remote-code: unknown model 'other'"):
        build_run_spec(replace(flags, trust_remote_code=("org/other",)))


def test_other_weights_in_the_folder_are_another_model(flags: RunOptions, tmp_path: Path) -> None:
    first = answer_fingerprint(build_run_spec(flags).models["my-checkpoint"])
    assert (
        answer_fingerprint(
            build_run_spec(replace(flags, models=(str(tmp_path / "my-checkpoint"),))).models["my-checkpoint"]
        )
        == first
    )
    (tmp_path / "my-checkpoint" / "model.safetensors").write_bytes(safetensors()[:-1] + b"1")
    assert answer_fingerprint(build_run_spec(flags).models["my-checkpoint"]) != first


def test_folder_that_cannot_be_loaded_ends_a_run_with_3_before_ray_starts(flags: RunOptions, tmp_path: Path) -> None:
    (tmp_path / "my-checkpoint" / "model.safetensors").write_text(POINTER)
    flags = replace(flags, dry_run=False)
    with pytest.raises(
        ModelUnavailableError, match=r"model 'my-checkpoint': .*model\.safetensors is a pointer of git-lfs"
    ):
        build_run_spec(flags)
    with pytest.raises(UsageError, match="2 of the named models cannot run:"):  # a missing folder is a wrong flag
        build_run_spec(replace(flags, models=("./my-checkpoint", "./absent")))
    with pytest.raises(ModelUnavailableError, match="is a pointer of git-lfs"):
        checked_model("./my-checkpoint", [])
    assert "my-checkpoint" in build_run_spec(replace(flags, dry_run=True)).models


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "--models", "{0}", *SWEEP), 2),
        (("run", "--models", "{0}", *SWEEP, "--dry-run"), 2),
        (("run", "--models", "random", "--judge", "{0}", *SWEEP), 2),
        (("run", "--models", "random", "--captioner", "{0}", *SWEEP), 2),
        (("predict", "--models", "{0}", *SWEEP), 2),
        (("score", "--models", "random", "--judge", "{0}", *SWEEP), 2),
        (("stress", "--models", "{0}", *SWEEP), 2),
        (("nightly", "--models", "{0}", *SWEEP), 2),
        (("doctor", "--models", "{0}"), 3),
        (("doctor", "--eyes", "{0}"), 2),
        (("serve", "{0}", "--no-key"), 2),
    ],
)
def test_every_command_takes_a_folder(
    arguments: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert run([argument.format("./absent") for argument in arguments]) == code
    output = capsys.readouterr()
    assert f"no folder {tmp_path / 'absent'}; give" in output.err + output.out
    assert run([argument.format("http://127.0.0.1:9/v1") for argument in arguments]) == 2
    assert "as in http://127.0.0.1:9/v1#MODEL" in capsys.readouterr().err


def test_job_on_another_machine_takes_no_relative_folder(flags: RunOptions, tmp_path: Path) -> None:
    for word in ("./my-checkpoint", "~/my-checkpoint"):
        for relative in (replace(flags, models=(word,)), replace(flags, models=("random",), judge=word)):
            with pytest.raises(UsageError, match="my-checkpoint: a job runs in a folder of its own on another machine"):
                validate_remote_flags(relative)
    there = (str(tmp_path / "on-the-cluster"), HUB, URL, "s3://bucket/tuned")
    assert list(validate_remote_flags(replace(flags, models=there))) == [
        *("on-the-cluster", "Qwen2.5-VL-3B-Instruct", "served", "tuned")
    ]
