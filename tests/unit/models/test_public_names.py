"""The public names of `models` can be imported, are documented, and load nothing before their first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import models


@pytest.mark.parametrize("name", models.__all__)
def test_public_name_is_importable_and_documented(name: str) -> None:
    public = getattr(models, name)
    assert public.__name__ == name
    assert (public.__doc__ or "").strip()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        models.nothing  # noqa: B018


def test_package_import_loads_no_other_module_of_its_own() -> None:
    code = "import sys, models; print([name for name in sys.modules if name.startswith('models.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert run.stdout.strip() == "[]"
