"""The sentence embedder on a tiny encoder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viper.errors import ModelError, ProfileError
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


TEXTS = ["how far is the cup", "near", "the cup"]


def repository(folder: Path, target: Path, pooling: dict[str, Any], **files: Any) -> Path:
    """The encoder as a repository of sentence-transformers with this pooling."""
    shutil.copytree(folder, target)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (target / "1_Pooling").mkdir()
    written = {"modules": modules, "1_Pooling/config": pooling, **files}
    for name, value in written.items():
        (target / f"{name}.json").write_text(json.dumps(value))
    return target


def states_of(folder: Path, text: str) -> np.ndarray:
    """The library's own vectors of a text's tokens."""
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    return AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state[0].detach().numpy()


EXPECTED = {
    "mean": lambda states: states.mean(0),
    "cls": lambda states: states[0],
    "lasttoken": lambda states: states[-1],
}
OLD = {
    "mean": {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
    "cls": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
    "lasttoken": {"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True},
}


@pytest.mark.parametrize("form", ["old", "new"])
@pytest.mark.parametrize("mode", EXPECTED)
def test_the_pooling_is_that_of_the_repository(
    folder: Path, tmp_path: Path, mode: str, form: str
) -> None:
    config = {"word_embedding_dimension": 16, "include_prompt": True}
    config |= OLD[mode] if form == "old" else {"pooling_mode": mode}
    path = repository(folder, tmp_path / "bge", config)
    embedder = SentenceEmbedder.from_pretrained(path)
    for text, row in zip(TEXTS, embedder.embed(TEXTS), strict=True):
        expected = EXPECTED[mode](states_of(folder, text))
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-5)
    assert (":" in embedder.model_id) == (mode != "mean")  # another space, another cache key


def test_options_override_the_repository(folder: Path, tmp_path: Path) -> None:
    stated = {"prompts": {"query": "how far ", "document": ""}, "default_prompt_name": "query"}
    path = repository(
        folder,
        tmp_path / "e5",
        {"pooling_mode": "cls"},
        config_sentence_transformers=stated,
        sentence_bert_config={"max_seq_length": 3},
    )
    embedder = SentenceEmbedder.from_pretrained(path)
    plain = SentenceEmbedder.from_pretrained(folder, pooling="cls")
    expected = plain.embed(["how far is"])
    np.testing.assert_allclose(embedder.embed(["is"]), expected, atol=1e-6)
    np.testing.assert_allclose(embedder.embed(["is the cup"]), expected, atol=1e-6)  # cut
    own = SentenceEmbedder.from_pretrained(path, pooling="mean", prefix="", max_tokens=9)
    mean = SentenceEmbedder.from_pretrained(folder)
    np.testing.assert_allclose(own.embed(TEXTS), mean.embed(TEXTS), atol=1e-6)


def test_prompts_without_a_default_are_no_prefix(folder: Path, tmp_path: Path) -> None:
    stated = {"prompts": {"query": "how far "}, "default_prompt_name": None}
    files = {"config_sentence_transformers": stated}
    path = repository(folder, tmp_path / "e5", {"pooling_mode": "mean"}, **files)
    rows = SentenceEmbedder.from_pretrained(path).embed(TEXTS)
    np.testing.assert_allclose(rows, SentenceEmbedder.from_pretrained(folder).embed(TEXTS))


def test_what_the_backend_does_not_compute_is_an_error(folder: Path, tmp_path: Path) -> None:
    path = repository(folder, tmp_path / "many", {**OLD["mean"], "pooling_mode_max_tokens": True})
    with pytest.raises(ProfileError, match=r"pooling 'mean\+max_tokens' is not known; known: mean"):
        SentenceEmbedder.from_pretrained(path)
    assert len(SentenceEmbedder.from_pretrained(path, pooling="cls").embed(TEXTS)) == 3
    modules = [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    (path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="pass through a layer Dense; .* name another model"):
        SentenceEmbedder.from_pretrained(path)


@pytest.mark.parametrize("text", ["{", "7", '[{"path": "1_Pooling"}]'])
def test_broken_statements_are_one_clear_error(folder: Path, tmp_path: Path, text: str) -> None:
    path = repository(folder, tmp_path / "broken", {"pooling_mode": "mean"})
    (path / "modules.json").write_text(text)
    with pytest.raises(ModelError, match="cannot be loaded as a repository of sentence-transf"):
        SentenceEmbedder.from_pretrained(path)


def test_embeddings_that_are_not_numbers_are_an_error(folder: Path) -> None:
    import torch

    embedder = SentenceEmbedder.from_pretrained(folder)
    torch.nn.init.constant_(embedder._model.embeddings.LayerNorm.weight, torch.nan)
    with pytest.raises(ModelError, match=r'embeddings that are not finite .*dtype = "float32"'):
        embedder.embed(TEXTS)
