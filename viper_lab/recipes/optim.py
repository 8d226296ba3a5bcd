"""The training loop of all recipes: learning rate schedule, checkpoints, resume, averaged weights.

A recipe gives :func:`fit` a function from a step number to a loss. It must draw its batch from that
number alone (``np.random.default_rng((seed, step))``), so a resumed training sees the same batches
as an uninterrupted one.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

# Step number -> (loss to minimise, figures to log).
LossAt = Callable[[int], tuple["Tensor", Mapping[str, float]]]


@dataclass(frozen=True)
class TrainOptions:
    """Options of every recipe.

    Attributes:
        out: folder that receives the weights (``from_pretrained`` layout).
        work: folder for checkpoints and rendered data; a training stored there is resumed.
        device: torch device.
        steps: optimiser steps; None means the recipe's own number.
        seed: of initial weights and of the batches.
    """

    out: Path
    work: Path
    device: str = "cpu"
    steps: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class FitOptions:
    """Optimisation settings of :func:`fit`.

    ``decay`` is ``cosine``, or ``tail`` (constant to half-time, then linear); both end at
    ``final_share`` of the learning rate. ``ema`` is the decay of the averaged weights (None: keep
    the last ones). ``muon`` begins the names of parameters whose matrices are trained by Muon, at
    the same learning rate (Liu et al. 2025, section 2.2); AdamW trains the others.
    """

    steps: int
    learning_rate: float
    warmup: int = 100
    decay: Literal["cosine", "tail"] = "cosine"
    final_share: float = 0.02
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.02
    clip: float = 1.0
    ema: float | None = 0.998
    checkpoint_every_s: float = 120.0
    log_every: int = 100
    muon: str | None = None


def rate_at(plan: FitOptions, step: int) -> float:
    """Return the learning rate of step ``step`` (counted from 0)."""
    if step < plan.warmup:
        return plan.learning_rate * (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    if plan.decay == "cosine":
        share = 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    else:
        share = min(1.0, 2 * (1 - min(1.0, done)))
    return plan.learning_rate * (plan.final_share + (1 - plan.final_share) * share)


def optimizers_of(model: nn.Module, plan: FitOptions) -> list[torch.optim.Optimizer]:
    """Return AdamW, and Muon for the matrices that a plan gives it."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    prefix = plan.muon
    inner = [p for name, p in named if prefix and name.startswith(prefix) and p.ndim == 2]
    chosen = {id(p) for p in inner}
    adamw = torch.optim.AdamW(
        parameter_groups([p for _, p in named if id(p) not in chosen], plan.weight_decay),
        lr=plan.learning_rate,
        betas=plan.betas,
        fused=True,
    )
    if not inner:
        return [adamw]
    muon = torch.optim.Muon(
        inner, lr=plan.learning_rate, weight_decay=plan.weight_decay, adjust_lr_fn="match_rms_adamw"
    )
    return [adamw, muon]


def parameter_groups(trained: Sequence[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Group the parameters: matrices decay; biases, norms and scalars do not."""
    return [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]


def save_half(model: Any, folder: Path, *others: Any) -> None:
    """Write a model in half precision and its other parts for ``from_pretrained``."""
    folder.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).cpu().half().save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        weights.chmod(0o644)
    for part in others:
        part.save_pretrained(folder)


def summed(parts: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, float]]:
    """Return the sum of the parts of a loss, and each part as a figure to log."""
    total = torch.stack(list(parts.values())).sum()
    return total, {name: float(part.detach()) for name, part in parts.items()}


def fit(
    model: nn.Module,
    loss_at: LossAt,
    plan: FitOptions,
    checkpoint: Path,
    report: Callable[[str], None] = print,
) -> nn.Module:
    """Train ``model`` in place, resuming from ``checkpoint`` if it exists, and return the result.

    The result is a copy with averaged weights if ``plan.ema`` is set, else ``model``.
    """
    optimizers = optimizers_of(model, plan)
    averaged = copy.deepcopy(model).requires_grad_(False) if plan.ema is not None else None
    start = 0
    if checkpoint.exists():
        start = _restore(checkpoint, model, averaged, optimizers)
        report(f"resumed at step {start} of {plan.steps}")
    model.train()
    began = saved = time.monotonic()
    for step in range(start, plan.steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(plan, step)
        loss, figures = loss_at(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if averaged is not None and plan.ema is not None:
            _average(averaged, model, min(plan.ema, (step + 1) / (step + 10)))
        if (step + 1) % plan.log_every == 0:
            pace = (time.monotonic() - began) / (step + 1 - start)
            text = " ".join(f"{name} {value:.3f}" for name, value in figures.items())
            report(f"step {step + 1}/{plan.steps} {pace * 1000:.0f} ms/step {text}")
        if time.monotonic() - saved > plan.checkpoint_every_s or step + 1 == plan.steps:
            _save(checkpoint, model, averaged, optimizers, step + 1)
            saved = time.monotonic()
    return (averaged if averaged is not None else model).eval()


def _average(averaged: nn.Module, model: nn.Module, decay: float) -> None:

    with torch.no_grad():
        pairs = list(zip(averaged.parameters(), model.parameters(), strict=True))
        torch._foreach_lerp_([a for a, _ in pairs], [p for _, p in pairs], 1 - decay)
        for target, source in zip(averaged.buffers(), model.buffers(), strict=True):
            target.copy_(source)


def _save(
    path: Path,
    model: nn.Module,
    averaged: nn.Module | None,
    optimizers: Sequence[torch.optim.Optimizer],
    step: int,
) -> None:
    """Write to a temporary name, then rename, so a killed run leaves the old file whole."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
    }
    if averaged is not None:
        state["averaged"] = averaged.state_dict()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def _restore(
    path: Path,
    model: nn.Module,
    averaged: nn.Module | None,
    optimizers: Sequence[torch.optim.Optimizer],
) -> int:

    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    for optimizer, stored in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(stored)
    if averaged is not None:
        averaged.load_state_dict(state.get("averaged", state["model"]))
    return int(state["step"])
