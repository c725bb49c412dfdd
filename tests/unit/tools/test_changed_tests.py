"""Tests of what changed come first, then those of its importers."""

from __future__ import annotations

from pathlib import Path

from tests.tools.changed_tests import imports_of, select

FILES = {
    "models/spec.py": "",
    "models/use.py": "def f():\n    from models.spec import X\n",
    "jobs/far.py": "import models.use\n",
    "tests/unit/models/test_spec.py": "from models import spec\n",
    "tests/unit/models/test_use.py": "from models.use import f\n",
    "tests/unit/jobs/test_far.py": "import jobs.far\n",
    "tests/unit/a/test_other.py": "import models.use\n",
    "tests/integration/test_all.py": "import models.spec\n",
}


def test_tests_are_taken_nearest_first(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = imports_of(tmp_path)
    near, importer, far = (f"tests/unit/{name}.py" for name in ("models/test_spec", "models/test_use", "jobs/test_far"))
    other = "tests/unit/a/test_other.py"
    assert select({"models/spec.py"}, graph, 9) == ([near, importer, other], 0)
    assert select({"models/spec.py"}, graph, 1) == ([near], 2)
    assert select({"models/use.py"}, graph, 9) == ([importer, other, far], 0)
    assert select({far, "models/spec.py"}, graph, 2) == ([far, near], 2)
    assert select({"README.md", "tests/unit/gone/test_gone.py"}, graph, 9) == ([], 0)
