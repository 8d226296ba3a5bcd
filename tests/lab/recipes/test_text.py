from __future__ import annotations

from pathlib import Path

import pytest
from transformers import CLIPTokenizer

from viper_lab.recipes.text import BOS, EOS, PAD, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> CLIPTokenizer:
    return train_tokenizer(["small red metal cube", "big blue rubber balls"], 80)


def test_ids_are_as_text_towers_need_them(tokenizer: CLIPTokenizer) -> None:
    ids = tokenizer(["red cube", "small red metal cube"], padding=True)["input_ids"]
    assert tokenizer.convert_tokens_to_ids([PAD, BOS, EOS]) == [0, 1, len(tokenizer) - 1]
    assert ids[0][0] == 1 and ids[0][-1] == 0
    assert all(max(row) == row[len([i for i in row if i]) - 1] for row in ids)


def test_words_of_the_corpus_are_whole(tokenizer: CLIPTokenizer) -> None:
    assert len(tokenizer("Small  RED metal cube")["input_ids"]) == 6


@pytest.mark.parametrize("text", ["pyramid", "naïve ☃", "it's 42!"])
def test_any_text_can_be_written(tokenizer: CLIPTokenizer, text: str) -> None:
    ids = tokenizer(text)["input_ids"]
    assert ids.index(len(tokenizer) - 1) == len(ids) - 1


def test_it_survives_saving(tokenizer: CLIPTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = CLIPTokenizer.from_pretrained(tmp_path)
    for text in ("small red metal cube", "pyramid"):
        assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
