"""A tiny untrained writer in a folder, as the base of adapters."""

from __future__ import annotations

from pathlib import Path

import torch

from viper_lab.recipes.writer import save_writer, writer_tokenizer


def tiny_writer(folder: Path, seed: int = 0) -> Path:
    """Folder of a Llama of 8,000 parameters or so, with the writer's kind of tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = writer_tokenizer(folder / "work", 0, documents=20, words=60)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        attention_bias=True,
        tie_word_embeddings=False,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    save_writer(LlamaForCausalLM(config), tokenizer, folder / "writer")
    return folder / "writer"
