"""A tiny language model with random weights, saved as a user's folder would be."""

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from viper.llm.transformers_llm import TransformersLLM
from viper.world.training.writer import save_writer
from viper.world.training.writer_tokenizer import build_tokenizer

TEXTS = ["# query: the red cube\ndef execute_command(image):\n    return image.find('cube')\n"] * 9


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llm") / "tiny"
    tokenizer = build_tokenizer(TEXTS, ["blicket", "dax", "wug"] * 20, merges=20)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    save_writer(LlamaForCausalLM(config), tokenizer, folder)
    return folder


@pytest.fixture
def llm(model_folder: Path) -> TransformersLLM:
    return TransformersLLM(model_folder, local_only=True)
