"""The owner that a lock file names, and whether it is still alive."""

import json
from dataclasses import replace

from pipelines.storage.lock import LockOwner


def test_only_a_process_of_this_boot_and_namespace_counts_as_dead() -> None:
    owner = LockOwner.new()
    dead = replace(owner, process_start=owner.process_start.partition(":")[0] + ":1")
    assert not owner.is_dead_local_process()
    assert dead.is_dead_local_process()
    for unknown in (
        replace(dead, host="another"),
        replace(dead, process_start="another-boot:1"),  # another machine of the same name, or an earlier boot
        replace(dead, pids="pid:[1]"),  # another container on this machine
        replace(dead, process_start=""),
    ):
        assert not unknown.is_dead_local_process()


def test_lock_file_of_an_earlier_version_is_read_and_one_that_is_none_has_no_owner() -> None:
    old = {name: value for name, value in json.loads(LockOwner.new().to_json()).items() if name != "pids"}
    owner = LockOwner.from_json(json.dumps(old).encode())
    assert not owner.is_dead_local_process()
    assert LockOwner.from_json(b"half of a lo") is None
    assert LockOwner.from_json(b'{"run": "x"}') is None
