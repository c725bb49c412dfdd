import copy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pipelines.metrics.bertscore import BertScorer
from pipelines.metrics.scorer_checkpoint import CheckpointSource, ScorerUnavailableError

Encoder = Callable[[str], Path]


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
    modules = [
        "text", "meteor", "bertscore", "bleurt", "token_vectors", "scorer_checkpoint", "stats", "agreement", "f1",
    ]  # fmt: skip
    imports = "\n".join(f"import pipelines.metrics.{module}" for module in modules)
    heavy = "{'torch', 'transformers', 'ray', 'nltk', 'sklearn', 'statsmodels', 'matplotlib', 'pandas'}"
    code = f"import sys\n{imports}\nassert not (loaded := {heavy} & sys.modules.keys()), loaded"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
