"""A replica that holds GPUs which torch cannot use does not load; which drivers run which CUDA."""

from pathlib import Path

import pytest
import torch

from models.engines import gpu_check
from models.engines.gpu_check import check_gpus, driver_problem, driver_version
from models.errors import EngineUnreachableError
from models.spec import ModelSpec

CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12.2.0\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95  Release Build  (root@x)\n"

LOCAL = ModelSpec(engine="transformers", model="m", tensor_parallel=2)


@pytest.fixture(autouse=True)
def old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    monkeypatch.setattr(gpu_check, "driver_version", lambda: "550.54.15")


def test_gpus_that_torch_cannot_use_are_an_error_with_the_versions() -> None:
    with pytest.raises(EngineUnreachableError) as raised:
        check_gpus(LOCAL, ["0", "1"])
    message = str(raised.value)
    assert message.startswith("m: it was given 2 GPUs (0, 1) and torch ")
    assert "can use 0 of them (CUDA 13.2, driver 550.54.15): driver 550.54.15 is too old for CUDA 13.2" in message


def test_one_gpu_of_two_is_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(EngineUnreachableError, match="can use 1 of them"):
        check_gpus(LOCAL, ["0", "1"])
    check_gpus(LOCAL, ["0"])


def test_replicas_without_gpus_may_use_the_cpu() -> None:
    check_gpus(LOCAL, [])
    check_gpus(LOCAL.model_copy(update={"device": "cpu"}), ["0"])
    check_gpus(ModelSpec(engine="random"), ["0"])


@pytest.mark.parametrize(("text", "version"), [(CLOSED, "550.54.15"), (OPEN, "580.95"), ("no number", ""), ("", "")])
def test_version_is_read_from_the_loaded_module(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "version").write_text(text)
    assert driver_version(tmp_path / "version") == version


def test_machine_without_a_driver_has_no_version(tmp_path: Path) -> None:
    assert driver_version(tmp_path / "version") == ""


@pytest.mark.parametrize(
    ("driver", "cuda", "problem"),
    [
        ("550.54.15", "12.4", ""),
        ("580.95", "13.2", ""),
        ("590.1", "14.0", ""),  # not known here
        ("550.54.15", "13.2", "driver 550.54.15 is too old for CUDA 13.2: install driver 580 or newer"),
        ("", "13.2", "no NVIDIA driver is loaded"),
        ("580.95", None, "torch is built for CPUs"),
    ],
)
def test_driver_must_be_as_new_as_the_cuda_version(driver: str, cuda: str | None, problem: str) -> None:
    text = driver_problem(driver, cuda)
    assert text.startswith(problem)
    assert bool(text) is bool(problem)
