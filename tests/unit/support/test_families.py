from __future__ import annotations

from models.catalog_loader import load_models
from tests.support.checkpoints import ARCHITECTURES
from tests.support.families import TRIALS, covered, elsewhere, healthy, page


def test_every_entry_is_tried_by_its_architecture_or_said_to_be_elsewhere() -> None:
    tried = {trial.architecture for trial in TRIALS}
    assert tried == set(ARCHITECTURES)
    displayed = {name for architecture in tried for name in covered(architecture)} | set(elsewhere())
    assert displayed == {name for name, spec in load_models().items() if spec.runs_locally}


def test_a_trial_is_healthy_when_all_came_back_once() -> None:
    row = {"exit": 0, "ok": 8, "error": 0, "repeated": 0, "metrics": 3}
    assert healthy(row)
    assert not any(healthy({**row, **change}) for change in ({"exit": 1}, {"ok": 0}, {"error": 1}, {"metrics": 0}))
    assert "`molmo-7b-d`: Published with code of its own" in page([])
