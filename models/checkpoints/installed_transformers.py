"""What the installed transformers can load, read from its source and the list of packages: importing loads torch."""

import ast
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

_TABLES: Final = frozenset({"MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"})

QUANTIZERS: Final[Mapping[str, tuple[str, ...]]] = {
    "aqlm": ("aqlm",),
    "auto-round": ("auto-round>=0.5.0",),
    "awq": ("gptqmodel",),
    "bitnet": (),
    "bitsandbytes": ("bitsandbytes>=0.46.1",),
    "compressed-tensors": ("compressed-tensors>=0.15.0",),
    "eetq": ("kernels>=0.18.2,<0.19.0",),
    "fbgemm_fp8": ("fbgemm-gpu",),
    "fouroversix": ("fouroversix",),
    "fp8": (),  # this and the next three are loaded in half precision where no kernel computes with them
    "metal": (),
    "mxfp4": (),
    "mxfp8": (),
    "fp_quant": ("fp_quant", "qutlass"),
    "gemma": (),
    "gptq": ("optimum", "gptqmodel"),
    "higgs": ("flute-kernel>=0.3.0", "fast_hadamard_transform"),
    "hqq": ("hqq>=0.2.1",),
    "quanto": ("optimum-quanto",),
    "quark": ("amd-quark",),
    "sinq": ("sinq",),
    "spqr": ("spqr_quant",),
    "torchao": ("torchao>=0.15.0",),
    "vptq": ("vptq>=0.0.4",),
}
"""Methods of quantized checkpoints that transformers loads -> packages that it needs for them (its quantizers/*.py)."""
ONLY_ON_GPUS: Final = frozenset({"eetq", "fbgemm_fp8", "fp_quant", "higgs", "spqr", "vptq"})


def transformers_version() -> str:
    """Return the version of the installed transformers."""
    return importlib.metadata.version("transformers")


@lru_cache(maxsize=1)
def transformers_classes() -> Mapping[str, frozenset[str]]:
    """Return `model_type` -> names of its classes for pictures and text, or text; {} where there is no source."""
    package = importlib.util.find_spec("transformers")
    if package is None or not package.submodule_search_locations:
        return {}
    path = Path(package.submodule_search_locations[0], "models", "auto", "modeling_auto.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes: dict[str, frozenset[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in _TABLES for t in node.targets):
            for entry in ast.walk(node.value):
                if isinstance(entry, ast.Tuple) and entry.elts and isinstance(entry.elts[0], ast.Constant):
                    names = {n.value for n in ast.walk(entry) if isinstance(n, ast.Constant)} - {entry.elts[0].value}
                    model_type = str(entry.elts[0].value)
                    classes[model_type] = classes.get(model_type, frozenset()) | {str(name) for name in names}
    return classes


def missing_packages(method: str) -> list[str]:
    """Return the requirements of a quantization method that no installed package meets."""
    return [text for text in QUANTIZERS[method] if not _is_installed(Requirement(text))]


def _is_installed(requirement: Requirement) -> bool:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)
