"""Golden values were made by the port's own package, bleurt-pytorch 0.0.1, under transformers 4.38.2."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipelines.metrics.bleurt import BleurtScorer
from pipelines.metrics.scorer_checkpoint import ScorerUnavailableError
from tests.unit.pipelines.metrics.metric_cases import golden

ROWS = golden("bleurt_port")
REFERENCES = [row["reference"] for row in ROWS]
CANDIDATES = [row["candidate"] for row in ROWS]


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_bleurt_equals_the_port_golden_values(bleurt_checkpoint: Path, batch_size: int) -> None:
    scores = BleurtScorer(str(bleurt_checkpoint), batch_size=batch_size).score(REFERENCES, CANDIDATES)
    assert scores == pytest.approx([row["expected"] for row in ROWS], abs=1e-5)


def test_pairs_are_as_many_on_both_sides_and_have_an_order(bleurt_checkpoint: Path) -> None:
    forward, backward = BleurtScorer(str(bleurt_checkpoint)).score(["the dog", "a lion"], ["a lion", "the dog"])
    assert forward != pytest.approx(backward, abs=1e-3)
    scorer = BleurtScorer(str(bleurt_checkpoint))
    assert scorer.score([], []) == []
    with pytest.raises(ValueError, match="1 references but 0 candidates"):
        scorer.score(["a"], [])


def test_pairs_are_truncated_at_the_limit_and_special_tokens_in_them_are_text(bleurt_checkpoint: Path) -> None:
    scorer = BleurtScorer(str(bleurt_checkpoint))
    ids, boundary = scorer._encode("the", "the")
    assert (ids, boundary) == ([2, 5, 3, 5, 3], 3)
    # 40 positions: a short reference stays whole, and of two long texts the candidate is cut first.
    ids, boundary = scorer._encode("the", "z" * 99)
    assert (len(ids), boundary) == (40, 3)
    ids, boundary = scorer._encode("z" * 99, "z" * 99)
    assert (len(ids), boundary) == (40, 2 + 19)
    ids, _ = BleurtScorer(str(bleurt_checkpoint))._encode("the", "[SEP] [CLS]")
    assert ids.count(3) == 2
    assert ids.count(2) == 1


def test_bleurt_scores_equal_pairs_once(bleurt_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = BleurtScorer(str(bleurt_checkpoint))
    inner, sizes = scorer._forward, []

    def counting(batch: Any) -> Any:
        sizes.append(len(batch))
        return inner(batch)

    monkeypatch.setattr(scorer, "_forward", counting)
    scores = scorer.score(["a", "the", "a"], ["b", "dog", "b"])
    assert sizes == [2]
    assert scores[0] == scores[2] != scores[1]


@pytest.mark.parametrize("change", [{"model_type": "bert"}, {"embedding_size": None}])
def test_other_checkpoint_is_refused(bleurt_checkpoint: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    folder = shutil.copytree(bleurt_checkpoint, tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ScorerUnavailableError, match="not a BLEURT-20"):
        BleurtScorer(str(folder))


def test_checkpoint_that_lacks_a_part_is_refused(bleurt_checkpoint: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bleurt_checkpoint, tmp_path / "bare")
    (folder / "config.json").unlink()
    with pytest.raises(ScorerUnavailableError, match="not a BLEURT-20"):
        BleurtScorer(str(folder))
    from sentencepiece import sentencepiece_model_pb2

    folder = shutil.copytree(bleurt_checkpoint, tmp_path / "unmarked")
    proto = sentencepiece_model_pb2.ModelProto.FromString((folder / "spm.model").read_bytes())  # type: ignore[attr-defined]  # generated
    proto.pieces[3].piece = "</s>"
    proto.trainer_spec.eos_piece = "</s>"
    (folder / "spm.model").write_bytes(proto.SerializeToString())
    with pytest.raises(ScorerUnavailableError, match=r"no \[SEP\]"):
        BleurtScorer(str(folder))
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(bleurt_checkpoint, tmp_path / "headless")
    weights = load_file(folder / "model.safetensors")
    del weights["bleurt.pooler.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ScorerUnavailableError, match=r"lacks weights .*pooler"):
        BleurtScorer(str(folder))


@pytest.mark.parametrize("missing", ["spm.model", "model.safetensors"])
def test_error_names_the_missing_part(bleurt_checkpoint: Path, tmp_path: Path, missing: str) -> None:
    folder = shutil.copytree(bleurt_checkpoint, tmp_path / "partial")
    (folder / missing).unlink()
    part = {"spm.model": "vocabulary", "model.safetensors": "weights"}[missing]
    with pytest.raises(ScorerUnavailableError, match=f"its {part} did not load"):
        BleurtScorer(str(folder))
