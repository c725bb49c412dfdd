"""Attempts across deaths: who is to blame, who is excused once, and when a model is given up."""

from __future__ import annotations

from pipelines.predict.attempts import AttemptTracker


def test_one_who_was_alone_when_the_replica_died_twice_is_the_killer() -> None:
    ledger = AttemptTracker()
    assert ledger.begin("u") == (1, {})
    assert ledger.begin("u") == (2, {})
    ledger.alone("u", "a")
    ledger.survived("u", "a")
    ledger.alone("u", "b")
    assert ledger.begin("u") == (3, {}), "a machine may go away at any request"
    ledger.alone("u", "b")
    assert ledger.begin("u") == (4, {"b": "engine_died"})
    assert ledger.begin("v") == (1, {})


def test_a_dead_rank_costs_no_attempt_once() -> None:
    ledger = AttemptTracker()
    assert ledger.begin("u") == (1, {})
    ledger.excuse("u", "")
    assert ledger.begin("u") == (1, {}), "together again: whoever killed the rank need not be among them"
    ledger.excuse("u", "")
    assert ledger.begin("u") == (2, {}), "and then one by one"


def test_a_dead_rank_is_excused_once_a_request() -> None:
    ledger = AttemptTracker()
    ledger.alone("u", "a")
    ledger.excuse("u", "a")
    assert ledger.begin("u") == (1, {})
    ledger.alone("u", "a")
    ledger.excuse("u", "a")
    assert ledger.begin("u") == (2, {}), "the first death that counts"
    ledger.alone("u", "a")
    assert ledger.begin("u") == (3, {"a": "engine_died"})


def test_one_alone_when_the_engine_fell_silent_is_not_asked_again() -> None:
    ledger = AttemptTracker()
    assert ledger.begin("u") == (1, {})
    ledger.stalled("u", "")
    assert ledger.begin("u") == (2, {}), "any of them may have been the one"
    ledger.alone("u", "a")
    ledger.stalled("u", "a")
    assert ledger.begin("u") == (3, {"a": "timeout"})
    assert ledger.begin("v") == (1, {})


def test_deaths_in_a_row_are_counted_until_something_is_answered() -> None:
    ledger = AttemptTracker()
    assert [ledger.died(), ledger.died()] == [1, 2]
    ledger.survived("u", "a")
    assert ledger.died() == 1
    ledger.answered("another")
    assert ledger.died() == 1


def test_deaths_of_loaders_are_counted_a_unit_until_it_is_loaded() -> None:
    ledger = AttemptTracker()
    assert [ledger.begin_loading("u"), ledger.begin_loading("u"), ledger.begin_loading("v")] == [0, 1, 0]
    ledger.loaded("u")
    assert ledger.begin_loading("u") == 0


def test_remarks_are_told_once() -> None:
    ledger = AttemptTracker()
    ledger.started(("no plan",))
    ledger.started(("no plan", "slow"))
    assert ledger.report() == (2, ("no plan", "slow"))
