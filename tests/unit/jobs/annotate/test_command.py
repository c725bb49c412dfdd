from __future__ import annotations

from pathlib import Path

import pytest

from jobs.annotate.command import annotate
from pipelines.errors import UsageError


def test_people_are_distinct_codes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--people ann,ann: give a number, or distinct codes"):
        annotate(str(tmp_path), "vague", 1, tmp_path, people="ann,ann")
