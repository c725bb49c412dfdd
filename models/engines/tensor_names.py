"""Compare the tensors of a checkpoint or adapter with those of its model: what is missing would be random numbers."""

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any

from models.engines.hub import ADAPTER_WEIGHTS

_log = logging.getLogger(__name__)

_SHOWN = 3  # tensors that a message names


def check_weights(model: Any, info: Mapping[str, Any]) -> None:
    """Check what `from_pretrained` says of the tensors that it loaded; further ones of no known kind are logged.

    Raises:
        ValueError: a tensor of the model is missing or of another shape, or the checkpoint has more layers.
    """
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    mismatched = sorted(str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"])
    kinds = {re.sub(r"\.\d+\.", ".*.", name) for name, _ in model.named_parameters()}
    extra = [name for name in unexpected if re.sub(r"\.\d+\.", ".*.", name) in kinds]
    _refuse(missing=missing, unexpected=unexpected if missing else extra, mismatched=mismatched)
    if unexpected:
        _log.warning("%s: the checkpoint holds %s that nothing uses", type(model).__name__, _listed(unexpected))


def check_adapter(tuned: Any, adapter: str, mapping: Mapping[str, str]) -> None:
    """Load an adapter's tensors once more, and raise ValueError unless they are those of its layers."""
    result = tuned.load_adapter(
        adapter, tuned.active_adapter, key_mapping=mapping, torch_device="cpu", use_safetensors=True
    )
    try:
        _refuse(missing=sorted(result.missing_keys), unexpected=sorted(result.unexpected_keys))
    except ValueError as error:
        raise ValueError(f"{ADAPTER_WEIGHTS} of the adapter {adapter} is not for this model: {error}") from None


def _refuse(**names: Collection[str]) -> None:
    problems = [f"{kind} {_listed(tensors)}" for kind, tensors in names.items() if tensors]
    if problems:
        raise ValueError(f"its tensors are not those of the model: {'; '.join(problems)}")


def _listed(tensors: Collection[str]) -> str:
    shown = ", ".join([*tensors][:_SHOWN])
    return f"{shown} and {len(tensors) - _SHOWN} more" if len(tensors) > _SHOWN else shown
