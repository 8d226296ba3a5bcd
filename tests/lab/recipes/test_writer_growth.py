"""A grown writer says exactly what the smaller one said, and knows more words."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from tests.lab.recipes.tiny_writer import tiny_writer
from viper_lab.recipes.writer_growth import grown_tokenizer, grown_writer
from viper_lab.recipes.writer_tokenizer import load_tokenizer


def test_nothing_that_was_learned_is_lost(tmp_path: Path) -> None:
    folder = tiny_writer(tmp_path)
    model, tokenizer = LlamaForCausalLM.from_pretrained(folder).float(), load_tokenizer(folder)
    texts = ["quizzical spheres beside the quizzical turquoise doughnut"] * 3
    larger = grown_tokenizer(tokenizer, texts, 3)
    assert larger.get_vocab_size() == tokenizer.get_vocab_size() + 3
    grown = grown_writer(model, tokenizer, larger, after=(0, 1))
    assert grown.config.num_hidden_layers == model.config.num_hidden_layers + 2
    text = "# task: ground\n# query: the red cube\ndef execute_command(image):"
    ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False).ids])
    assert larger.encode(text, add_special_tokens=False).ids == ids[0].tolist()
    with torch.no_grad():
        before = model(ids).logits
        after = grown(ids).logits[..., : before.shape[-1]]
    assert torch.allclose(before, after, atol=1e-5)
    new = larger.encode("quizzical", add_special_tokens=False)
    assert len(new.ids) < len(tokenizer.encode("quizzical", add_special_tokens=False).ids)
