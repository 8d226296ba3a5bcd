"""The sentence embedder on a tiny encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from viper.models.vision.embedder_sentence import SentenceEmbedder
from viper.models.vision.roles import TextEmbedder

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "how", "far", "is", "the", "cup", "near"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    path = tmp_path_factory.mktemp("encoder")
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(path)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(path)
    return path


def test_rows_are_unit_length_and_do_not_depend_on_their_batch(folder: Path) -> None:
    embedder = SentenceEmbedder.from_pretrained(folder, batch_size=2)
    assert isinstance(embedder, TextEmbedder)
    texts = ["how far is the cup", "near", "the cup"]
    rows = embedder.embed(texts)
    assert rows.shape == (3, 16) and rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)
    for text, row in zip(texts, rows, strict=True):
        assert embedder.embed([text])[0] == pytest.approx(row, abs=1e-5)
    assert embedder.embed([]).shape == (0, 0)
    assert embedder.memory_bytes > 1000
