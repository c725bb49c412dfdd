"""The search for unused private names of `make lint`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.private_names import main, unused_names

SOURCE = """
_USED = 1
_UNUSED: int = 2
_FIRST, _SECOND = 3, 4


class _Base:
    _field = _USED
    _text: "_Later"

    def __init__(self) -> None:
        self._value = self._helper()
        self._other = 1
        self.__dict__ = {}

    def _helper(self) -> int:
        return self._field + _SECOND

    @property
    def _decorated(self) -> int:
        return 1


class _Later(_Base):
    pass


def _function(_unused_parameter: int) -> None:
    _ = 1
"""


def test_unused_names_are_those_without_a_use_in_the_file() -> None:
    assert unused_names(SOURCE) == [
        (3, "_UNUSED"),
        (4, "_FIRST"),
        (9, "_text"),
        (12, "_value"),
        (13, "_other"),
        (28, "_function"),
    ]


def test_main_prints_the_names_of_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "module.py").write_text("_NAME = 1\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{tmp_path}/module.py:1: _NAME is not used\n"
    (tmp_path / "module.py").write_text("_NAME = 1\nprint(_NAME)\n")
    assert main([str(tmp_path)]) == 0
