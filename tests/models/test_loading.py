"""Loading from disk: names of models, precision, trust in code, errors; batches of inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hub.server import Hub, serve
from viper.errors import ModelError, ProfileError
from viper.models import loading
from viper.models.hub import local_copy
from viper.models.llm.adapters import language_model_id
from viper.models.loading import (
    LoadOptions,
    LocalModel,
    check_loading,
    in_equal_groups,
    load_errors,
    load_pretrained,
    load_processor,
    model_id,
)

OWN_CODE = """
from pathlib import Path
Path({mark!r}).touch()
import torch
from transformers import PretrainedConfig, PreTrainedModel
class OwnConfig(PretrainedConfig):
    model_type = "own"
class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(2, 2)
        self.post_init()
"""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serve() as running:
        running.use(monkeypatch, tmp_path / "cache")
        yield running


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of an architecture that only its own code knows."""
    import torch
    from safetensors.torch import save_file

    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own.py").write_text(OWN_CODE.format(mark=str(tmp_path / "ran")))
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": auto_map}))
    weights = {"layer.weight": torch.eye(2), "layer.bias": torch.zeros(2)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_two_trainings_have_different_names(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"first")
    first = model_id(tmp_path)
    weights.write_bytes(b"second")
    assert model_id(tmp_path) != first
    assert first.startswith(f"{tmp_path.name}@") and len(first) == len(tmp_path.name) + 13


def test_published_checkpoint_keeps_its_name_and_commit(hub: Hub) -> None:
    assert model_id("org/checkpoint") == "org/checkpoint"
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"weights"}
    repository = hub.add("org/checkpoint", files)
    folder = local_copy("org/checkpoint", LoadOptions())
    assert model_id(folder) == f"org/checkpoint@{repository.commit[:12]}"
    assert language_model_id(folder) == model_id(folder)


def test_checkpoint_of_the_hub_is_loaded_without_another_request(hub: Hub, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, BertConfig, BertModel, BertTokenizer

    folder = tmp_path / "bert"
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncube\n")
    BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=6, num_hidden_layers=1, **sizes)).save_pretrained(folder)
    hub.add("org/bert", folder)
    options = LoadOptions(device="cpu")
    local_copy("org/bert", options)
    hub.requests.clear()
    model = load_pretrained(BertModel, "org/bert", options)
    tokenizer = load_processor(AutoTokenizer, "org/bert", options)
    assert model.config.vocab_size == 6 and tokenizer("cube")["input_ids"]
    assert hub.requests == []


def test_own_code_is_neither_run_nor_asked_about(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModel, AutoTokenizer

    def asked(prompt: str = "") -> str:
        raise AssertionError(f"asked on standard input: {prompt}")

    monkeypatch.setattr("builtins.input", asked)
    for load, kind in ((load_pretrained, AutoModel), (load_processor, AutoTokenizer)):
        with pytest.raises(ModelError) as caught:
            load(kind, own, LoadOptions(device="cpu"))
        assert f'runs only if [load] has trust = ["{own}"]' in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_own_code_of_a_trusted_model_runs(own: Path, tmp_path: Path) -> None:
    from transformers import AutoModel

    options = LoadOptions(device="cpu", trust=[str(own)])
    assert load_pretrained(AutoModel, own, options).layer.weight.sum() == 2
    assert (tmp_path / "ran").exists()


def test_trust_is_in_names_not_in_folders_that_look_like_them(hub: Hub, tmp_path: Path) -> None:
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"weights"}
    repository = hub.add("org/model", files)
    options = LoadOptions(trust=["org/model"])
    assert options.trusts("org/model") and options.trusts("hf-hub:org/model")
    assert options.trusts(local_copy("org/model", options))
    imitation = tmp_path / "models--org--model" / "snapshots" / repository.commit
    imitation.mkdir(parents=True)
    assert not options.trusts(imitation) and not options.trusts("org/other")
    with pytest.raises(ProfileError, match="trust is a list of models, not 'org/model'"):
        LoadOptions(trust="org/model")


def test_all_lines_of_advice_are_kept_in_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught, load_errors("a tokenizer", "org/model"):
        raise OSError("cannot build it from one of:\n(1) a `tokenizers` file\n(2) a slow one\n")
    reason = "cannot build it from one of: (1) a `tokenizers` file (2) a slow one"
    assert str(caught.value) == f"org/model cannot be loaded as a tokenizer: {reason}"


