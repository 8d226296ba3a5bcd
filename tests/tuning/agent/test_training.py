"""Tuning a tiny model: what is learned, what a kill leaves, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.forked import python
from tests.tuning.agent.tiny import save_model
from tests.tuning.agent.turns import DONE, STORE, workflow
from viper.errors import UsageError
from viper.models.llm.protocol import Sampling
from viper.models.llm.transformers_llm import TransformersLLM
from viper.models.loading import LoadOptions
from viper.tuning.agent.masking import MaskedWorkflow
from viper.tuning.agent.training import TunedAgent, TuneSettings, losses, read_held_out, split, tune

ROOT = Path(__file__).resolve().parents[3]
TEXTS = [MaskedWorkflow(f"# question: {n}\n", f"<code>\nfind({n % 3})\n</code>\n", f"w{n}", 0)
         for n in range(12)]  # fmt: skip
SETTINGS = TuneSettings(steps=6, batch=4, learning_rate=1e-2, warmup=1, rank=4, save_every=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("tiny") / "model")


def tuned(model: Path, adapter: Path | None = None) -> TunedAgent:
    load = LoadOptions(device="cpu", local_only=True)
    return TunedAgent(str(model), str(adapter) if adapter else None, "plain", load)


def test_an_adapter_is_trained_and_can_be_laid_over_and_trained_on(
    model: Path, tmp_path: Path
) -> None:
    told: list[int] = []
    out = tune(tuned(model), TEXTS, SETTINGS, tmp_path / "a", tmp_path / "work",
               lambda step, loss: told.append(step))  # fmt: skip
    curve = losses(tmp_path / "work")
    assert told == [1, 2, 3, 4, 5, 6] == [step for step, _ in curve]
    assert curve[-1][1] < curve[0][1]
    llm = TransformersLLM(model, template="plain", adapter=out, device="cpu", local_only=True)
    assert llm.generate(["# question: 1\n"], Sampling(max_tokens=3))
    again = tune(tuned(model, out), TEXTS, SETTINGS, tmp_path / "b", tmp_path / "more")
    assert losses(tmp_path / "more")[0][1] < curve[0][1]
    assert (again / "adapter_model.safetensors").is_file()


def test_what_was_held_out_is_judged_before_and_after(model: Path, tmp_path: Path) -> None:
    learned, out = TEXTS[:9], TEXTS[9:]
    work = tmp_path / "work"
    tune(tuned(model), learned, SETTINGS, tmp_path / "a", work, held_out=out)
    found = read_held_out(work)
    assert found is not None and found.rows == 3 and found.after is not None
    assert 0 < found.after < found.before and found.tokens > 3
    alone = tmp_path / "alone"
    tune(tuned(model), learned, SETTINGS, tmp_path / "b", alone)
    assert losses(alone) == losses(work) and read_held_out(alone) is None


def test_after_the_last_step_a_rerun_makes_the_same_model(model: Path, tmp_path: Path) -> None:
    for steps in (6, 7):  # of three an epoch: at its end, and within it
        work, settings = tmp_path / f"work{steps}", replace(SETTINGS, steps=steps)
        first = tune(tuned(model), TEXTS, settings, tmp_path / f"a{steps}", work)
        again = tune(tuned(model), TEXTS, settings, tmp_path / f"b{steps}", work)
        weights = [load_file(one / "adapter_model.safetensors") for one in (first, again)]
        assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
        assert len(losses(work)) == steps


def test_a_share_is_held_out_the_same_way_every_time() -> None:
    made = [workflow(STORE, DONE, id=f"s{n}") for n in range(10)]
    learned, out = split(made, 0.25, seed=3)
    assert len(out) == 2 and {one.id for one in [*learned, *out]} == {one.id for one in made}
    assert split(made, 0.25, seed=3) == (learned, out) and split(made, 0.05, 0)[1] == []


def test_what_is_about_the_same_picture_is_held_out_together() -> None:
    made = [
        workflow(STORE, DONE, id=f"s{n}", manner=manner, cluster=f"picture {n // 2}")
        for manner in ("standard", "discrepancy")
        for n in range(10)
    ]
    learned, out = split(made, 0.4, seed=0)
    assert len(out) == 8 and not {one.cluster for one in learned} & {one.cluster for one in out}


def test_all_weights_can_be_trained(model: Path, tmp_path: Path) -> None:
    settings = TuneSettings(steps=2, batch=4, rank=0)
    out = tune(tuned(model), TEXTS, settings, tmp_path / "whole", tmp_path / "work")
    TransformersLLM(out, template="plain", device="cpu", local_only=True)
    before, after = (load_file(one / "model.safetensors") for one in (model, out))
    assert before.keys() == after.keys()
    assert all(not before[name].equal(after[name]) for name in before)
    with pytest.raises(UsageError, match="set a rank above 0"):
        tune(tuned(model, out), TEXTS, settings, tmp_path / "x", tmp_path / "other")


RUN = """
import sys
from pathlib import Path
from tests.tuning.agent import test_training as here
model, out, work = map(Path, sys.argv[1:4])
steps = here.TuneSettings(steps=30, batch=4, learning_rate=1e-2, warmup=1, rank=4, save_every=3)
def told(step, loss):
    print(step, flush=True)
