"""A causal language model of a few thousand weights, with a tokenizer, as a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHAT_TEMPLATES = {
    "chatml": (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "headers": (
        "<|begin|>{% for m in messages %}<|head|>{{ m.role }}<|end_head|>\n\n{{ m.content }}<|eot|>"
        "{% endfor %}{% if add_generation_prompt %}<|head|>assistant<|end_head|>\n\n{% endif %}"
    ),
    "brackets": (
        "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
        "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
    ),
}
"""Written after the forms of three families of models."""


def tokenizer(chat_template: str | None = None) -> Any:
    """Bytes as tokens, so that every token is a character and nothing is joined at a seam."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {one: number for number, one in enumerate(["<pad>", "</end>", *letters])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</end>", chat_template=chat_template
    )


def save_model(folder: Path, seed: int = 0) -> Path:
    """A Llama of two layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    made = tokenizer()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(made),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder
