"""Contents that are cached: one version a file, and bounded."""

from pipelines.storage.file_cache import FileCache


def test_versions_that_are_held_are_found_and_those_used_last_stay_within_the_limit() -> None:
    cached = FileCache()
    cached.add("a", "1", b"first")
    assert cached.find("a", "1") == b"first"
    assert cached.find("a", "2") is None
    cached.add("a", "2", b"second")
    assert (cached.find("a", "1"), cached.find("a", "2")) == (None, b"second")
    cached.drop("a")
    cached.drop("a")
    assert cached.find("a", "2") is None
    cached = FileCache(max_bytes=10)
    for name in ("a", "b"):
        cached.add(name, "1", b"12345")
    cached.find("a", "1")
    cached.add("c", "1", b"12345")
    assert [cached.find(name, "1") is not None for name in ("a", "b", "c")] == [True, False, True]
    cached.add("a", "2", b"1")
    cached.add("d", "1", b"1234")
    assert [cached.find(*key) is not None for key in (("a", "2"), ("c", "1"), ("d", "1"))] == [True, True, True]
    cached.add("large", "1", b"12345678901")
    assert [cached.find(name, "1") for name in ("c", "d", "large")] == [None, None, None]
