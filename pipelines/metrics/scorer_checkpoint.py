"""How scorer models are had: local directory or hub id, safetensors only, no code from the checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import PipelineError


class ScorerUnavailableError(PipelineError):
    """A scorer model that cannot be had; its metrics are then absent.

    Attributes:
        model: The directory or hub id that was asked for.
        reason: What stood in the way, in one line.
        remedy: What the user can do.
    """

    exit_code = 3

    def __init__(self, model: str, reason: str, remedy: str) -> None:
        super().__init__(f"scorer model {model!r} cannot be used: {reason} {remedy}")
        self.model = model
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[type["ScorerUnavailableError"], tuple[str, str, str]]:
        # The error crosses process borders; the default would rebuild it from the message alone.
        return type(self), (self.model, self.reason, self.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a scorer model comes from.

    Attributes:
        model: A local directory or a hub id.
        revision: Commit, tag or branch of a hub id; None is the default branch.
        local_files_only: Whether the hub must not be asked: the directory or the local cache has it, or
            nobody.
    """

    model: str
    revision: str | None = None
    local_files_only: bool = False

    def options(self) -> dict[str, Any]:
        """The keyword arguments that every loading call of transformers takes."""
        return {
            "revision": self.revision or "main",
            "local_files_only": self.local_files_only,
            "trust_remote_code": False,
        }

    @contextmanager
    def obtaining(self, what: str) -> Iterator[None]:
        """Turns the many ways in which loading fails into one.

        Args:
            what: The part that is being loaded, for the message.

        Raises:
            ScorerUnavailableError: The part is missing, unreadable, of an unknown kind, or in a form that is
                not loaded here.
        """
        from safetensors import SafetensorError

        path = Path(self.model)
        # Of a path, the hub's client would say that it is no repository id.
        if (path.is_absolute() or self.model.startswith(".")) and not path.is_dir():
            raise self.refuse("there is no such directory.")
        try:
            yield
        # RuntimeError is how torch tells of weights that do not fit the configuration.
        except (OSError, ValueError, LookupError, TypeError, ImportError, RuntimeError, SafetensorError) as error:
            lines = str(error).strip().splitlines()
            detail = lines[0].rstrip(".") if lines else type(error).__name__
            raise self.refuse(f"its {what} did not load ({detail}).") from error

    def refuse(self, reason: str) -> ScorerUnavailableError:
        """The error for a checkpoint that loaded but is not what is needed; the caller raises it.

        Args:
            reason: One sentence.

        Returns:
            The error.
        """
        return ScorerUnavailableError(self.model, reason, self._remedy())

    def _remedy(self) -> str:
        where = (
            "Fetch it into the local cache first, or allow the hub."
            if self.local_files_only
            else "Check the name, the revision and the way to the hub."
        )
        return (
            f"{where} A local directory needs config.json, the tokenizer's files and model.safetensors; weights in "
            "another form must be saved as safetensors once."
        )


def load_model(source: Source, loader: Any, *, device: str, may_lack: str | None = None, **options: Any) -> Any:
    """Loads a model for inference in float32 and makes sure that no needed weight is a random number.

    Args:
        source: Where from.
        loader: A class of transformers with `from_pretrained`.
        device: Torch device.
        may_lack: Part of the names of weights that may be missing, since their output is not used.
        **options: Further arguments of `from_pretrained`.

    Returns:
        The model, on the device, in evaluation mode.

    Raises:
        ScorerUnavailableError: The model cannot be had, or the checkpoint lacks weights.
    """
    import torch

    with source.obtaining("weights"):
        model, info = loader.from_pretrained(
            source.model,
            # Half-precision checkpoints would else stay in half precision, and published values are float32.
            dtype=torch.float32,
            use_safetensors=True,
            output_loading_info=True,
            **source.options(),
            **options,
        )
    absent = sorted(key for key in info["missing_keys"] if may_lack is None or may_lack not in key)
    wrong = sorted(str(key) for key in info["mismatched_keys"])
    if absent or wrong:
        raise source.refuse(f"the checkpoint lacks weights of this architecture, such as {(absent + wrong)[0]}.")
    return model.to(device).eval()
