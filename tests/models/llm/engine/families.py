"""Tiny checkpoints with random weights, one a family of models, and how to decode them plainly."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf

from viper.models.llm.protocol import Sampling
from viper_lab.recipes.writer_tokenizer import build_tokenizer, save_tokenizer

CONTEXT = 128
TEXTS = ["# query: the red cube\ndef execute_command(image):\n    return image.find('cube')\n"] * 9
TOKENIZER = build_tokenizer(TEXTS, ["blicket", "dax", "wug"] * 20, merges=20)

COMMON: dict[str, Any] = {
    "vocab_size": TOKENIZER.get_vocab_size(),
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
}
SIZES: dict[str, Any] = {
    **COMMON,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
}
GROUPED: dict[str, Any] = {**SIZES, "num_key_value_heads": 2}


def _mistral(window: int | None) -> Any:
    return hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=window))


def _gemma2() -> Any:
    return hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=16, attn_logit_softcapping=5.0)
    )


def _opt() -> Any:
    sizes = {name: value for name, value in SIZES.items() if name not in COMMON}
    sizes["ffn_dim"] = sizes.pop("intermediate_size")
    return hf.OPTForCausalLM(hf.OPTConfig(**sizes, **COMMON, word_embed_proj_dim=32, init_std=0.3))


def _gpt2() -> Any:
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(**COMMON, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=4)
    )


def _bloom() -> Any:
    config = hf.BloomConfig(**COMMON, hidden_size=32, n_layer=2, n_head=4)
    config.max_position_embeddings = CONTEXT
    return hf.BloomForCausalLM(config)


def _falcon() -> Any:
    config = hf.FalconConfig(
        **COMMON,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        alibi=True,
        max_position_embeddings=CONTEXT,
    )
    return hf.FalconForCausalLM(config)


def _mamba() -> Any:
    config = hf.MambaConfig(**COMMON, hidden_size=32, num_hidden_layers=2, state_size=4)
    config.max_position_embeddings = CONTEXT
    return hf.MambaForCausalLM(config)


def _gpt_neo() -> Any:
    config = hf.GPTNeoConfig(
        **COMMON,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=16,
        max_position_embeddings=CONTEXT,
    )
    return hf.GPTNeoForCausalLM(config)


SHARING: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)),
    "llama-grouped": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**GROUPED)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**GROUPED, head_dim=8)),
    "mistral": lambda: _mistral(None),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**GROUPED)),
    "gpt2": _gpt2,
    "opt": _opt,
}
"""Families whose attention can be replaced."""

OTHERS: dict[str, Callable[[], Any]] = {
    "mistral-window": lambda: _mistral(16),
    "gemma2": _gemma2,
    "bloom": _bloom,
    "falcon-alibi": _falcon,
    "gpt-neo": _gpt_neo,
    "mamba": _mamba,
}
"""Families with a window, a soft cap, a bias or no attention at all."""


def save(family: str, folder: Path, seed: int) -> Path:
    """A checkpoint whose likeliest tokens stand out: its last layer is scaled up."""
    torch.manual_seed(seed)
    model = {**SHARING, **OTHERS}[family]()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(4)
    model.save_pretrained(folder)
    save_tokenizer(TOKENIZER, folder, max_length=CONTEXT)
    return folder


class Plain:
    """The same texts by the slowest way: one row, no memory, the whole text read for each token."""

    def __init__(self, folder: Path) -> None:
        self._model: Any = hf.AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        self._tokenizer: Any = hf.AutoTokenizer.from_pretrained(folder)

    def text(self, prompt: str, sampling: Sampling, sample: int = 0) -> str:
        """What ``generate`` must give for a prompt, as its sample of that number."""
        name = f"{sampling.seed}\0{sample}\0{prompt}".encode()
        seed = int.from_bytes(hashlib.sha256(name).digest()[:7], "big")
        generator = torch.Generator().manual_seed(seed)
        ids = list(self._tokenizer.encode(prompt))
        written: list[int] = []
        while len(written) < sampling.max_tokens and len(ids) < CONTEXT:
            token = self._next(ids, sampling.temperature, generator)
            if token == 2:
                break
            ids.append(token)
            written.append(token)
            text = str(self._tokenizer.decode(written, skip_special_tokens=True))
            ends = [text.index(mark) for mark in sampling.stop if mark in text]
            if ends:
                return text[: min(ends)]
        return str(self._tokenizer.decode(written, skip_special_tokens=True))

    def _next(self, ids: list[int], temperature: float, generator: torch.Generator) -> int:
        with torch.inference_mode():
            logits = self._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        if temperature <= 0:
            return int(logits.argmax())
        weights = torch.softmax(logits.float() / temperature, -1)
        return int(torch.multinomial(weights, 1, generator=generator))
