"""Adapters of the small embedded writer: low-rank matrices beside its frozen weights.

The base is a shipped writer. Only the matrices of the adapter are trained, saved and shipped.
:mod:`viper.models.llm.adapters` loads them over the base again.

Source: LoRA (Hu et al. 2022). Differs: also adapts the embedding and the output layer, because the
texts of an adapter use other words than the base's programs.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from viper.models.llm.adapters import ADAPTER_CONFIG, state_base
from viper.models.loading import LoadOptions, load_pretrained
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit
from viper_lab.recipes.writer import SMALL_WRITER, Batch, batched, encode_pieces, loss_of
from viper_lab.recipes.writer_documents import Piece
from viper_lab.recipes.writer_tokenizer import load_tokenizer

# Token ids of a text, and a flag per token: does it count in the loss?
Row = tuple[list[int], list[bool]]


@dataclass(frozen=True)
class AdapterShape:
    """Size of an adapter.

    Attributes:
        rank: of each pair of matrices.
        strength: their product counts ``strength / rank`` times.
        over: layers of the base, by the last part of their names.
    """

    rank: int = 32
    strength: int = 64
    over: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
        "embed_tokens",
        "lm_head",
    )


@dataclass(frozen=True)
class AdapterTraining:
    """Length and size of an adapter's training.

    Attributes:
        name: name of the checkpoint; it also seeds the texts.
        step_tokens: approximate tokens per step.
        longest: maximum tokens of a text.
        shape: size of the adapter.
    """

    name: str
    steps: int
    learning_rate: float = 3e-3
    warmup: int = 20
    step_tokens: int = 4000
    longest: float = math.inf
    shape: AdapterShape = AdapterShape()


def fresh_adapter(
    base: Path = SMALL_WRITER, shape: AdapterShape | None = None, seed: int = 0
) -> Any:
    """Return the frozen base with an untrained adapter, which changes no output yet."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    shape = shape or AdapterShape()
    torch.manual_seed(seed)
    model = load_pretrained(AutoModelForCausalLM, base, LoadOptions(local_only=True, device="cpu"))
    config = LoraConfig(
        r=shape.rank,
        lora_alpha=shape.strength,
        target_modules=list(shape.over),
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def train_adapter(
    model: Any,
    options: TrainOptions,
    training: AdapterTraining,
    rows_at: Callable[[str], Iterator[Row]],
) -> Any:
    """Train an adapter and return it with averaged weights; resume from ``options.work``.

    Each step adds the adapter into the weights once and runs the plain model with them. This takes
    0.7 times as long as running base and adapter side by side.

    Args:
        model: result of :func:`fresh_adapter`.
        rows_at: returns an endless stream of texts that depends on the seed alone.
    """
    plain = copy.deepcopy(model).merge_and_unload().to(options.device)
    model.to(options.device)
    steps = options.steps or training.steps
    plan = FitOptions(
        steps=steps,
        learning_rate=training.learning_rate,
        warmup=min(training.warmup, steps),
        final_share=0.03,
        betas=(0.9, 0.95),
        weight_decay=0.01,
        ema=0.99,
        checkpoint_every_s=60.0,
        log_every=5,
    )

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        batches = step_batches(
            rows_at(f"{training.name} {options.seed} {step}"), training.step_tokens
        )
        weights = merged_weights(model)
        outer = weights.pop("lm_head.weight", plain.lm_head.weight)
        inner = {name.removeprefix("model."): value for name, value in weights.items()}

        def hidden_states(**inputs: Any) -> Any:
            return torch.func.functional_call(plain.model, inner, (), inputs)

        def output(hidden: Tensor) -> Tensor:
            return torch.nn.functional.linear(hidden, outer)

        return loss_of(hidden_states, output, batches, options.device)

    return fit(model, loss_at, plan, options.work / f"{training.name}.pt")


def learn(
    options: TrainOptions,
    training: AdapterTraining,
    documents: Callable[[Random], Iterable[Sequence[Piece]]],
) -> None:
    """Train a fresh adapter of the shipped writer and save it to ``options.out``.

    Args:
        documents: returns an endless stream of texts; each step passes a new generator.
    """
    tokenizer = load_tokenizer(SMALL_WRITER)

    def rows_at(seed: str) -> Iterator[Row]:
        return encode(tokenizer, documents(Random(seed)), training.longest)

    fresh = fresh_adapter(shape=training.shape, seed=options.seed)
    model = train_adapter(fresh, options, training, rows_at)
    save_adapter(model, options.out)


def encode(
    tokenizer: Tokenizer, documents: Iterable[Sequence[Piece]], longest: float
) -> Iterator[Row]:
    """Yield the texts as token ids, without those longer than ``longest``."""
    for pieces in documents:
        row = encode_pieces(tokenizer, pieces)
        if len(row[0]) <= longest:
            yield row


def merged_weights(model: Any) -> dict[str, Tensor]:
    """Return base weight names with their weights, adapter added, for every adapted layer."""
    return {
        f"{name}.weight": layer.get_base_layer().weight + layer.get_delta_weight("default")
        for name, layer in model.base_model.model.named_modules()
        if hasattr(layer, "get_delta_weight")
    }


def step_batches(rows: Iterator[Row], step_tokens: int) -> Sequence[Batch]:
    """Collect the texts of one step into a few batches of similar length."""
    chosen: list[Row] = []
    total = 0
    while total < step_tokens:
        chosen.append(next(rows))
        total += len(chosen[-1][0])
    return batched(chosen)


def save_adapter(model: Any, folder: Path, base: Path = SMALL_WRITER) -> None:
    """Save only the adapter, in half precision, as safetensors without local paths."""
    half: Any = copy.deepcopy(model)
    half.to(torch.float16)
    half.save_pretrained(folder, safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base.name
    config["target_modules"] = sorted(config["target_modules"])
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    (folder / ADAPTER_CONFIG).write_text(text, encoding="utf-8")
    state_base(folder, base)
