"""Adapters of the embedded writer: low-rank matrices beside its frozen weights.

The base is one of the shipped writers; only the matrices of the adapter are trained, saved and
shipped. :mod:`viper.models.llm.adapters` lays them over the base again.

Source: LoRA (Hu et al. 2022). Differs: also over the embedding and the output layer, since what an
adapter writes has other words than the base's programs.
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
from viper.profiles.wiring import WEIGHTS
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit
from viper_lab.recipes.writer import Batch, batched, encode_pieces, loss_of
from viper_lab.recipes.writer_documents import Piece
from viper_lab.recipes.writer_tokenizer import load_tokenizer

WRITER = WEIGHTS / "writer"
"""The base of the shipped adapters."""

Row = tuple[list[int], list[bool]]
"""Token ids of a text, and for each whether it counts in the loss."""


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
    """How long and on how much an adapter is trained.

    Attributes:
        name: of its checkpoint; its texts are drawn from it too.
        step_tokens: about how many tokens a step takes.
        longest: tokens of a text at most.
        shape: size of the adapter.
    """

    name: str
    steps: int
    learning_rate: float = 3e-3
    warmup: int = 20
    step_tokens: int = 4000
    longest: float = math.inf
    shape: AdapterShape = AdapterShape()


def fresh_adapter(base: Path = WRITER, shape: AdapterShape | None = None, seed: int = 0) -> Any:
    """The frozen base with an untrained adapter, which changes nothing yet."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    shape = shape or AdapterShape()
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, local_files_only=True)
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
    course: AdapterTraining,
    rows_at: Callable[[str], Iterator[Row]],
) -> Any:
    """The adapter with averaged weights; resumes from ``options.work``.

    Each step adds the adapter into the weights once and runs the plain model with them: 0.7 times
    the cost of running base and adapter side by side.

    Args:
        model: of :func:`fresh_adapter`.
        rows_at: texts without end, drawn by a seed alone.
    """
    plain = copy.deepcopy(model).merge_and_unload().to(options.device)
    model.to(options.device)
    steps = options.steps or course.steps
    plan = FitOptions(
        steps=steps,
        learning_rate=course.learning_rate,
        warmup=min(course.warmup, steps),
        final_share=0.03,
        betas=(0.9, 0.95),
        weight_decay=0.01,
        ema=0.99,
        checkpoint_every_s=60.0,
        log_every=5,
    )

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        batches = step_batches(rows_at(f"{course.name} {options.seed} {step}"), course.step_tokens)
        weights = merged_weights(model)
        outer = weights.pop("lm_head.weight", plain.lm_head.weight)
        inner = {name.removeprefix("model."): value for name, value in weights.items()}

        def hidden_states(**given: Any) -> Any:
            return torch.func.functional_call(plain.model, inner, (), given)

        def output(hidden: Tensor) -> Tensor:
            return torch.nn.functional.linear(hidden, outer)

        return loss_of(hidden_states, output, batches, options.device)

    return fit(model, loss_at, plan, options.work / f"{course.name}.pt")


def learn(
    options: TrainOptions,
    course: AdapterTraining,
    documents: Callable[[Random], Iterable[Sequence[Piece]]],
) -> None:
    """Trains a fresh adapter of the shipped writer and saves it to ``options.out``.

    Args:
        documents: texts without end, of a draw of its own for each step.
    """
    tokenizer = load_tokenizer(WRITER)

    def rows_at(seed: str) -> Iterator[Row]:
        return encoded(tokenizer, documents(Random(seed)), course.longest)

    fresh = fresh_adapter(shape=course.shape, seed=options.seed)
    model = train_adapter(fresh, options, course, rows_at)
    save_adapter(model, options.out)


def encoded(
    tokenizer: Tokenizer, documents: Iterable[Sequence[Piece]], longest: float
) -> Iterator[Row]:
    """The texts as token ids, without those that are too long."""
    for pieces in documents:
        row = encode_pieces(tokenizer, pieces)
        if len(row[0]) <= longest:
            yield row


def merged_weights(model: Any) -> dict[str, Tensor]:
    """Name in the base -> weight with the adapter added in, for every layer that has one."""
    return {
        f"{name}.weight": layer.get_base_layer().weight + layer.get_delta_weight("default")
        for name, layer in model.base_model.model.named_modules()
        if hasattr(layer, "get_delta_weight")
    }


def step_batches(rows: Iterator[Row], step_tokens: int) -> Sequence[Batch]:
    """The texts of one step, in a few batches of similar length."""
    taken: list[Row] = []
    total = 0
    while total < step_tokens:
        taken.append(next(rows))
        total += len(taken[-1][0])
    return batched(taken)


def save_adapter(model: Any, folder: Path, base: Path = WRITER) -> None:
    """The adapter alone, in half precision, as safetensors; names no place on this machine."""
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
