"""Weights of few bits: written by the recipe, read by the product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from viper.errors import ModelError
from viper.models.checkpoints import parameters_of
from viper.models.loading import GGUF, LoadOptions, load_pretrained, weights_hash
from viper_lab.recipes.gguf_weights import save_gguf


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=128,
        rope_parameters={"rope_theta": 5000.0, "rope_type": "default"},
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(("kind", "most"), [("F32", 1e-5), ("Q8_0", 0.04), ("Q5_1", 0.25)])
def test_what_is_read_is_what_was_written(
    model: Any, tmp_path: Path, kind: str, most: float
) -> None:
    model.config.save_pretrained(tmp_path)
    save_gguf(model, tmp_path / GGUF, layers=kind, embeddings="F32")
    read = load_pretrained(AutoModelForCausalLM, tmp_path, LoadOptions(device="cpu"))
    ids = torch.arange(3, 43)[None]
    with torch.no_grad():
        before, after = model(ids).logits, read(ids).logits
    assert float((before - after).abs().max() / before.std()) < most
    assert read.config.eos_token_id == 2 and read.config.max_position_embeddings == 128
    assert read.dtype == torch.float32
    assert not getattr(read, "is_quantized", False)  # so that it can be trained
    assert Path(read.name_or_path) == tmp_path  # else peft asks the hub for a model None


def test_safetensors_beside_it_are_what_is_read(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    before = weights_hash(tmp_path)
    (tmp_path / GGUF).write_bytes(b"something else")
    assert weights_hash(tmp_path) == before
    read = load_pretrained(AutoModelForCausalLM, tmp_path, LoadOptions(device="cpu"))
    assert torch.equal(read.lm_head.weight, model.lm_head.weight)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03" + bytes(40), b"no such file" * 9])
def test_a_file_that_holds_no_weights_is_one_line(tmp_path: Path, content: bytes) -> None:
    LlamaConfig(hidden_size=64, num_hidden_layers=1).save_pretrained(tmp_path)
    (tmp_path / GGUF).write_bytes(content)
    with pytest.raises(ModelError, match="cannot be loaded") as refused:
        load_pretrained(AutoModelForCausalLM, tmp_path, LoadOptions(device="cpu"))
    assert "\n" not in str(refused.value)


def test_nothing_is_drawn_at_random_for_weights_that_lack(model: Any, tmp_path: Path) -> None:
    model.config.save_pretrained(tmp_path)
    del model.model.layers[1].mlp.up_proj
    save_gguf(model, tmp_path / GGUF)
    with pytest.raises(ModelError, match="lacks model.layers.1.mlp.up_proj.weight"):
        load_pretrained(AutoModelForCausalLM, tmp_path, LoadOptions(device="cpu"))


def test_its_parameters_are_counted(model: Any, tmp_path: Path) -> None:
    save_gguf(model, tmp_path / GGUF)
    assert parameters_of(tmp_path) == sum(each.numel() for each in model.parameters())
    (tmp_path / GGUF).write_bytes(b"GGUF")
    assert parameters_of(tmp_path) == 0


def test_nothing_is_said_while_it_loads(
    model: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model.config.save_pretrained(tmp_path)
    save_gguf(model, tmp_path / GGUF)
    load_pretrained(AutoModelForCausalLM, tmp_path, LoadOptions(device="cpu"))
    assert capfd.readouterr() == ("", "")


def test_another_file_has_another_hash(model: Any, tmp_path: Path) -> None:
    hashes = []
    for kind in ("Q8_0", "Q4_1"):
        save_gguf(model, tmp_path / GGUF, layers=kind)
        hashes.append(weights_hash(tmp_path))
    assert len({*hashes, weights_hash(tmp_path / "none")}) == 3
