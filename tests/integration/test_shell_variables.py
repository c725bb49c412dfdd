"""A part of the matrix of commands and variables of the shell, which tests/tools/shell_matrix.py runs whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.shell_matrix import Shell, forms, groups, open_shell, problems

FORMS, GROUPS = forms(), groups()
ROTATED = ("audit", "gate", "generate", "leaderboard")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with open_shell(tmp_path_factory.mktemp("shell"), {}) as opened:
        yield opened


@pytest.mark.full
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_every_variable(shell: Shell, group: int) -> None:
    for name in ("status", ROTATED[group % len(ROTATED)]):
        assert [*problems(shell, name, FORMS[name], GROUPS[group])] == []
