"""Why a checkpoint in a folder cannot be loaded here, by its config.json, its file names and the headers of weights.

No weights are read, and neither torch nor transformers is imported: `list models`, `doctor` and a run before Ray
starts say the same as the load.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from models.checkpoints.installed_transformers import (
    ONLY_ON_GPUS,
    QUANTIZERS,
    missing_packages,
    transformers_classes,
    transformers_version,
)
from models.errors import YamlFileError
from models.spec import ModelSpec, VLLMEntry
from models.strict_yaml import read_text
from models.weight_headers import LFS_REMEDY, check_safetensors, gguf_file, is_lfs_pointer

PICKLES_REFUSED: Final = (
    "no other weights are read, since pickles run code as they load: convert them where you trust them, with "
    "AutoModel....from_pretrained(folder).save_pretrained(new_folder), and give the new folder"
)
NO_TOKENIZER: Final = (
    "no tokenizer: copy tokenizer.json, or tokenizer.model, or vocab.json and merges.txt, with tokenizer_config.json "
    "from the model that it was trained from"
)
_NO_PROCESSOR: Final = (
    "no image processor: copy preprocessor_config.json or processor_config.json from the model that it was trained from"
)
_COMPLETE: Final = "give the folder that save_pretrained wrote, or one fetched whole"
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZERS: Final = (
    *("tokenizer.json", "*.model", "*.tiktoken", "*.spm", "*.bpe", "tekken.json", "tokenization_*.py"),
    *("vocab.*", "merges.txt"),
)
_PROCESSORS: Final = ("preprocessor_config.json", "processor_config.json", "*process*.py")
_ADAPTER: Final = ("adapter_config.json", "adapter_model.safetensors")


def checkpoint_problem(spec: ModelSpec, source: str | None = None, adapter: str | None = None) -> str:
    """Return why the folder of a model or of its adapter cannot be loaded here, and the remedy; '' for no folder.

    `source` and `adapter` are folders that hold copies of what the entry names.
    """
    if not spec.runs_locally:
        return ""
    try:
        return next((problem for problem in _problems(spec, source or spec.model, adapter or spec.adapter)), "")
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    except (YamlFileError, ValueError) as error:
        return str(error)


def read_config(folder: Path) -> Mapping[str, Any]:
    """Return the content of a checkpoint's config.json, or raise ValueError, YamlFileError or OSError."""
    return _read_json(folder / "config.json")


def _problems(spec: ModelSpec, source: str, adapter: str | None) -> Iterator[str]:
    folder = Path(source).expanduser()
    if folder.is_dir() and not gguf_file(source):
        yield from _model_problems(spec, folder)
    if adapter and Path(adapter).expanduser().is_dir():
        yield from _adapter_problems(Path(adapter).expanduser())


def _model_problems(spec: ModelSpec, folder: Path) -> Iterator[str]:
    if not (folder / "config.json").is_file():
        if (folder / _ADAPTER[0]).is_file():
            yield (
                f"{folder} holds an adapter and no model: name it as `adapter` in an entry of a models file, with its "
                "base model as `model`"
            )
        if any(folder.glob("*.gguf")):  # one alone is the model
            yield f"{folder} holds several *.gguf: name one of them as `model`"
        yield from _pickles(folder)
        yield f"{folder} has no config.json: {_COMPLETE}"
    config = read_config(folder)
    for path in sorted(folder.glob("*.json")):
        if path.name.startswith(("tokenizer", "vocab", "preprocessor_config", "processor_config", "model.")):
            _read_json(path)
    yield from _weights(spec, folder, config)
    if isinstance(spec, VLLMEntry):
        return  # it has code, kernels and forms of tokenizers of its own
    has_code = spec.trust_remote_code and "auto_map" in config
    yield from () if has_code else _missing_class(folder, config)
    if problem := quantization_problem(spec, _quantization(folder, config)):
        yield problem
    if not _has(folder, _TOKENIZERS):
        yield f"{folder} has {NO_TOKENIZER}"
    if "vision_config" in config and not _has(folder, _PROCESSORS):
        yield f"{folder} has {_NO_PROCESSOR}"


