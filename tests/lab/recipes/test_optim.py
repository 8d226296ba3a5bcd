from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from viper.errors import UnknownNameError
from viper_lab.recipes import RECIPES, recipe
from viper_lab.recipes.optim import FitOptions, fit, optimizers_of, rate_at


def test_rates_rise_then_fall() -> None:
    cosine = FitOptions(steps=100, learning_rate=1.0, warmup=10)
    tail = FitOptions(steps=100, learning_rate=1.0, warmup=10, decay="tail")
    assert rate_at(cosine, 0) == pytest.approx(0.1)
    assert rate_at(cosine, 10) == rate_at(tail, 10) == rate_at(tail, 50) == pytest.approx(1.0)
    assert rate_at(cosine, 55) == pytest.approx(0.51)
    assert rate_at(tail, 78) == pytest.approx(0.02 + 0.98 * 2 * 22 / 90)
    assert rate_at(cosine, 100) == rate_at(tail, 100) == pytest.approx(0.02)


def line(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(2, 1)


def loss_of(model: nn.Module) -> Callable[[int], tuple[Tensor, Mapping[str, float]]]:
    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(16, 2, generator=generator)
        loss = (model(x)[:, 0] - x[:, 0] + 2 * x[:, 1]).square().mean()
        return loss, {"loss": float(loss.detach())}

    return loss_at


PLAN = FitOptions(steps=60, learning_rate=0.1, warmup=5, ema=0.9, log_every=20)


def test_it_fits_and_reports(tmp_path: Path) -> None:
    model, lines = line(), list[str]()
    best = fit(model, loss_of(model), PLAN, tmp_path / "checkpoint.pt", lines.append)
    assert float(loss_of(best)(999)[0]) < 0.05
    assert [text.split()[1] for text in lines] == ["20/60", "40/60", "60/60"]
    assert best is not model and not best.training


@pytest.mark.parametrize("muon", [None, "weight"])
def test_a_resumed_training_ends_where_an_unbroken_one_does(
    tmp_path: Path, muon: str | None
) -> None:
    plan = replace(PLAN, muon=muon)
    whole = line()
    expected = fit(whole, loss_of(whole), plan, tmp_path / "whole.pt", lambda _: None)
    broken = line()

    def until_step_30(step: int) -> tuple[Tensor, Mapping[str, float]]:
        if step == 30:
            raise KeyboardInterrupt
        return loss_of(broken)(step)

    every_step = replace(plan, checkpoint_every_s=-1.0)
    with pytest.raises(KeyboardInterrupt):
        fit(broken, until_step_30, every_step, tmp_path / "broken.pt", lambda _: None)
    resumed = line(seed=1)
    lines: list[str] = []
    actual = fit(resumed, loss_of(resumed), plan, tmp_path / "broken.pt", lines.append)
    assert lines[0] == "resumed at step 30 of 60"
    for a, b in zip(actual.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_muon_trains_the_named_matrices_alone() -> None:
    model = nn.ModuleDict({"layers": nn.Linear(3, 4), "head": nn.Linear(4, 2)})
    optimizers = optimizers_of(model, replace(PLAN, muon="layers."))
    groups = [[group["params"] for group in optimizer.param_groups] for optimizer in optimizers]
    trained = [[p.shape for group in of_one for p in group] for of_one in groups]
    assert trained == [[(2, 4), (4,), (2,)], [(4, 3)]]
    assert len(optimizers_of(model, PLAN)) == 1


def test_recipes_are_found_by_role() -> None:
    assert callable(recipe("detector"))
    with pytest.raises(UnknownNameError, match="detector"):
        recipe("telepathy")
    assert all(target.count(":") == 1 for target in RECIPES.values())
