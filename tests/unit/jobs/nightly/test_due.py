from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from jobs.nightly.budget import due_pairs, run_order
from jobs.nightly.history import History, Pair
from jobs.nightly.records import PairStatus
from pipelines.plan.run_spec import RunSpec
from tests.unit.jobs.nightly.cases import EARLIER, NOW, random

PARTS = {"code": "1"}


def status(model: str, measured: str = "", state: str = "ran", *, is_changed: bool = True) -> PairStatus:
    plain = PairStatus(model=model, benchmark="maia", parts=PARTS, why="x", before=None)
    if not measured and state == "ran":
        return plain
    fingerprint = "old" if is_changed else plain.fingerprint
    before = Pair(night=NOW, model=model, benchmark="maia", state=state, measured=measured, fingerprint=fingerprint)
    return PairStatus(model=model, benchmark="maia", parts=PARTS, why="x", before=before)


def test_never_evaluated_pairs_run_first_then_changed_then_the_oldest() -> None:
    due = [
        status("aged", EARLIER, is_changed=False), status("changed lately", NOW), status("changed long ago", EARLIER),
        status("never", ""), status("never, and fails", "", "failed"), status("changed, and fails", EARLIER, "failed"),
        status("aged more lately", NOW, is_changed=False),
    ]  # fmt: skip
    assert [entry.model for entry in run_order(due)] == [
        *("never", "never, and fails"),
        *("changed long ago", "changed lately", "changed, and fails"),
        *("aged", "aged more lately"),
    ]


def test_pair_is_due_when_it_was_not_measured_for_days(maia_data: str, tmp_path: Path) -> None:
    spec = RunSpec(data=maia_data, out=str(tmp_path / "out"), models={"m": random()}, benchmarks=("maia",))
    history = History(str(tmp_path / "history"))
    (new,) = due_pairs(spec, history)
    measured = {"fingerprint": new.fingerprint, "parts": new.parts, "measured": EARLIER}
    history.write(EARLIER, [Pair(night=EARLIER, model="m", benchmark="maia", state="ran", **measured)], [], "")

    def reason(days: float | None) -> str:
        return due_pairs(spec, history, refresh_days=days, now=datetime(2026, 1, 11, 2, tzinfo=UTC))[0].why

    assert reason(None) == reason(11) == ""
    assert reason(10) == "not measured since 2026-01-01"


def test_pair_that_only_waited_is_still_new(maia_data: str, tmp_path: Path) -> None:
    spec = RunSpec(data=maia_data, out=str(tmp_path / "out"), models={"m": random()}, benchmarks=("maia",))
    history = History(str(tmp_path / "history"))
    history.write(EARLIER, [Pair(night=EARLIER, model="m", benchmark="maia", state="waiting", why="new")], [], "")
    assert [entry.why for entry in due_pairs(spec, history)] == ["new"]