def test_cause_and_the_end_of_long_errors_are_kept() -> None:
    with pytest.raises(ModelError) as caught, load_errors("a model", "org/model"):
        raise OSError("begin " + "x" * 2000) from ValueError("log in with\n`hf auth login`")
    message = str(caught.value)
    assert "begin xxx" in message and message.endswith("; log in with `hf auth login`")
    assert len(message) < 700 and "\n" not in message


@pytest.mark.parametrize(("dtype", "compute"), [("float16", "float16"), ("auto", "float32")])
def test_four_bits_are_nf4_with_quantised_scales(
    dtype: str, compute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(loading, "need_packages", lambda *_: None)
    monkeypatch.setattr("transformers.BitsAndBytesConfig.post_init", lambda _: None)
    options = LoadOptions(quantize="4bit", dtype=dtype, device="cpu")
    config: Any = loading._quantization(options)
    assert config.load_in_4bit and not config.load_in_8bit
    assert config.bnb_4bit_quant_type == "nf4" and config.bnb_4bit_use_double_quant
    assert config.bnb_4bit_compute_dtype == getattr(torch, compute)
    assert loading._quantization(LoadOptions(quantize="8bit")).load_in_8bit


def test_option_that_a_class_does_not_honour_is_named() -> None:
    class Limited(LocalModel):
        loads_with = frozenset({"device"})

    check_loading(LocalModel, {"quantize": "4bit", "steps": 3})
    check_loading(Limited, {"device": "cpu", "steps": 3})
    with pytest.raises(ProfileError, match="takes no option quantize; its options for loading: d"):
        check_loading(Limited, {"quantize": "4bit"})


def test_items_with_equal_keys_share_batches_of_limited_size() -> None:
    batches: list[list[str]] = []

    def forward(batch: Sequence[str]) -> list[str]:
        batches.append(list(batch))
        return [item.upper() for item in batch]

    found = in_equal_groups(["a1", "b1", "a2", "a3", "b2"], lambda item: item[0], 2, forward)
    assert found == ["A1", "B1", "A2", "A3", "B2"]
    assert batches == [["a1", "a2"], ["a3"], ["b1", "b2"]]
    assert in_equal_groups([], len, 4, forward) == []


def test_the_processor_is_chosen_without_asking_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def asked() -> bool:
        raise AssertionError("starts the driver")

    monkeypatch.setattr(torch.cuda, "is_available", asked)
    assert LoadOptions(device="cpu").resolved_device() == "cpu"


def test_quantised_weights_go_to_the_device_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    keywords: dict[str, Any] = {}

    class Kind:
        @staticmethod
        def from_pretrained(folder: Path, **how: Any) -> Any:
            keywords.clear()
            keywords.update(how)
            return torch.nn.Linear(2, 2)

    monkeypatch.setattr(loading, "need_packages", lambda *_: None)
    monkeypatch.setattr("transformers.BitsAndBytesConfig.post_init", lambda _: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for device in ("cuda:1", "cpu"):
        load_pretrained(Kind, tmp_path, LoadOptions(quantize="4bit", device=device))
        assert keywords["device_map"] == {"": device}
    load_pretrained(Kind, tmp_path, LoadOptions(quantize="4bit"))
    assert "device_map" not in keywords
    load_pretrained(Kind, tmp_path, LoadOptions(quantize="8bit", device="cpu", device_map="auto"))
    assert keywords["device_map"] == "auto"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ModelError, match="torch sees no device 'cuda:1' here"):
        load_pretrained(Kind, tmp_path, LoadOptions(quantize="4bit", device="cuda:1"))


def test_pictures_stay_floats_if_the_first_weights_are_packed_in_integers() -> None:
    import torch

    class FourBits(torch.nn.Module):
        """As LFM2-VL in 4 bits: the patch embedding is a linear layer, packed as uint8."""

        def __init__(self) -> None:
            super().__init__()
            packed = torch.zeros(8, 1, dtype=torch.uint8)
            self.patches = torch.nn.Parameter(packed, requires_grad=False)
            self.norm = torch.nn.LayerNorm(4, dtype=torch.bfloat16)

    backend = LocalModel()
    backend._model = FourBits()
    ids = torch.tensor([[1, 2]])
    batch = backend._fitted({"pixel_values": torch.full((1, 2, 4), -0.5), "input_ids": ids})
    assert batch["pixel_values"].dtype == torch.bfloat16
    assert float(batch["pixel_values"].min()) == -0.5 and batch["input_ids"].dtype == ids.dtype
