"""Which GPUs are avoided, with holders that only a list records."""

from cluster.scheduling.gpu_scheduler import MAX_HOLDERS, FailedDevices


class Fleet:
    """Counts GPUs and records which holders run."""

    def __init__(self, gpus: int) -> None:
        self.running: list[str] = []
        self.devices = FailedDevices(self._start, self.running.remove, lambda: gpus)

    def _start(self, node: str, gpus: int, name: str) -> str:
        assert (node, gpus) == ("n", 1)
        self.running.append(name)
        return name


def test_gpu_is_avoided_after_two_failures_unless_it_is_the_only_one() -> None:
    fleet = Fleet(gpus=2)
    fleet.devices.record_device_failure("n", ["0"], "u")
    assert (fleet.devices.avoid("n", ["0"]), fleet.running) == (False, [])
    fleet.devices.record_device_failure("n", ["0"], "v")
    assert fleet.running == ["n/1"]
    assert not fleet.devices.avoid("n", ["1"])
    assert not fleet.devices.avoid("m", ["0"])
    fleet = Fleet(gpus=1)
    for _ in range(3):
        fleet.devices.record_device_failure("n", ["0"], "u")
    assert fleet.running == []
    assert not fleet.devices.avoid("n", ["0"])


def test_holders_of_gpus_that_work_end_once_the_failed_one_is_held_or_the_replica_runs_elsewhere() -> None:
    fleet = Fleet(gpus=4)
    for _ in range(2):
        fleet.devices.record_device_failure("n", ["0"], "u")
    fleet.devices.record_reserved("n/1", "n", ["1"])
    assert fleet.devices.avoid("n", ["0"]), "a replica was placed there before a holder"
    assert fleet.running == ["n/1", "n/2"]
    fleet.devices.record_reserved("n/2", "n", ["0"])
    assert fleet.running == ["n/2"]
    fleet = Fleet(gpus=4)
    for _ in range(2):
        fleet.devices.record_device_failure("n", ["0"], "u")
    fleet.devices.record_reserved("n/1", "n", ["1"])
    fleet.devices.release_idle()
    assert fleet.running == []


def test_gpu_is_taken_back_when_a_request_explains_its_failures_and_tries_to_hold_one_end() -> None:
    fleet = Fleet(gpus=2)
    for _ in range(2):
        fleet.devices.record_device_failure("n", ["0"], "u")
    fleet.devices.record_reserved("n/1", "n", ["0"])
    fleet.devices.excuse("v")
    assert fleet.running == ["n/1"]
    fleet.devices.excuse("u")
    assert fleet.running == []
    assert not fleet.devices.avoid("n", ["0"])
    fleet = Fleet(gpus=8)
    for _ in range(2):
        fleet.devices.record_device_failure("n", ["0"], "u")
    assert [fleet.devices.avoid("n", ["0"]) for _ in range(MAX_HOLDERS)] == [True] * (MAX_HOLDERS - 1) + [False]
