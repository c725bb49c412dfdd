"""Units of plans in a file of the temporary folder."""

import errno
import gc
import os
import tempfile
import threading
from pathlib import Path

import pytest

from pipelines.errors import StoreError
from pipelines.plan.units import MediaGroupSlice, UnitFile, UnitList, WorkUnit, count_requests


def unit(number: int, rows: tuple[int, ...] = (3, 4, 5, 9, 1), retried: tuple[str, ...] = ()) -> WorkUnit:
    slices = (MediaGroupSlice("plan/part", f"video:{number}:1", rows), MediaGroupSlice("plan/part", "è", (number,)))
    return WorkUnit(
        benchmark="maia", part=f"p{number}", slices=slices, requests=len(rows) + 1, media_bytes=7, retried=retried
    )


def test_lists_give_back_their_units_in_order_and_may_share_a_file() -> None:
    units = [unit(number, tuple(range(number)), ("a",) * (number % 2)) for number in range(40)]
    listed = UnitList(units)
    assert [*listed] == units
    assert (listed[7], listed[-1], listed[3:5]) == (units[7], units[-1], units[3:5])
    assert count_requests(listed) == count_requests(units) == listed.requests
    assert not UnitList()
    file = UnitFile()
    first, second = UnitList(file=file), UnitList(file=file)
    for number in range(10):
        first.extend([unit(2 * number)])
        second.extend([unit(2 * number + 1), unit(100)])
    assert [entry.part for entry in first] == [f"p{2 * number}" for number in range(10)]
    assert [entry.part for entry in second[::2]] == [f"p{2 * number + 1}" for number in range(10)]


def test_threads_read_and_write_one_file() -> None:
    file, lists = UnitFile(), []

    def fill(start: int) -> None:
        units = UnitList(file=file)
        for number in range(start, start + 200):
            units.extend([unit(number)])
        lists.append([*units] == [unit(number) for number in range(start, start + 200)])

    threads = [threading.Thread(target=fill, args=(1000 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lists == [True] * 4


def test_file_has_no_name_and_is_closed_with_its_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def open_files() -> list[Path]:
        targets = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
        return [target for target in targets if target.is_relative_to(tmp_path)]

    units = UnitList([unit(1)])
    assert len(open_files()) == 1
    assert [*tmp_path.iterdir()] == []
    del units
    gc.collect()
    assert open_files() == []


def test_full_temporary_folder_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StoreError, match=r"temporary folder /.*: the disk is full .* free some space"):
        UnitList([unit(1)])
