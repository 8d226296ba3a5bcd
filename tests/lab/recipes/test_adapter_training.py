"""Training an adapter: it learns, the base does not, and it goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
import torch

from tests.lab.recipes.tiny_writer import tiny_writer
from viper_lab.recipes.adapters import (
    AdapterShape,
    AdapterTraining,
    Row,
    encode,
    fresh_adapter,
    save_adapter,
    train_adapter,
)
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.planner_documents import PlanDocuments, plan_document
from viper_lab.recipes.writer_tokenizer import load_tokenizer

SHAPE = AdapterShape(rank=4, strength=8)
TRAINING = AdapterTraining("test", steps=20, learning_rate=1e-2, warmup=2, step_tokens=400)
PLANS = PlanDocuments(programs=0.0, plans=2, made_up_nouns=0.0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_writer(tmp_path_factory.mktemp("base"))


@pytest.mark.timeout(120)
def test_the_loss_falls_the_base_stays_and_a_stopped_training_goes_on(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = load_tokenizer(base)

    def rows_at(seed: str) -> Iterator[Row]:
        random = Random(seed)
        documents = (plan_document(random, PLANS) for _ in count())
        return encode(tokenizer, documents, 1500)

    model = fresh_adapter(base, SHAPE)
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    whole = TrainOptions(tmp_path / "out", tmp_path / "whole")
    trained = train_adapter(model, whole, TRAINING, rows_at)
    losses = [
        float(line.split("loss ")[1].split()[0])
        for line in capsys.readouterr().out.splitlines()
        if "loss" in line
    ]
    assert losses[-1] < losses[0] - 0.5
    kept = dict(trained.named_parameters())
    assert all(torch.equal(value, kept[name]) for name, value in frozen.items())
    again = train_adapter(fresh_adapter(base, SHAPE), whole, TRAINING, rows_at)
    assert "resumed at step 20 of 20" in capsys.readouterr().out
    for name, value in again.named_parameters():
        torch.testing.assert_close(value, kept[name])
    save_adapter(trained, tmp_path / "out", base)
    halves = 2 * sum(value.numel() for name, value in kept.items() if "lora_" in name)
    saved = (tmp_path / "out" / "adapter_model.safetensors").stat().st_size
    assert halves < saved < halves + 20_000  # the matrices alone, no layer of the base
