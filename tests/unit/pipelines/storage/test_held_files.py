"""Contents that are held: one version a file, and bounded."""

from pipelines.storage.held_files import HeldFiles


def test_versions_that_are_held_are_found_and_those_used_last_stay_within_the_limit() -> None:
    held = HeldFiles()
    held.add("a", "1", b"first")
    assert held.find("a", "1") == b"first"
    assert held.find("a", "2") is None
    held.add("a", "2", b"second")
    assert (held.find("a", "1"), held.find("a", "2")) == (None, b"second")
    held.drop("a")
    held.drop("a")
    assert held.find("a", "2") is None
    held = HeldFiles(max_bytes=10)
    for name in ("a", "b"):
        held.add(name, "1", b"12345")
    held.find("a", "1")
    held.add("c", "1", b"12345")
    assert [held.find(name, "1") is not None for name in ("a", "b", "c")] == [True, False, True]
    held.add("a", "2", b"1")
    held.add("d", "1", b"1234")
    assert [held.find(*key) is not None for key in (("a", "2"), ("c", "1"), ("d", "1"))] == [True, True, True]
    held.add("large", "1", b"12345678901")
    assert [held.find(name, "1") for name in ("c", "d", "large")] == [None, None, None]
