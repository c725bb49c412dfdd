"""Write a small Llama checkpoint as a GGUF file, as llama.cpp's converter does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NORMAL, _CONTROL = 1, 3  # types of tokens


def write_gguf(folder: Path, path: Path, *, has_template: bool = True, skipped: str = "", parts: int = 1) -> Path:
    """Write the float32 checkpoint of a Llama in `folder` to `path`, but for the tensor named `skipped`."""
    from gguf import GGUFWriter
    from safetensors.numpy import load_file
    from transformers import AutoTokenizer

    config = json.loads((folder / "config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(config.get("head_dim") or config["hidden_size"] // heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    if parts > 1:
        writer.add_uint16("split.count", parts)
    stored = json.loads((folder / "tokenizer.json").read_text())
    names = tokenizer.convert_ids_to_tokens(list(range(config["vocab_size"])))
    special = {token["content"] for token in stored["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([name if name is not None else f"<unused{index}>" for index, name in enumerate(names)])
    writer.add_token_types([_CONTROL if name is None or name in special else _NORMAL for name in names])
    writer.add_token_merges([" ".join(pair) for pair in stored["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    if has_template:
        writer.add_chat_template(tokenizer.chat_template)
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name == skipped:
            continue
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            tensor = _permuted(tensor, heads if "q_proj" in name else kv_heads)  # noqa: PLW2901
        writer.add_tensor(_name(name), np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _name(name: str) -> str:
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    stem = name.removesuffix(".weight")
    if stem in whole:
        return f"{whole[stem]}.weight"
    block, _, part = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{block}.{_BLOCK[part]}.weight"


def _permuted(tensor: np.ndarray, heads: int) -> np.ndarray:
    """Return the rows in llama.cpp's order, where the two halves of each head that rotate together are interleaved."""
    rows, columns = tensor.shape
    return tensor.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
