"""The VQA model for whole questions, trained for two steps on three of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BlipForQuestionAnswering

from viper_lab.recipes import vqa_baseline
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.questions import QAPair
from viper_lab.recipes.vqa_baseline import IMAGE_SIZE, questions, starting_point

PAIRS = [
    QAPair("how many cubes are farther than the ball?", "2", "query"),
    QAPair("is the nearest cube red?", "yes", "query"),
]


def test_it_begins_with_what_the_shipped_model_knows() -> None:
    model, tokenizer = starting_point(iter(PAIRS))
    assert "farther" in tokenizer.get_vocab() and "red" in tokenizer.get_vocab()
    shipped = BlipForQuestionAnswering.from_pretrained(vqa_baseline.WEIGHTS / "vqa")
    known = AutoTokenizer.from_pretrained(vqa_baseline.WEIGHTS / "vqa").get_vocab()
    assert "farther" not in known
    old, new = shipped.text_encoder.embeddings, model.text_encoder.embeddings
    for word in ("red", "cube", "[DEC]"):
        torch.testing.assert_close(
            new.word_embeddings.weight[tokenizer.get_vocab()[word]],
            old.word_embeddings.weight[known[word]].float(),
        )
    vision = model.vision_model
    picture = torch.zeros(1, 3, IMAGE_SIZE, IMAGE_SIZE)
    assert vision(pixel_values=picture).last_hidden_state.shape[1] == 1 + (IMAGE_SIZE // 10) ** 2
    torch.testing.assert_close(
        vision.encoder.layers[0].mlp.fc1.weight,
        shipped.vision_model.encoder.layers[0].mlp.fc1.weight.float(),
    )


def test_it_is_trained_on_query_texts_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("SHARDS", 2), ("SHARD", 3), ("BATCH", 4)):
        monkeypatch.setattr(vqa_baseline, name, value)
    options = TrainOptions(tmp_path / "out", tmp_path / "work", steps=2)
    reached = vqa_baseline.train(options)
    assert reached["n"] == 3 and 0 <= reached["right"] <= 1
    stored = {path.name for path in (tmp_path / "work" / "vqa-baseline").glob("*.npz")}
    assert stored == {"train-0-3.npz", "train-1-3.npz", "val-0-3.npz"}
    again = questions("train", 1, 3, options.work)
    assert again.pictures.shape == (3, IMAGE_SIZE, IMAGE_SIZE, 3)
    assert again.pictures.dtype == np.uint8 and all(pair.question for pair in again.pairs)
