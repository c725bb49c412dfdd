"""Refuse a replica that was given GPUs which torch cannot use: it would compute on the CPU, and nobody would know."""

import re
from collections.abc import Sequence
from pathlib import Path

from models.errors import EngineUnreachableError
from models.spec import ModelSpec

_LOADED = Path("/proc/driver/nvidia/version")
_MIN_DRIVERS = {11: 450, 12: 525, 13: 580}
"""The first driver that runs programs of each major version of CUDA, by NVIDIA's tables."""


def driver_version(loaded: Path = _LOADED) -> str:
    """Return the version of the loaded kernel driver; '' where there is none."""
    try:
        text = loaded.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    version = re.search(r"\b\d{3,}\.\d+(?:\.\d+)?\b", text)
    return version.group() if version else ""


def driver_problem(driver: str, cuda: str | None) -> str:
    """Return why a driver cannot run what is built for a CUDA version (None: for CPUs); '' where it can, or may."""
    if cuda is None:
        return "torch is built for CPUs: install a build for CUDA"
    if not driver:
        return "no NVIDIA driver is loaded on its machine"
    needed = _MIN_DRIVERS.get(int(cuda.partition(".")[0]), 0)
    if int(driver.partition(".")[0]) < needed:
        return (
            f"driver {driver} is too old for CUDA {cuda}: install driver {needed} or newer, or a torch for older CUDA"
        )
    return ""


def check_gpus(spec: ModelSpec, gpus: Sequence[str]) -> None:
    """Raise `EngineUnreachableError`, with the versions, unless torch can use the GPUs with these ids."""
    if not gpus or not (spec.runs_locally and spec.can_use_gpu):
        return
    import torch

    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if usable >= len(gpus):
        return
    driver = driver_version()
    remedy = driver_problem(driver, torch.version.cuda) or "nvidia-smi on its machine shows their state"
    raise EngineUnreachableError(
        f"{spec.model}: it was given {len(gpus)} GPUs ({', '.join(gpus)}) and torch {torch.__version__} can use "
        f"{usable} of them (CUDA {torch.version.cuda or 'none'}, driver {driver or 'none'}): {remedy}; with "
        "`device: cpu` in the models file it runs on the CPU"
    )
