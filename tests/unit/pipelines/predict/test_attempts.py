"""Attempts across deaths: which request is blamed, and which death is forgiven once."""

from __future__ import annotations

from pipelines.predict.attempts import AttemptTracker


def test_request_that_was_alone_at_two_deaths_or_a_stall_is_blamed() -> None:
    tracker = AttemptTracker()
    assert tracker.begin("u") == (1, {})
    assert tracker.begin("u") == (2, {})
    tracker.begin_single("u", "a")
    tracker.end_single("u", "a")
    tracker.begin_single("u", "b")
    assert tracker.begin("u") == (3, {}), "a machine may go away at any request"
    tracker.begin_single("u", "b")
    assert tracker.begin("u") == (4, {"b": "engine_died"})
    assert tracker.begin("v") == (1, {})
    tracker = AttemptTracker()
    assert tracker.begin("u") == (1, {})
    tracker.record_stall("u", "")
    assert tracker.begin("u") == (2, {}), "any of them may have been the one"
    tracker.begin_single("u", "a")
    tracker.record_stall("u", "a")
    assert tracker.begin("u") == (3, {"a": "timeout"})
    assert tracker.begin("v") == (1, {})


def test_attempt_and_request_are_forgiven_once() -> None:
    tracker = AttemptTracker()
    assert tracker.begin("u") == (1, {})
    tracker.forgive("u", "")
    assert tracker.begin("u") == (1, {}), "together again: the request that killed the rank need not be among them"
    tracker.forgive("u", "")
    assert tracker.begin("u") == (2, {}), "and then one by one"
    tracker = AttemptTracker()
    tracker.begin_single("u", "a")
    tracker.forgive("u", "a")
    assert tracker.begin("u") == (1, {})
    tracker.begin_single("u", "a")
    tracker.forgive("u", "a")
    assert tracker.begin("u") == (2, {}), "the first death that counts"
    tracker.begin_single("u", "a")
    assert tracker.begin("u") == (3, {"a": "engine_died"})


def test_deaths_in_a_row_are_counted_until_something_is_answered_or_loaded() -> None:
    tracker = AttemptTracker()
    assert [tracker.record_death(), tracker.record_death()] == [1, 2]
    tracker.end_single("u", "a")
    assert tracker.record_death() == 1
    tracker.record_answered("another")
    assert tracker.record_death() == 1
    tracker = AttemptTracker()
    assert [tracker.begin_loading(unit)[0] for unit in "uuv"] == [0, 1, 0]
    tracker.end_loading("u")
    assert tracker.begin_loading("u")[0] == 0


def test_units_are_loaded_one_at_a_time_after_a_death_to_find_its_cause() -> None:
    tracker = AttemptTracker()
    assert tracker.begin_loading_all(["u", "v", "w"])[0]
    assert not tracker.begin_loading_all(["u", "v", "w"])[0], "a process died at one of them"
    assert tracker.begin_loading("u")[0] == 1
    tracker.end_loading("u")
    assert tracker.begin_loading("v")[0] == 1
    assert not tracker.begin_loading_all(["u", "v", "w"])[0], "at v"
    assert [tracker.begin_loading(unit)[0] for unit in "uvw"] == [0, 2, 1]
    tracker.end_loading("u", "v", "w")
    assert tracker.begin_loading_all(["u", "v", "w"])[0]


def die_at(tracker: AttemptTracker, unit: str, *media: str) -> frozenset[str]:
    """Load a unit up to the last of these media; return those known to be deadly before."""
    _, fatal_media = tracker.begin_loading(unit)
    for medium in media:
        tracker.begin_medium(unit, medium)
    return fatal_media


def test_medium_that_was_decoded_at_two_deaths_is_deadly() -> None:
    tracker = AttemptTracker()
    assert die_at(tracker, "u", "a", "b") == frozenset()
    assert die_at(tracker, "u", "a", "b") == frozenset(), "a machine may go away at any medium"
    assert die_at(tracker, "u", "a", "c") == {"b"}
    assert tracker.begin_loading("u") == (3, {"b"}), "one death at c"
    assert tracker.begin_loading_all(["v"]) == (True, {"b"})
    tracker = AttemptTracker()
    for media in ("a", "b"), ("a",), ("a", "b", ""), ("",):
        assert die_at(tracker, "u", *media) == frozenset()
    die_at(tracker, "v", "b")
    assert tracker.begin_loading("v") == (1, frozenset()), "both may have been on the machine that was lost"
    tracker.end_loading("u", "v")
    die_at(tracker, "u", "a")
    assert tracker.begin_loading("u") == (1, frozenset()), "it was loaded since the first death at a"


def test_answered_rows_are_those_of_units_in_progress() -> None:
    tracker = AttemptTracker()
    tracker.record_rows("u", 3)
    tracker.record_rows("u", 5)
    tracker.record_rows("v", 2)
    assert tracker.answered_rows() == 7
    tracker.record_answered("v")
    tracker.begin("u")
    assert tracker.answered_rows() == 0, "one is answered whole, the other begins again"
