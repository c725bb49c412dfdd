"""Nodes that may still join, from the label of the cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.connection import MAX_NODES_LABEL, max_gpu_nodes, parse_max_nodes_label

COUNTS = st.dictionaries(st.integers(1, 16), st.integers(1, 30), min_size=1, max_size=4)


@given(COUNTS)
def test_written_label_is_parsed_back(counts: dict[int, int]) -> None:
    text = "_".join(f"{count}x{gpus}" for gpus, count in counts.items())
    assert parse_max_nodes_label(text) == tuple(sorted((g for g, n in counts.items() for _ in range(n)), reverse=True))


@given(st.text(max_size=12))
def test_any_text_gives_valid_counts_or_an_error_with_the_syntax(text: str) -> None:
    try:
        counts = parse_max_nodes_label(text)
    except ValueError as error:
        assert "write COUNTxGPUS" in str(error)
    else:
        assert counts
        assert all(0 < gpus < 100 for gpus in counts)


@pytest.mark.parametrize("text", ["", "8", "8x", "x8", "0x8", "8x0", "8x1,4x8", "8x1_", "-1x8", "999999x1", "8x1 _4x8"])
def test_malformed_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=MAX_NODES_LABEL):
        parse_max_nodes_label(text)


def cluster(monkeypatch: pytest.MonkeyPatch, nodes: list[dict[str, Any]]) -> None:
    import ray

    monkeypatch.setattr(ray, "nodes", lambda: nodes)


def test_label_of_a_live_node_counts_and_without_one_a_cluster_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = {"Alive": False, "Labels": {MAX_NODES_LABEL: "9x9"}}
    cluster(monkeypatch, [dead, {"Alive": True}, {"Alive": True, "Labels": {MAX_NODES_LABEL: "2x1_1x4"}}])
    assert max_gpu_nodes() == (4, 1, 1)
    cluster(monkeypatch, [{"Alive": True, "Labels": {"ray.io/node-id": "1"}}])
    assert max_gpu_nodes() == ()
