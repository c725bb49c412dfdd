"""The search for duplicated blocks of `make lint`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.duplicates import duplicates, main


def test_duplicates_reports_a_block_once_and_whole(tmp_path: Path) -> None:
    body = "\n".join(f"    value_{number} = compute({number})" for number in range(10))
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(f"def first():\n{body}\n    return 1\n")
    second.write_text(f'def second():\n    """Differ."""\n\n{body}\n    # a comment\n    return 2\n')
    assert duplicates([first, second], 8) == [((first, 2, 11), (second, 4, 13))]
    assert duplicates([first, second], 11) == []


def test_main_prints_the_duplicates_of_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "".join(f"    value_{number} = compute({number})\n" for number in range(8))
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(f"def {name}():\n{body}")
    assert main([str(tmp_path)]) == 1
    assert "a.py:2-9 equals" in capsys.readouterr().out
    assert main([str(tmp_path), "--lines", "9"]) == 0
