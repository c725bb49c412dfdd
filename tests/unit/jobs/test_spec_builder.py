"""Sweeps as flags name them."""

from __future__ import annotations

import pytest

from jobs.flags import SweepFlags
from jobs.spec_builder import build_run_spec, validate_remote_flags
from models.errors import UnknownModelError
from pipelines.errors import UsageError


def flags(*captioners: str) -> SweepFlags:
    return SweepFlags(
        models="random", benchmarks="vague", data="data", out="out", captioner=list(captioners), dry_run=True
    )


def test_captioners_are_listed_or_repeated_and_each_counts_once() -> None:
    for listed in (("random,gpt-4o",), ("random", "gpt-4o"), ("random", "gpt-4o,random")):
        spec = build_run_spec(flags(*listed))
        assert [name for name, _ in spec.captioners] == ["random", "gpt-4o"]
        assert spec.to_manifest()["captioner"] == "random,gpt-4o"


def test_own_captions_are_not_listed_with_others() -> None:
    assert build_run_spec(flags("self")).own_captions
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UsageError, match="self stands alone"):
            check(flags("self", "random"))  # type: ignore[operator]


def test_unknown_captioner_is_refused_wherever_the_sweep_runs() -> None:
    for check in (build_run_spec, validate_remote_flags):
        with pytest.raises(UnknownModelError, match="randon"):
            check(flags("random", "randon"))  # type: ignore[operator]
