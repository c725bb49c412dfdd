from __future__ import annotations

from pathlib import Path

from jobs.demo.checkpoint import build_checkpoint
from tests.support.checkpoints import build_tiny


def test_demo_checkpoint_equals_the_tiny_qwen2_5_vl_of_the_tests(tmp_path: Path) -> None:
    built = build_checkpoint(tmp_path / "demo")
    expected = build_tiny(tmp_path / "tests", "qwen2_5_vl")
    assert {path.name: path.read_bytes() for path in built.iterdir()} == {
        path.name: path.read_bytes() for path in expected.iterdir()
    }
