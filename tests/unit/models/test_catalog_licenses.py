"""Licences of the catalog's weights."""

from __future__ import annotations

from models.catalog_loader import load_models

NOT_FOUND = {"lfm3-vl-2b", "minicpm-v-4.7-1b", "minicpm-v-4.7-35b-a3b"}
"""Entries whose makers' pages could not be read; those of their predecessors do not bind them."""


def test_entries_of_weights_state_their_license() -> None:
    without = {name for name, spec in load_models().items() if spec.runs_locally and not spec.license}
    assert without == NOT_FOUND
