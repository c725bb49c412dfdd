"""Loading of scorer models: local directory or hub id, safetensors only, no code from the checkpoint."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import PipelineError


class ScorerUnavailableError(PipelineError):
    """A scorer model (directory or hub id) is unavailable, with reason and remedy; its metrics are then absent."""

    exit_code = 3

    def __init__(self, model: str, reason: str, remedy: str) -> None:
        super().__init__(f"scorer model {model!r} cannot be used: {reason} {remedy}")
        self.model = model
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[type["ScorerUnavailableError"], tuple[str, str, str]]:
        # The error is pickled between processes; the default would rebuild it from the message alone.
        return type(self), (self.model, self.reason, self.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSource:
    """A scorer model to load."""

    model: str  # a local directory or a hub id
    revision: str | None = None  # commit, tag or branch of a hub id; None: the default branch
    local_files_only: bool = False  # do not access the hub

    def options(self) -> dict[str, Any]:
        """Return keyword arguments for loading calls of transformers."""
        return {
            "revision": self.revision or "main",
            "local_files_only": self.local_files_only,
            "trust_remote_code": False,
        }

    @contextmanager
    def obtaining(self, part: str) -> Iterator[None]:
        """Translate every error of loading a part of the model into a ScorerUnavailableError."""
        from safetensors import SafetensorError

        path = Path(self.model)
        # The hub's client would report that a path is not a repository id.
        if (path.is_absolute() or self.model.startswith(".")) and not path.is_dir():
            raise self.refuse("the directory does not exist.")
        try:
            yield
        # torch raises RuntimeError for weights that do not match the configuration.
        except (OSError, ValueError, LookupError, TypeError, ImportError, RuntimeError, SafetensorError) as error:
            lines = str(error).strip().splitlines()
            detail = lines[0].rstrip(".") if lines else type(error).__name__
            raise self.refuse(f"its {part} did not load ({detail}).") from error

    def refuse(self, reason: str) -> ScorerUnavailableError:
        """Return the error for an unsuitable checkpoint; `reason` is a sentence."""
        return ScorerUnavailableError(self.model, reason, self._remedy())

    def _remedy(self) -> str:
        advice = (
            "Download it into the local cache first, or allow access to the hub."
            if self.local_files_only
            else "Check the name, the revision and the connection to the hub."
        )
        return (
            f"{advice} A local directory needs config.json, the tokenizer's files and model.safetensors; convert "
            "weights of another format to safetensors."
        )


def load_model(
    source: CheckpointSource, loader: Any, *, device: str, may_lack: str | None = None, **options: Any
) -> Any:
    """Load a model for inference in float32; only weights named `may_lack`, which are unused, may be missing."""
    import torch

    with source.obtaining("weights"):
        model, info = loader.from_pretrained(
            source.model,
            # Half-precision checkpoints would stay in half precision, but published values are float32.
            dtype=torch.float32,
            use_safetensors=True,
            output_loading_info=True,
            **source.options(),
            **options,
        )
    missing = sorted(key for key in info["missing_keys"] if may_lack is None or may_lack not in key)
    mismatched = sorted(str(key) for key in info["mismatched_keys"])
    if missing or mismatched:
        raise source.refuse(f"the checkpoint lacks weights of this architecture, such as {(missing + mismatched)[0]}.")
    kinds = {re.sub(r"\.\d+\.", ".*.", name) for name, _ in model.named_parameters()}
    unexpected = sorted(key for key in info["unexpected_keys"] if re.sub(r"\.\d+\.", ".*.", key) in kinds)
    if unexpected:
        raise source.refuse(f"the checkpoint has more layers than its configuration, such as {unexpected[0]}.")
    return model.to(device).eval()
