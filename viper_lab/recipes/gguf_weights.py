"""Writes a Llama as one GGUF file of few bits a weight, which ``transformers`` reads.

The format, its block quantisation and both ends are the package ``gguf``; ``gguf_file`` of
``from_pretrained`` turns the weights into float again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

# What llama.cpp calls the parts of a layer of transformers' Llama.
_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def save_gguf(model: Any, file: Path, *, layers: str = "Q5_1", embeddings: str = "Q8_0") -> None:
    """Write the weights of a Llama with tied embeddings.

    Args:
        layers: block format of the matrices of all layers, in the words of the package.
        embeddings: the same of the embeddings; vectors stay in float32.
    """
    from gguf import GGMLQuantizationType, GGUFWriter, quantize

    config = model.config
    writer = GGUFWriter(str(file), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_pad_token_id(config.pad_token_id)
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    for name, value in _named(model.state_dict(), config).items():
        matrix = value.float().numpy()
        kind = "F32" if matrix.ndim == 1 else embeddings if name.startswith("token") else layers
        of_kind = GGMLQuantizationType[kind]
        writer.add_tensor(f"{name}.weight", quantize(matrix, of_kind), raw_dtype=of_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _named(state: Mapping[str, Tensor], config: Any) -> Mapping[str, Tensor]:
    """Return the weights under their names in the file."""
    named = {
        "token_embd": state["model.embed_tokens.weight"],
        "output_norm": state["model.norm.weight"],
    }
    for layer in range(config.num_hidden_layers):
        for own, other in _NAMES.items():
            value = state[f"model.layers.{layer}.{own}.weight"]
            if other in ("attn_q", "attn_k"):
                heads = (
                    config.num_attention_heads if other == "attn_q" else config.num_key_value_heads
                )
                value = _rotated(value, heads)
            named[f"blk.{layer}.{other}"] = value
    return named


def _rotated(value: Tensor, heads: int) -> Tensor:
    """Return the rows in the order of the file: the two halves of a rotation side by side."""
    rows, width = value.shape
    return value.view(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width)
