"""A model as it is launched: a spec with the paths of its files on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from models.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedModel:
    """A model whose files a local engine can load."""

    spec: ModelSpec
    source: str  # hub id or local folder of the weights
    adapter: str | None = None  # hub id or local folder of the adapter

    @classmethod
    def as_named(cls, spec: ModelSpec) -> Self:
        """Return the model with its files where the spec names them, nothing fetched."""
        return cls(spec=spec, source=spec.model, adapter=spec.adapter)

    @property
    def folder(self) -> Path | None:
        """Return the local folder of the weights; None for a hub id."""
        path = Path(self.source)
        return path if path.is_dir() else None
