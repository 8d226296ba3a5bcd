"""The tokenizers made of the world's words."""

import pytest

from viper_lab.recipes.wordpieces import BLIP_MARKS, CLIP_MARKS, word_tokenizer

WORDS = ["red", "cube", "what", "is", "this"]


@pytest.mark.parametrize("marks", [CLIP_MARKS, BLIP_MARKS])
def test_it_survives_saving(tmp_path, marks):
    from transformers import AutoTokenizer

    tokenizer = word_tokenizer(WORDS, marks)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "What is this zorb?"
    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded.decode(loaded(text)["input_ids"], skip_special_tokens=True).startswith("what is")


def test_clip_finds_the_end_by_the_largest_id():
    tokenizer = word_tokenizer(WORDS, CLIP_MARKS)
    ids = tokenizer("red cube", padding="max_length", max_length=8)["input_ids"]
    assert tokenizer.pad_token_id == 0 and ids[0] != 0
    assert max(ids) == ids[3] == len(tokenizer) - 1


def test_blip_has_a_mark_that_starts_answers():
    tokenizer = word_tokenizer(WORDS, BLIP_MARKS)
    assert tokenizer.convert_ids_to_tokens(tokenizer.bos_token_id) == "[DEC]"
    assert tokenizer("red")["input_ids"][-1] == tokenizer.sep_token_id


def test_unknown_words_fall_apart_into_letters():
    tokenizer = word_tokenizer(WORDS, BLIP_MARKS)
    pieces = tokenizer.tokenize("zorb")
    assert pieces == ["z", "##o", "##r", "##b"]
