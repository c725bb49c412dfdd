"""Load the names that the papers' tables print (`tests/golden/published_models.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from models.spec import ModelSpec
from tests.support.paths import ROOT

_TABLE = yaml.safe_load((ROOT / "tests" / "golden" / "published_models.yaml").read_text(encoding="utf-8"))
NO_MODEL: Mapping[tuple[str, str], str] = {
    (benchmark, name): meaning for benchmark, names in _TABLE["no_model"].items() for name, meaning in names.items()
}
"""Rows of the published tables that stand for no model: (benchmark, printed name) -> meaning."""


def models_published_as(models: Mapping[str, ModelSpec]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return (benchmark, printed name) -> names of the catalog entries whose numbers stand under it."""
    entries: dict[tuple[str, str], list[str]] = {}
    for name, spec in models.items():
        for printed in spec.published_as:
            entries.setdefault((printed.benchmark, printed.name), []).append(name)
    return {key: tuple(sorted(names)) for key, names in entries.items()}
