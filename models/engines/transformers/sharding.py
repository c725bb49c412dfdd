"""Sharding of a model among ranks: transformers' own plan, and key heads that several ranks share."""

import math
from typing import Any

from models.engines.launch import LaunchedModel
from models.engines.transformers.model_config import empty_model, heads_of, layer_configs
from models.errors import EngineUnreachableError

_KV_STYLE = "vlmsweep_shared_kv"
_KV_LAYERS = ("k_proj", "v_proj")
_WHOLE_STYLE = "vlmsweep_whole"
_READ_BY_INDEX = ("embed_tokens", "lm_head")  # an embedding that Gemma 4 indexes, and the head that may be tied to it


def plan_ranks(launched: LaunchedModel, device: str) -> str | None:
    """Return None when sharding works on `cpu` or `cuda`, else what is done instead.

    Indivisible heads raise `EngineUnreachableError`.
    """
    spec, model = launched.spec, empty_model(launched)
    if not any(".layers." in f".{name}" for name in model.tp_plan or ()):
        instead = (
            "one process holds it all and shares prefixes"
            if device == "cpu"
            else f"one process spreads its layers over the {spec.tensor_parallel} GPUs of a replica and answers in "
            "padded batches; tensor_parallel: 1 shares prefixes where one GPU holds the model"
        )
        return f"{launched.source}: transformers has no tensor-parallel plan for {model.config.model_type}: {instead}"
    queries, keys = _common_heads(model.config.get_text_config())
    ranks = spec.tensor_parallel
    if keys % ranks and getattr(model.config.get_text_config(), "is_heterogeneous", False):
        raise EngineUnreachableError(
            f"{launched.source}: its layers have different numbers of heads, which {ranks} ranks cannot share; set "
            f"tensor_parallel to {keys} or a divisor of it"
        )
    if not _fits(queries, keys, ranks):
        valid = [n for n in range(1, queries + 1) if _fits(queries, keys, n)]
        raise EngineUnreachableError(
            f"{launched.source}: its {queries} attention heads over {keys} key heads cannot be divided "
            f"among {ranks} ranks; tensor_parallel can be {', '.join(map(str, valid))}"
        )
    if launched.adapter is not None and keys % ranks:
        raise EngineUnreachableError(
            f"{launched.source}: an adapter cannot be divided among more ranks than key heads ({ranks} and {keys}); "
            f"set tensor_parallel to {keys} or a divisor of it"
        )
    return None


def _common_heads(text: Any) -> tuple[int, int]:
    """Return the greatest common divisors of the query heads and of the key heads of all layers."""
    layers = [heads_of(layer) for layer in layer_configs(text)]
    return math.gcd(*(queries for queries, _, _ in layers)), math.gcd(*(keys for _, keys, _ in layers))


def distributed_config(model: Any, ranks: int) -> Any:
    """Return the configuration with which `from_pretrained` loads this process's shard of an empty model alone.

    With fewer key heads than ranks, several ranks use one key head: their shards of the projection are gathered and
    each rank takes the head that its queries use. Gemma 4 with inputs for each layer reads the padding's embedding from
    the weights, which only whole ones allow.
    """
    from transformers.distributed.configuration_utils import DistributedConfig
    from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES, TensorParallelLayer

    text = model.config.get_text_config()
    _, keys = _common_heads(text)
    plan: dict[str, str] = {}
    if keys % ranks:
        _register_shared_kv(keys, ranks)
        plan |= {
            name: _KV_STYLE
            for name, style in model.tp_plan.items()
            if style == "colwise" and name.rpartition(".")[2] in _KV_LAYERS
        }
    if getattr(text, "hidden_size_per_layer_input", None):
        ALL_PARALLEL_STYLES.register(_WHOLE_STYLE, TensorParallelLayer())
        plan |= {name: _WHOLE_STYLE for name in model.tp_plan if name.rpartition(".")[2] in _READ_BY_INDEX}
    return DistributedConfig(tp_size=ranks, tp_plan=plan or None)


def fit_heads(model: Any, ranks: int) -> None:
    """Set in the attention layers how many of their query heads share a key head in this rank."""
    queries, keys = _common_heads(model.config.get_text_config())
    if keys % ranks == 0:
        return
    for module in model.get_decoder().modules():
        if hasattr(module, "num_key_value_groups"):
            module.num_key_value_groups = queries // ranks


def _fits(queries: int, keys: int, ranks: int) -> bool:
    return queries % ranks == 0 and (keys % ranks == 0 or ranks % keys == 0)


def _register_shared_kv(keys: int, ranks: int) -> None:
    from torch.distributed.tensor import Replicate
    from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES, ColwiseParallel

    class SharedKeyHeads(ColwiseParallel):  # type: ignore[misc]  # transformers is not followed
        """Columns sharded as usual, then gathered and cut at the head that this rank's queries share."""

        def transform_output_post_forward(self, module: Any, output: Any, mesh: Any) -> Any:
            gathered = super().transform_output_post_forward(module, output, mesh)
            width = module.out_features // keys
            head = mesh.get_local_rank() * keys // ranks
            return gathered[..., head * width : (head + 1) * width]

    ALL_PARALLEL_STYLES.register(_KV_STYLE, SharedKeyHeads(input_layouts=Replicate(), output_layouts=Replicate()))
