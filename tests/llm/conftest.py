"""A tiny language model with random weights, saved as a user's folder would be."""

from pathlib import Path

import pytest

from viper.llm.transformers_llm import TransformersLLM
from viper.world.training.writer import save_writer
from viper.world.training.writer_init import WriterShape, build_writer
from viper.world.training.writer_tokenizer import build_tokenizer

TEXTS = ["# query: the red cube\ndef execute_command(image):\n    return image.find('cube')\n"] * 9


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llm") / "tiny"
    tokenizer = build_tokenizer(TEXTS, ["blicket", "dax", "wug"] * 20, merges=20)
    shape = WriterShape(width=32, layers=2, heads=4, head_dim=16, inner=32, max_positions=256)
    save_writer(build_writer(tokenizer.get_vocab_size(), 0, 1, 2, shape=shape), tokenizer, folder)
    return folder


@pytest.fixture
def llm(model_folder: Path) -> TransformersLLM:
    return TransformersLLM(model_folder, local_only=True)
