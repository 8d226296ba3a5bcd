"""Attention in two parts, the check of who may use it, and what it leaves behind."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from families import CONTEXT, OTHERS, SHARING

from viper.models.llm.engine import decoding
from viper.models.llm.engine.reading import Prefill
from viper.models.llm.engine.shared_prefix import Rows, _attend, agrees
from viper.models.llm.protocol import Sampling
from viper.models.llm.transformers_llm import TransformersLLM

pytestmark = pytest.mark.usefixtures("one_thread")

HALVES = [torch.bfloat16, torch.float16]


def checked(family: str, dtype: torch.dtype) -> bool:
    torch.manual_seed(3)
    model = {**SHARING, **OTHERS}[family]().to(dtype).eval()
    with torch.inference_mode():
        return agrees(model, CONTEXT)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("family", SHARING)
def test_half_precision_is_no_reason_to_disagree(family: str, dtype: torch.dtype) -> None:
    assert checked(family, dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("family", sorted(set(OTHERS) - {"mamba"}))
def test_half_precision_hides_no_other_attention(family: str, dtype: torch.dtype) -> None:
    assert not checked(family, dtype)


def test_a_context_too_short_for_the_check_does_without() -> None:
    assert not agrees(SHARING["llama"](), max_context=16)


@pytest.mark.parametrize("wish", ["softcap", "sliding_window", "s_aux", "something_new"])
def test_a_wish_that_is_not_known_is_refused_by_name(wish: str) -> None:
    memory, tensors = _memory(torch.float32)
    with pytest.raises(NotImplementedError, match=wish):
        _attend(SimpleNamespace(layer_idx=0), *tensors, None, shared_prefix=memory, **{wish: 3})


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_many_equal_weights_of_large_values_do_not_overflow(dtype: torch.dtype) -> None:
    memory, (query, key, value) = _memory(dtype, length=3000, size=100.0)
    with memory.reading(1):
        key, value = memory.update(key, value, 0)
        given: Any = {"dropout": 0.0, "shared_prefix": memory, "sliding_window": None}
        found, _ = _attend(SimpleNamespace(layer_idx=0), query, key, value, None, **given)
    assert found.dtype is dtype and found.shape == (2, 1, 4, 8)
    assert torch.allclose(found.float(), torch.full(found.shape, 100.0), rtol=2e-2)


def _memory(dtype: torch.dtype, length: int = 5, size: float = 1.0) -> tuple[Rows, list[Any]]:
    """Two rows with a common beginning, and query, key and value of a token of each."""
    past = torch.zeros(1, 2, length, 8, dtype=dtype), torch.full((1, 2, length, 8), size).to(dtype)
    prefills = [Prefill([*range(length - 1), -row], [past], torch.zeros(3)) for row in (1, 2)]
    query, key = (torch.zeros(2, heads, 1, 8, dtype=dtype) for heads in (4, 2))
    return Rows(prefills, 1 << 20), [query, key, torch.full_like(key, size)]


def test_nothing_of_a_batch_outlives_it(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Rows]] = []

    class Watched(Rows):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(weakref.ref(self))

    monkeypatch.setattr(decoding, "Rows", Watched)
    llm = TransformersLLM(model_folder, local_only=True, device="cpu")
    before = llm._model.config._attn_implementation
    llm.generate(["the cube", "the red dax"], Sampling(max_tokens=70))
    gc.collect()
    assert made and all(each() is None for each in made)
    assert llm._model.config._attn_implementation == before
