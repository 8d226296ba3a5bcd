"""Episodes under the real GRPOTrainer of TRL, with a policy of random weights."""

from __future__ import annotations

import random
from functools import partial

import pytest

from tests.bridges.needed import need
from viper.env.episode import Episode, Rules
from viper.env.tasks import Tasks
from viper.env.trl import CodeEnvironment
from viper.profiles import load_profile
from viper.reasoner import Reasoner

need("trl", "trl")

from benchmarks import env_grpo as grpo  # noqa: E402

RULES = Rules(turns=2, exact=True, instructions=0)


@pytest.fixture(scope="module")
def tasks():
    return Tasks("world-everyday", split="train:1", seed=2)


@pytest.fixture(scope="module")
def reasoner():
    with Reasoner(load_profile("embedded"), preload=False) as reasoner:
        yield reasoner


@pytest.mark.parametrize("number", range(10))
def test_the_same_episode_through_this_face(tasks, reasoner, number):
    task = tasks[number]
    codes = ["len(image_patch.find('object'))", grpo.right_action(task)]
    environment = CodeEnvironment(tasks, reasoner, RULES)
    seen = [environment.reset(task=number, prompt=[])]
    seen += [environment.run_code(code) for code in codes]
    episode = Episode(task, reasoner, RULES)
    assert seen == [episode.reset().text, *(episode.act(code).text for code in codes)]
    assert environment.get_reward() == episode.reward().total
    assert episode.reward().parts["answer"] == 1.0
    episode.close()


def test_a_policy_that_sees_gets_the_pictures(tasks, reasoner):
    environment = CodeEnvironment(tasks, reasoner, Rules(exact=True, api="look"), sees=True)
    picture, caption, text = environment.reset(task=0)
    assert (picture["type"], picture["image"].size) == ("image", (192, 144))
    assert caption["type"] == "text"
    assert tasks[0].sample.text in text["text"]
    blocks = environment.run_code("show(image_patch, 'all of it')")
    assert [block["type"] for block in blocks] == ["image", "text", "text"]
    environment.get_reward()


@pytest.mark.timeout(600)
def test_the_trainer_plays_and_learns(tasks, reasoner, tmp_path, monkeypatch):
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.manual_seed(0)
    random.seed(0)
    shown = []
    for task in (tasks[number] for number in range(4)):
        for code in (grpo.right_action(task), "final_answer = 'nothing'"):
            shown += 4 * [grpo.messages_of(task, code)]
    tokenizer = grpo.new_tokenizer([str(each) for each in shown])
    policy = grpo.new_policy(tokenizer)
    grpo.imitate(policy, tokenizer, shown, epochs=60)  # by heart: it acts rightly or guesses
    before = policy.model.embed_tokens.weight.detach().clone()
    played = []

    class Recorded(CodeEnvironment):
        def get_reward(self) -> float:
            assert self._episode is not None
            task = self._episode.task
            assert self._text == grpo.opening(task)
            played.append(super().get_reward())
            return played[-1]

        def _content(self, observation):
            self._text = getattr(self, "_text", None) or observation.text
            return super()._content(observation)

        def reset(self, task: int, **row):
            self._text = None
            return super().reset(task, **row)

    config = GRPOConfig(
        str(tmp_path), per_device_train_batch_size=8, num_generations=4, max_steps=2,
        max_completion_length=120, max_tool_calling_iterations=1, learning_rate=1e-3,
        save_strategy="no", report_to=[], use_cpu=True, bf16=False, disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        policy,
        args=config,
        train_dataset=Dataset.from_dict({"task": list(range(4))}),
        processing_class=tokenizer,
        environment_factory=partial(Recorded, tasks, reasoner, RULES),
    )
    trainer.train()
    assert len(played) == 16
    assert len(set(played)) > 1
    assert max(played) == 1.0
    assert not torch.equal(before, policy.model.embed_tokens.weight)
