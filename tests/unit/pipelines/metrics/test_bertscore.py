"""Golden values were made by bert-score 0.3.13 under transformers 4.38.2, pair by pair, on the tiny encoders."""

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.errors import UsageError
from pipelines.metrics.bertscore import DEFAULT_LAYERS, BertScorer
from pipelines.metrics.bleurt import BleurtScorer
from pipelines.metrics.scorer_checkpoint import CheckpointSource, ScorerUnavailableError
from tests.unit.pipelines.metrics.metric_cases import golden, row_name

FAMILIES = ["bert", "roberta", "deberta", "deberta-v2"]
CANDIDATES = ["the lion sings", "Lose the dog in the lane.", " no ", "the", "città d'arte", "z y x " * 20]
REFERENCES = ["the lion in the garden", "the dog", "no, never", "a", "la città", "the end"]
Encoder = Callable[[str], Path]


@pytest.mark.parametrize("family", FAMILIES)
def test_bertscore_equals_the_package_golden_values(encoder: Encoder, family: str) -> None:
    rows = [row for row in golden("bertscore_package") if row["family"] == family]
    scorer = BertScorer(str(encoder(family)), rows[0]["layer"], batch_size=3)
    scores = scorer.score([row["candidate"] for row in rows], [row["reference"] for row in rows])
    assert len(rows) == 7
    for row, score in zip(rows, scores, strict=True):
        assert score == pytest.approx(row["f1"], abs=1e-5), row_name(row)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_the_installed_package(encoder: Encoder, tmp_path: Path, family: str) -> None:
    import bert_score

    folder = shutil.copytree(encoder(family), tmp_path / family)
    # The package's blank before a RoBERTa text no longer reaches the tokenizer; the tokenizer's own option does.
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"add_prefix_space": True}))
    if family == "deberta":
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    # One pair a batch: the package lends padded batches a similarity of nought.
    package = bert_score.score(
        CANDIDATES, REFERENCES, model_type=str(folder), num_layers=2, nthreads=0, batch_size=1, device="cpu"
    )
    ours = BertScorer(str(folder), 2).score(CANDIDATES, REFERENCES)
    assert ours == pytest.approx(package[2].tolist(), abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_bertscore_is_independent_of_the_batch_size(encoder: Encoder, family: str) -> None:
    single, batched = (BertScorer(str(encoder(family)), 2, batch_size=size) for size in (1, 64))
    assert single.score(CANDIDATES, REFERENCES) == pytest.approx(batched.score(CANDIDATES, REFERENCES), abs=1e-6)


def test_bertscore_is_independent_of_the_window(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = BertScorer(str(encoder("bert")), 2)
    whole = scorer.score(CANDIDATES, REFERENCES)
    monkeypatch.setattr("pipelines.metrics.bertscore._WINDOW", 2)
    assert scorer.score(CANDIDATES, REFERENCES) == pytest.approx(whole, abs=1e-6)


def test_bertscore_encodes_equal_texts_once(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = BertScorer(str(encoder("bert")), 2)
    inner, encoded = scorer._encoder.vectors, []

    def counting(tokens: Any) -> Any:
        encoded.extend(tokens)
        return inner(tokens)

    monkeypatch.setattr(scorer._encoder, "vectors", counting)
    scores = scorer.score(["the dog", "the dog ", "a lion"], ["a lion", "a lion", "the dog"])
    assert len(encoded) == 2
    assert scores[0] == scores[1]


def test_scores_are_symmetric_one_of_equal_texts_and_as_many_as_pairs(encoder: Encoder) -> None:
    score = BertScorer(str(encoder("roberta")), 2).score([" the dog "], ["the dog"])[0]
    assert score == pytest.approx(1.0, abs=1e-6)
    scorer = BertScorer(str(encoder("bert")), 2)
    forward, backward = scorer.score(["the lion", "the dog in the lane"], ["the dog in the lane", "the lion"])
    assert forward == pytest.approx(backward, abs=1e-6)
    scorer = BertScorer(str(encoder("bert")), 2)
    with pytest.raises(ValueError, match="1 candidates but 0 references"):
        scorer.score(["a"], [])
    assert BertScorer(str(encoder("bert")), 2).score([], []) == []


@pytest.mark.parametrize(
    ("candidate", "reference"), [("", "the dog"), (" \n", "the dog"), ("the dog", ""), ("", ""), ("\u200b", "the dog")]
)
def test_text_without_tokens_scores_zero(encoder: Encoder, candidate: str, reference: str) -> None:
    scores = BertScorer(str(encoder("bert")), 2).score([candidate, "the dog"], [reference, "the dog"])
    assert scores[0] == 0.0
    assert scores[1] == pytest.approx(1.0, abs=1e-6)


def test_long_texts_are_truncated_at_the_limit(encoder: Encoder, tmp_path: Path) -> None:
    long, longer = "a b c d " * 20, "a b c d " * 20 + "never seen"
    for family in FAMILIES:
        folder = shutil.copytree(encoder(family), tmp_path / family)
        # Without a stated limit the positions bound the text; RoBERTa's start after the padding index.
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
        for path in (encoder(family), folder):
            scorer = BertScorer(str(path), 2)
            assert scorer.score([long], [longer]) == pytest.approx([1.0], abs=1e-6)
            assert [len(ids) for ids in scorer._encoder.tokens([longer])] == [40]


def test_default_layers_are_those_of_the_package_and_others_are_given(encoder: Encoder) -> None:
    assert DEFAULT_LAYERS["bert-base-multilingual-cased"] == 9
    assert DEFAULT_LAYERS["roberta-large"] == 17
    assert DEFAULT_LAYERS["microsoft/deberta-xlarge-mnli"] == 40
    with pytest.raises(UsageError, match="give one"):
        BertScorer(str(encoder("bert")))


@pytest.mark.parametrize("layer", [-1, 4])
def test_missing_layer_is_refused(encoder: Encoder, layer: int) -> None:
    with pytest.raises(UsageError, match="it has 3"):
        BertScorer(str(encoder("bert")), layer)


def test_unused_layers_are_dropped(encoder: Encoder) -> None:
    scorer = BertScorer(str(encoder("bert")), 1)
    assert len(scorer._encoder._encoder.encoder.layer) == 1
    second = BertScorer(str(encoder("bert")), 2)
    assert scorer.score(["the dog"], ["a lion"]) != second.score(["the dog"], ["a lion"])


def test_half_precision_checkpoint_runs_in_float32(encoder: Encoder, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(encoder("bert"), tmp_path / "half")
    weights = {name: weight.half() for name, weight in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))
    scorer = BertScorer(str(folder), 2)
    assert {weight.dtype for weight in scorer._encoder._encoder.parameters()} == {torch.float32}


@pytest.mark.parametrize("family", ["distilbert", "modernbert"])
def test_layers_of_other_architectures_are_found(encoder: Encoder, tmp_path: Path, family: str) -> None:
    import bert_score
    from transformers import AutoModel, AutoTokenizer, DistilBertConfig, ModernBertConfig

    torch.manual_seed(0)
    folder = shutil.copytree(encoder("bert"), tmp_path / family)
    configs: dict[str, Any] = {
        "distilbert": DistilBertConfig(vocab_size=300, dim=32, n_layers=3, n_heads=4, hidden_dim=48),
        "modernbert": ModernBertConfig(
            vocab_size=300, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
            pad_token_id=0,
        ),
    }  # fmt: skip
    AutoTokenizer.from_pretrained(encoder("bert")).save_pretrained(folder)
    AutoModel.from_config(configs[family]).save_pretrained(folder)
    package = bert_score.score(
        CANDIDATES, REFERENCES, model_type=str(folder), num_layers=2, batch_size=1, device="cpu", nthreads=0
    )
    ours = BertScorer(str(folder), 2).score(CANDIDATES, REFERENCES)
    assert ours == pytest.approx(package[2].tolist(), abs=1e-5)


def test_checkpoints_of_other_kinds_are_refused(tmp_path: Path, encoder: Encoder) -> None:
    from transformers import BartConfig, BartModel

    folder = shutil.copytree(encoder("roberta"), tmp_path / "bart")
    config = BartConfig(
        vocab_size=300, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1,
        decoder_attention_heads=1,
    )  # fmt: skip
    BartModel(config).save_pretrained(folder)
    with pytest.raises(ScorerUnavailableError, match="has a decoder"):
        BertScorer(str(folder), 1)
    from transformers import GPT2Config, GPT2Model

    folder = shutil.copytree(encoder("roberta"), tmp_path / "gpt2")
    (folder / "config.json").unlink()
    GPT2Model(GPT2Config(vocab_size=280, n_embd=8, n_layer=1, n_head=1)).save_pretrained(folder)
    with pytest.raises(ScorerUnavailableError, match="names of its layers are unknown"):
        BertScorer(str(folder), 1)
    folder = shutil.copytree(encoder("bert"), tmp_path / "unpadded")
    (folder / "tokenizer_config.json").write_text('{"pad_token": null}')
    with pytest.raises(ScorerUnavailableError, match="no padding token"):
        BertScorer(str(folder), 1)


def test_error_names_model_and_remedy_and_survives_pickling() -> None:
    error = ScorerUnavailableError("org/name", "it is gone.", "Fetch it.")
    rebuilt = copy.copy(error)
    assert str(rebuilt) == str(error) == "scorer model 'org/name' cannot be used: it is gone. Fetch it."
    assert (rebuilt.model, rebuilt.reason, rebuilt.remedy) == ("org/name", "it is gone.", "Fetch it.")


@pytest.mark.parametrize("model", ["/no/such/directory", "./no/such/directory"])
def test_missing_directory_is_unavailable(model: str) -> None:
    with pytest.raises(ScorerUnavailableError, match="the directory does not exist"):
        BertScorer(model, 1)


def test_uncached_hub_id_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ScorerUnavailableError, match=r"'no-org/no-model'.*local cache") as caught:
        BertScorer("no-org/no-model", 1, local_files_only=True)
    assert caught.value.model == "no-org/no-model"


def test_weights_of_another_format_and_damaged_ones_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = shutil.copytree(encoder("bert"), tmp_path / "torch")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ScorerUnavailableError, match="to safetensors"):
        BertScorer(str(folder), 1)
    folder = shutil.copytree(encoder("bert"), tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ScorerUnavailableError, match="weights did not load"):
        BertScorer(str(folder), 1)


def test_missing_layer_is_refused_but_a_missing_pooler_is_not(encoder: Encoder, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(encoder("bert"), tmp_path / "partial")
    weights = load_file(folder / "model.safetensors")
    without_pooler = {name: weight for name, weight in weights.items() if "pooler" not in name}
    save_file(without_pooler, folder / "model.safetensors", metadata={"format": "pt"})
    assert BertScorer(str(folder), 1).score(["a"], ["a"])[0] == pytest.approx(1.0, abs=1e-6)
    extra = {name.replace("layer.0.", "layer.9."): tensor.clone() for name, tensor in weights.items()}
    save_file(weights | extra, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ScorerUnavailableError, match=r"more layers than its configuration, such as encoder\.layer\.9"):
        BertScorer(str(folder), 1)
    del weights["encoder.layer.0.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ScorerUnavailableError, match=r"lacks weights .*layer\.0\.output"):
        BertScorer(str(folder), 1)


def test_code_of_a_checkpoint_is_never_run() -> None:
    options = CheckpointSource(model="org/name").options()
    assert options == {"revision": "main", "local_files_only": False, "trust_remote_code": False}
    assert CheckpointSource(model="org/name", revision="abc", local_files_only=True).options()["revision"] == "abc"


def test_importing_metrics_loads_no_torch() -> None:
    modules = ["text", "meteor", "bertscore", "bleurt", "scorer_checkpoint", "intervals", "agreement", "f1"]
    imports = "\n".join(f"import pipelines.metrics.{module}" for module in modules)
    heavy = "{'torch', 'transformers', 'ray', 'nltk', 'sklearn', 'statsmodels', 'matplotlib', 'pandas'}"
    code = f"import sys\n{imports}\nassert not (loaded := {heavy} & sys.modules.keys()), loaded"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr


ROWS = golden("bleurt_port")
BLEURT_REFERENCES = [row["reference"] for row in ROWS]
BLEURT_CANDIDATES = [row["candidate"] for row in ROWS]


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_bleurt_equals_the_port_golden_values(bleurt_checkpoint: Path, batch_size: int) -> None:
    scores = BleurtScorer(str(bleurt_checkpoint), batch_size=batch_size).score(BLEURT_REFERENCES, BLEURT_CANDIDATES)
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