here.tune(here.tuned(model), here.TEXTS, steps, out, work, told)
"""


def test_killed_and_resumed_it_has_the_same_losses(model: Path, tmp_path: Path) -> None:
    def started(name: str) -> subprocess.Popen[str]:
        command = python("-c", RUN, model, tmp_path / name, tmp_path / f"{name}-work")
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    whole = started("whole")
    assert whole.communicate(timeout=150)[0].split() and whole.returncode == 0
    killed = started("killed")
    assert killed.stdout is not None
    for line in killed.stdout:
        if int(line) >= 8:
            break
    killed.kill()
    killed.wait()
    rest = started("killed")
    steps = [int(one) for one in rest.communicate(timeout=150)[0].split()]
    assert rest.returncode == 0 and 1 < steps[0] <= 10 and steps[-1] == 30
    first, second = (dict(losses(tmp_path / f"{name}-work")) for name in ("whole", "killed"))
    assert first.keys() == second.keys() == set(range(1, 31))
    assert all(abs(first[step] - second[step]) < 1e-4 for step in first)


def test_two_processes_share_a_batch_and_one_writes(model: Path, tmp_path: Path) -> None:
    """They learn what one process learns from a batch of both."""
    script = tmp_path / "run.py"
    script.write_text(RUN.replace("steps=30, batch=4", "steps=6, batch=2"))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    told = subprocess.run(
        [*command, "2", script, model, tmp_path / "two", tmp_path / "work"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert told.split() == ["1", "2", "3", "4", "5", "6"]
    alone = tmp_path / "alone"
    one = tune(tuned(model), TEXTS, replace(SETTINGS, save_every=3), tmp_path / "one", alone)
    assert [loss for _, loss in losses(tmp_path / "work")] == pytest.approx(
        [loss for _, loss in losses(alone)], abs=1e-3
    )
    weights = [load_file(each / "adapter_model.safetensors") for each in (one, tmp_path / "two")]
    assert all(weights[0][name].allclose(weights[1][name], atol=1e-3) for name in weights[0])


def test_another_tuning_is_refused(model: Path, tmp_path: Path) -> None:
    tune(tuned(model), TEXTS, SETTINGS, tmp_path / "a", tmp_path / "work")
    with pytest.raises(UsageError, match="another tuning"):
        tune(tuned(model), TEXTS[1:], SETTINGS, tmp_path / "b", tmp_path / "work")
    with pytest.raises(UsageError, match="is there already"):
        tune(tuned(model), TEXTS, SETTINGS, tmp_path / "a", tmp_path / "new")
    with pytest.raises(UsageError, match="fits into 5 tokens"):
        tune(tuned(model), TEXTS, TuneSettings(longest=5), tmp_path / "c", tmp_path / "short")
    (tmp_path / "work" / "tuning.json").unlink()
    with pytest.raises(UsageError, match="no tuning.json"):
        tune(tuned(model), TEXTS, SETTINGS, tmp_path / "b", tmp_path / "work")
    assert list((tmp_path / "work").glob("checkpoint-*"))


def test_what_is_too_long_is_told(model: Path, tmp_path: Path) -> None:
    told: list[int] = []
    long = MaskedWorkflow("# question: 1\n" * 200, "<done></done>\n", "w", 0)
    settings = replace(SETTINGS, longest=300)
    tune(tuned(model), [*TEXTS, long], settings, tmp_path / "a", tmp_path / "work",
         left_out=told.append)  # fmt: skip
    assert told == [1]


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"rank": -1}, {"learning_rate": 0.0}])
def test_settings_out_of_range(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        TuneSettings(**wrong)  # type: ignore[arg-type]
