from __future__ import annotations

import math

import numpy as np
import pytest

from pipelines.report.metrics_file import number_or_none


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (np.float32(0.5), 0.5), (None, None), (math.nan, None), (-math.inf, None), (True, None), ("0.5", None)],
)
def test_number_or_none(value: object, number: float | None) -> None:
    assert number_or_none(value) == number
