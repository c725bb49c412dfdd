"""The one table of model families, and the page that describes it."""

from models.checkpoints.installed_transformers import transformers_classes
from models.families import FAMILIES, family
from tests.support.paths import ROOT


def documented(path: str) -> set[str]:
    """Return the model types that the page lists with this path."""
    rows = [line.split("|") for line in (ROOT / "docs/prefix-sharing.md").read_text().splitlines()]
    return {
        kind.split()[0] for row in rows if len(row) > 3 and row[2].strip() == path for kind in row[1].split(",") if kind
    }


def test_page_lists_the_verified_families_as_shared() -> None:
    shared = documented("shared")
    assert {name for name, entry in FAMILIES.items() if entry.is_verified} <= shared
    assert not {name for name in shared if family(name).unshared_reason}


def test_families_that_cannot_share_are_documented_as_such() -> None:
    assert {name for name, entry in FAMILIES.items() if entry.unshared_reason} <= documented("encoder reused")


def test_families_are_model_types_of_transformers() -> None:
    assert FAMILIES.keys() <= transformers_classes().keys() | {"gemma3_text"}
    assert family(None) == family("unheard-of")
