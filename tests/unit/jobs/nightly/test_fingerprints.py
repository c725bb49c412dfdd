from __future__ import annotations

from jobs.nightly.budget import changed_parts, code_fingerprint


def test_code_fingerprint_is_stable() -> None:
    first = code_fingerprint()
    code_fingerprint.cache_clear()
    assert code_fingerprint() == first
    assert len(first) == 16


def test_changed_parts_include_missing_ones() -> None:
    assert changed_parts({"code": "1", "model": "2"}, {"code": "1", "judge": "3"}) == ["judge", "model"]
    assert changed_parts({"judge": ""}, {}) == []
