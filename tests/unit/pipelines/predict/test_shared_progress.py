"""Models that run concurrently have a line each, and so have judges beside them."""

from __future__ import annotations

from unittest.mock import Mock, call

from pipelines.predict.shared_progress import SharedProgress


def test_concurrent_models_and_judges_beside_them_have_a_line_each() -> None:
    shown = Mock()
    shared = SharedProgress(shown)
    a, b = shared.model("a"), shared.model("b")
    a.phase("predict a", 4)
    b.phase("predict b", 2)
    b.note("loading weights, 1.00 of 4.00 GB")
    assert shown.note.call_args == call("a: 0/4, 0s\nb: 0/2, 0s; loading weights, 1.00 of 4.00 GB")
    a.advance(4, 1)
    assert shown.advance.call_args == call(4, 1)
    assert shown.note.call_args == call("b: 0/2, 0s; loading weights, 1.00 of 4.00 GB")
    shown = Mock()
    shared = SharedProgress(shown)
    shared.model("a").phase("predict a", 4)
    with shared.judges() as listener:
        for done in ("0/2", "2/4"):
            listener("judge j").phase("judge j", 2)
            assert shown.note.call_args.args[0].startswith(f"a: 0/4, 0s\njudge j: {done}, ")
            listener("judge j").advance(2, 0)
            assert shown.note.call_args == call("a: 0/4, 0s")
        listener("judge j").phase("judge j", 2)
    assert shown.note.call_args == call("a: 0/4, 0s")
    assert not shown.advance.called