def _adapter_problems(folder: Path) -> Iterator[str]:
    for name in _ADAPTER:
        if not (folder / name).is_file():
            yield f"the adapter {folder} has no {name}; weights of other formats are not read"
    _read_json(folder / _ADAPTER[0])
    check_safetensors(folder / _ADAPTER[1])


def _weights(spec: ModelSpec, folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the weights that the engine would read are not whole."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    files = [path for path in sorted(folder.glob("*.safetensors")) if path.name != _ADAPTER[1]]
    if not files and not index.exists():
        yield from _pickles(folder)
        yield f"{folder} has no weights (*.safetensors): {_COMPLETE}"
    if whole.exists():
        files = [whole]
    elif index.exists():
        weight_map = _read_json(index).get("weight_map")
        if not isinstance(weight_map, dict):
            yield f"{index} names no weights: fetch it again"
        files = [folder / name for name in sorted({str(name) for name in dict(weight_map or {}).values()})]
    elif not isinstance(spec, VLLMEntry) and "transformers_weights" not in config:
        yield f"{folder} has neither {whole.name} nor {index.name}: {_COMPLETE}"
    missing = [path.name for path in files if not path.exists()]
    if missing:
        yield f"{folder} lacks {missing[0]}, one of {len(files)} files of weights that {index.name} names: fetch it"
    for path in files:
        check_safetensors(path)


def _pickles(folder: Path) -> Iterator[str]:
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles and not any(folder.glob("*.safetensors")):
        yield f"the folder holds {pickles[0]} and no *.safetensors, and {PICKLES_REFUSED}"


def _missing_class(folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    named, known = config.get("model_type"), transformers_classes()
    model_type = named if isinstance(named, str) else ""
    if known and model_type not in known:
        path = folder / "config.json"
        if not model_type:
            yield f"{path} names no model_type, by which transformers chooses the model's code: {_COMPLETE}"
        if "auto_map" in config:
            yield (
                f"it comes with code of its publisher that would run on this machine ({folder}): read it, then name "
                "the model in --trust-remote-code"
            )
        yield (
            f"transformers {transformers_version()} has no code for {model_type} ({path}): install a version that has, "
            "or serve the model elsewhere and name its endpoint"
        )


def quantization_problem(spec: ModelSpec, quantization: Any) -> str:
    """Return why transformers does not load weights quantized like this here, and the remedy; '' if it does.

    `quantization` is a configuration's `quantization_config`, None or empty for plain weights.
    """
    if not quantization:
        return ""
    method = str(quantization.get("quant_method") if isinstance(quantization, dict) else quantization)
    if isinstance(quantization, dict) and (quantization.get("load_in_4bit") or quantization.get("load_in_8bit")):
        method = "bitsandbytes"
    weights, remedy = f"its weights are quantized ({method})", "use the model's unquantized checkpoint"
    if method not in QUANTIZERS:
        return f"{weights}, which transformers {transformers_version()} does not load: {remedy}"
    if missing := missing_packages(method):
        packages = " ".join(f"'{text}'" for text in missing)
        names = "a package that is" if len(missing) == 1 else "packages that are"
        return f"{weights}, which needs {names} not installed here: pip install {packages}, or {remedy}"
    if method in ONLY_ON_GPUS and (spec.device == "cpu" or shutil.which("nvidia-smi") is None):
        return f"{weights}, which runs on GPUs only, and none is used here: {remedy}"
    return ""


def _quantization(folder: Path, config: Mapping[str, Any]) -> Any:
    text = config.get("text_config")
    nested = text.get("quantization_config") if isinstance(text, dict) else None
    modelopt = "modelopt" if (folder / "hf_quant_config.json").is_file() else None  # in a file of its own
    return config.get("quantization_config") or nested or modelopt


def _has(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(any(folder.glob(pattern)) for pattern in patterns)


def _read_json(path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file; ValueError if it holds anything else."""
    text = read_text(path, "file of a checkpoint")
    if is_lfs_pointer(text[:100].encode()):
        raise ValueError(f"{path} {LFS_REMEDY}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}): fetch it again") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} is no JSON object: fetch it again")  # noqa: TRY004  as for all damage
    return value
