"""What replicas that stay loaded are fed."""

from __future__ import annotations

from pipelines.predict.job_state import JobState


def test_a_feed_is_read_again_by_its_number_and_ends_where_its_process_began_anew() -> None:
    state = JobState(1)
    state.begin("unit")
    call = state.feed([b"first"])
    assert state.begin("unit")[0] == 1, "another job's attempts are its own"
    assert state.fed(call + 1) is None
    assert state.feed([b"second"]) == call + 1
    assert [state.fed(call), state.fed(call + 1)] == [[b"first"], [b"second"]]  # a reader that died begins again
    restarted = JobState(1)
    later = restarted.feed([b"again"])
    assert restarted.fed(call) == restarted.fed(call + 2) == ()
    assert restarted.fed(later) == [b"again"]
