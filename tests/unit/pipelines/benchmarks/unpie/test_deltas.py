"""UNPIE's differences between settings."""

from tests.support.unpie_rows import (
    cell,
    metric_of,
    prediction,
    reduced,
    samples,
    scored,
)

FEW = samples(4)


def test_deltas_are_of_unrounded_values() -> None:
    rows = cell(FEW, "grounding", "lm", lambda s, _: {"output": "kneaded" if s.sample_id.endswith("0") else "x"})
    rows += cell(FEW, "grounding", "vlm", lambda *_: {"output": "kneaded"})
    rows[-1] = scored(prediction(FEW["heterographic/0003"], "grounding", "vlm", status="error", output=None))
    metrics = reduced(rows, FEW)
    homo = metric_of(metrics, "delta_vs_lm", category="Homo")
    assert homo.value == 0.75
    assert homo.ci_low is not None
    hetero = metric_of(metrics, "delta_vs_lm", category="Hetero")
    assert (hetero.value, hetero.n_failed) == (0.75, 1)
    assert (hetero.ci_low or 1) < 0.75  # the settings differ in their rows, and still share puns
    assert "3 rows and 4 of lm" in hetero.note
