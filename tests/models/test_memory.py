"""One budget for all models: who is unloaded, when, and what happens if memory runs out."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from viper.errors import MemoryFullError, ModelError
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.scripted import ScriptedLLM
from viper.models.llm.wrapped import DeferredLLM
from viper.models.memory import MemoryBudget
from viper.tools.models import ModelSet


class Machine:
    """A machine with models of known sizes; counts what is in memory while one loads."""

    def __init__(self, bound: int, memory: int = 1 << 60) -> None:
        self.budget = MemoryBudget(bound, lambda: "; try the profile small")
        self.models = ModelSet({}, self.budget)
        self.memory, self.peak = memory, 0
        self.loads: list[str] = []

    def add(self, role: str, size: int, *, is_known: bool = True) -> None:
        def load() -> Any:
            return self.loaded(role, type("Heavy", (), {"memory_bytes": size})())

        self.models.add(role, load, lambda: size if is_known else 0)

    def loaded(self, name: str, model: Any) -> Any:
        total = self.budget.used_bytes() + model.memory_bytes
        if total > self.memory:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        self.peak = max(self.peak, total)
        self.loads.append(name)
        return model

    def llm(self, size: int, writes: Callable[[], None] = lambda: None) -> DeferredLLM:
        class Writer(ScriptedLLM):
            memory_bytes = size

            def generate(
                self, prompts: Sequence[Any], sampling: Sampling
            ) -> list[list[Completion]]:
                writes()
                return super().generate(prompts, sampling)

        weights = self.budget.weights(estimate=lambda: size)
        return DeferredLLM(lambda: self.loaded("llm", Writer(lambda _: "a program")), weights)


def test_room_is_made_before_a_model_loads() -> None:
    machine = Machine(10)
    machine.add("detector", 8)
    machine.add("vqa", 8)
    machine.models.get("detector")
    machine.models.get("vqa")
    assert machine.peak == 8 and list(machine.models.loaded()) == ["vqa"]


def test_a_model_of_unknown_size_makes_room_afterwards() -> None:
    machine = Machine(10)
    machine.add("detector", 8)
    machine.add("vqa", 8, is_known=False)
    machine.models.get("detector")
    machine.models.get("vqa")
    assert list(machine.models.loaded()) == ["vqa"]


def test_the_language_model_counts_and_is_unloaded_like_any_other() -> None:
    machine = Machine(20)
    machine.add("detector", 8)
    llm = machine.llm(16)
    assert llm.generate(["query"], Sampling())[0][0].text == "a program"
    assert machine.budget.used_bytes() == 16
    machine.models.get("detector")
    assert not llm.loaded and machine.peak == 16
    assert llm.model_id == "scripted" or not llm.loaded
    llm.generate(["query"], Sampling())
    assert llm.loaded and not machine.models.loaded() and machine.loads.count("llm") == 2


def test_its_name_is_known_without_loading_it_again() -> None:
    machine = Machine(20)
    machine.add("detector", 8)
    llm = machine.llm(16)
    assert (llm.model_id, llm.can_score, llm.concurrent) == ("scripted", True, False)
    machine.models.get("detector")
    assert not llm.loaded
    assert (llm.model_id, llm.can_score, llm.concurrent) == ("scripted", True, False)
    assert not llm.loaded


def test_a_language_model_that_writes_is_not_unloaded() -> None:
    machine = Machine(20)
    machine.add("detector", 8)
    writing, go_on = threading.Event(), threading.Event()

    def writes() -> None:
        writing.set()
        assert go_on.wait(20)

    llm = machine.llm(16, writes)
    thread = threading.Thread(target=lambda: llm.generate(["query"], Sampling()))
    thread.start()
    assert writing.wait(20)
    machine.models.get("detector")
    assert llm.loaded
    go_on.set()
    thread.join(20)
    machine.models.get("detector")


def test_the_peak_stays_below_the_bound_whatever_is_used_next() -> None:
    sizes = {"detector": 3, "matcher": 2, "depth": 1, "vqa": 6, "segmenter": 4, "video": 5}
    machine, draw = Machine(12), random.Random(0)
    for role, size in sizes.items():
        machine.add(role, size)
    llm = machine.llm(7)
    for _ in range(60):
        role = draw.choice([*sizes, "llm"])
        if role == "llm":
            llm.generate(["query"], Sampling())
        else:
            with machine.models.using(role):
                pass
        assert machine.budget.used_bytes() <= 12
    assert machine.peak <= 12 and set(machine.loads) == {*sizes, "llm"}


def test_memory_that_runs_out_while_loading_unloads_what_is_idle_and_loads_again() -> None:
    machine = Machine(100, memory=10)
    machine.add("detector", 8)
    machine.add("vqa", 8)
    machine.models.get("detector")
    assert machine.models.get("vqa").memory_bytes == 8
    assert list(machine.models.loaded()) == ["vqa"]


def test_memory_that_runs_out_in_use_unloads_what_is_idle_and_does_it_again() -> None:
    machine = Machine(100)
    machine.add("detector", 8)
    machine.add("vqa", 8)
    machine.models.get("detector")
    attempts = []

    def work(_: Any) -> str:
        attempts.append(list(machine.models.loaded()))
        if len(attempts) == 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return "answer"

    assert machine.models.run("vqa", work) == "answer"
    assert attempts == [["detector", "vqa"], ["vqa"]]


def test_an_error_that_is_not_about_memory_is_raised_at_once() -> None:
    machine = Machine(100)
    machine.add("detector", 8)
    machine.add("vqa", 8)
    machine.models.get("detector")

    def work(_: Any) -> None:
        raise ModelError("no such question")

    with pytest.raises(ModelError, match="^no such question$"):
        machine.models.run("vqa", work)
    assert set(machine.models.loaded()) == {"detector", "vqa"}


def test_what_fits_nowhere_names_the_smaller_profile_once() -> None:
    machine = Machine(100, memory=5)
    machine.add("vqa", 8)
    with pytest.raises(MemoryFullError) as caught:
        machine.models.run("vqa", lambda backend: backend)
    assert str(caught.value).count("try the profile small") == 1 and caught.value.final
    llm = machine.llm(8)
    with pytest.raises(MemoryFullError, match="out of memory.*; try the profile small$"):
        llm.generate(["query"], Sampling())


def test_users_of_one_key_share_their_weights_and_others_do_not() -> None:
    budget = MemoryBudget()
    one, other = budget.weights("a model"), budget.weights("another")
    assert budget.weights("a model") is one and other is not one
    assert budget.weights() is not budget.weights()


def test_memory_of_every_kind_of_device_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    emptied: list[str] = []
    for name, device in (("cuda", torch.cuda), ("mps", torch.mps)):
        monkeypatch.setattr(device, "is_available", lambda: True)
        monkeypatch.setattr(device, "empty_cache", lambda name=name: emptied.append(name))
    machine = Machine(10)
    machine.add("detector", 8)
    machine.add("vqa", 8)
    for role in ("detector", "vqa"):
        with machine.models.using(role):
            pass
    assert emptied == ["cuda", "mps"]
