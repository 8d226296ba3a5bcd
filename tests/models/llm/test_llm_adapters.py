"""Adapters over a tiny model: what they change, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.lab.recipes.tiny_writer import tiny_writer
from viper.errors import ModelError
from viper.models.llm.adapters import with_adapter
from viper.models.llm.protocol import Sampling
from viper.models.llm.transformers_llm import TransformersLLM
from viper_lab.recipes.adapters import AdapterShape, fresh_adapter, merged_weights, save_adapter

SHAPE = AdapterShape(rank=2, strength=4)


def trained(base: Path) -> Any:
    """An adapter as training leaves it: no matrix of it is zero."""
    model = fresh_adapter(base, SHAPE)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model.eval()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_writer(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter") / "planner"
    save_adapter(trained(base), folder, base)
    return folder


def plain(base: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()


def test_what_is_saved_does_what_was_trained(base: Path, adapter: Path) -> None:
    ids = torch.randint(3, 200, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted, before = trained(base)(ids).logits, plain(base)(ids).logits
        laid = with_adapter(plain(base), adapter, base)
        found = laid(ids).logits
    assert type(laid).__name__ == "LlamaForCausalLM"
    assert (wanted - before).abs().mean() > 0.5
    torch.testing.assert_close(found, wanted, atol=0.05, rtol=0.02)


def test_training_sees_the_weights_that_will_be_used(base: Path) -> None:
    model = trained(base)
    weights = merged_weights(model)
    merged = dict(trained(base).merge_and_unload().named_parameters())
    assert len(weights) == 2 * 7 + 2
    for name, weight in weights.items():
        torch.testing.assert_close(weight, merged[name])
        assert weight.requires_grad


def test_a_fresh_adapter_changes_nothing_and_the_base_is_frozen(base: Path) -> None:
    model = fresh_adapter(base, SHAPE)
    own = dict(plain(base).named_parameters())
    assert all(torch.equal(value, own[name]) for name, value in merged_weights(model).items())
    learned = [name for name, value in model.named_parameters() if value.requires_grad]
    assert learned and all("lora_" in name for name in learned)


def test_a_folder_holds_safetensors_alone_and_names_no_place(adapter: Path, base: Path) -> None:
    names = {path.name for path in adapter.iterdir()}
    assert names == {"adapter_config.json", "adapter_model.safetensors", "base.json"}
    text = (adapter / "adapter_config.json").read_text()
    assert str(base.parent) not in text and json.loads(text)["base_model_name_or_path"] == "writer"


def test_the_backend_takes_one_by_name(base: Path, adapter: Path) -> None:
    with_one = TransformersLLM(base, template="plain", local_only=True, adapter=adapter)
    without = TransformersLLM(base, template="plain", local_only=True)
    base_id, _, own_id = with_one.model_id.partition("+")
    assert base_id == without.model_id and own_id.startswith("planner@")
    said = [
        llm.generate(["# query: red cube"], Sampling(max_tokens=8))[0][0].text
        for llm in (with_one, without)
    ]
    assert said[0] != said[1]
    assert with_one.memory_bytes == without.memory_bytes


def copied(adapter: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in adapter.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_an_adapter_of_other_weights_is_refused(adapter: Path, tmp_path: Path) -> None:
    other = tiny_writer(tmp_path, 1)
    with pytest.raises(ModelError, match=r"trained over other weights \(writer\) than those of"):
        TransformersLLM(other, template="plain", local_only=True, adapter=adapter)


def test_pickled_weights_are_refused(adapter: Path, base: Path, tmp_path: Path) -> None:
    pickled = copied(adapter, tmp_path / "pickled")
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    with pytest.raises(ModelError, match="no adapter_model.safetensors there; .* as safetensors"):
        with_adapter(plain(base), pickled, base)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"peft_type": "IA3"}', "an adapter of kind 'IA3'; only LORA"),
        ("[]", "expected a JSON object"),
        ("{", "cannot be read as JSON"),
    ],
)
def test_other_configs_are_one_clear_line(
    adapter: Path, base: Path, tmp_path: Path, config: str, message: str
) -> None:
    wrong = copied(adapter, tmp_path / "wrong")
    (wrong / "adapter_config.json").write_text(config)
    with pytest.raises(ModelError, match=message):
        with_adapter(plain(base), wrong, base)


def test_a_folder_that_is_none(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no adapter_config.json there"):
        with_adapter(plain(base), tmp_path, base)


def test_weights_that_are_cut_off(adapter: Path, base: Path, tmp_path: Path) -> None:
    cut = copied(adapter, tmp_path / "cut")
    file = cut / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(ModelError, match="adapter_model.safetensors cannot be read"):
        with_adapter(plain(base), cut, base)
