"""Episodes: observations, ends, rewards and what stays the same."""

from __future__ import annotations

import pytest

from tests.env.conftest import right
from viper.data.sample import Sample
from viper.env.episode import ENDED, Episode, RewardWeights, Rules, with_call
from viper.env.tasks import EnvTask, Tasks
from viper.errors import UsageError
from viper.evaluate.metrics import metric

ALL = RewardWeights(answer=1.0, kind=0.5, calls=0.25, verified=2.0)


def begun(task, reasoner, **rules):
    episode = Episode(task, reasoner, Rules(exact=True, **rules))
    episode.reset()
    return episode


@pytest.mark.parametrize("number", range(12))
def test_the_canonical_program_is_right_and_verified(tasks, reasoner, number):
    episode = begun(tasks[number], reasoner, weights=ALL)
    assert episode.act(right(tasks[number])).done
    parts = episode.reward().parts
    assert (parts["answer"], parts["kind"], parts["verified"]) == (1.0, 1.0, 1.0)
    assert parts["calls"] == 1 - len(episode.calls) / 20
    episode.close()


def test_the_same_actions_give_the_same_episode(tasks, reasoner):
    def play():
        episode = Episode(tasks[4], reasoner, Rules(exact=True, weights=ALL))
        seen = [episode.reset()]
        for code in ("len(image_patch.find('ball'))", "1 / 0", "import random; random.random()",
                     right(tasks[4])):  # fmt: skip
            seen.append(episode.act(code))
        reward = episode.reward()
        episode.close()
        return [one.text for one in seen], reward

    assert play() == play()


def test_variables_stay_between_actions_and_errors_are_shown(yes, reasoner):
    episode = begun(yes, reasoner)
    assert episode.act("seen = 41").text == "41"
    assert "ZeroDivisionError" in episode.act("1 / 0").text
    observation = episode.act("seen + 1")
    assert (observation.text, observation.done) == ("42", False)
    episode.close()


def test_the_opening_states_the_query_and_the_api_in_bounds(yes, reasoner):
    episode = Episode(yes, reasoner, Rules(exact=True))
    observation = episode.reset()
    assert yes.sample.text in observation.text
    assert "find" in observation.text
    assert len(observation.text) <= 6_000
    assert len(observation.pictures) == 1
    bare = Episode(yes, reasoner, Rules(exact=True, instructions=0)).reset()
    assert bare.text == f"Query: {yes.sample.text}\n"
    episode.close()


def test_the_episode_ends_after_its_turns_without_reward(yes, reasoner):
    episode = begun(yes, reasoner, turns=2)
    assert not episode.act("1").done
    assert episode.act("2").done
    assert episode.act("final_answer = 'yes'").text == ENDED
    assert episode.reward().total == 0.0
    episode.close()


def test_an_unreadable_answer_is_said_and_does_not_end_the_episode(yes, reasoner):
    episode = begun(yes, reasoner)
    observation = episode.act("final_answer = []")
    assert not observation.done
    assert "final_answer: the program returned []" in observation.text
    assert episode.act("final_answer = 'yes'").done
    assert episode.reward().total == 1.0
    episode.close()


def test_wrong_answers_of_the_right_kind_get_that_part_alone(yes, reasoner):
    episode = begun(yes, reasoner, weights=ALL)
    episode.act("final_answer = 'no'")
    reward = episode.reward()
    assert reward.parts == {"answer": 0.0, "kind": 1.0, "calls": 0.0, "verified": 0.0}
    assert reward.total == pytest.approx(0.5 / 3.75)
    episode.close()


def test_a_lucky_constant_is_right_and_not_verified(yes, reasoner):
    episode = begun(yes, reasoner, weights=RewardWeights(answer=1.0, verified=1.0, kind=0.0))
    episode.act("final_answer = 'yes'")
    assert episode.reward().parts == {"answer": 1.0, "verified": 0.0}
    episode.close()


def test_actions_need_a_reset(yes, reasoner):
    with pytest.raises(UsageError, match="call reset first"):
        Episode(yes, reasoner).act("1")


def test_a_set_without_known_scenes_has_no_exact_tools(reasoner):
    picture = Sample("a", "is it red?", "question", "image", "yes", load=lambda: None)
    task = EnvTask(picture, metric("answers"))
    for rules in (Rules(exact=True), Rules(weights=RewardWeights(verified=1.0))):
        with pytest.raises(UsageError, match="its scene is not known.*world-everyday"):
            Episode(task, reasoner, rules).reset()


def test_models_answer_where_tools_are_not_exact(yes, reasoner):
    episode = Episode(yes, reasoner)
    episode.reset()
    assert episode.act("len(image_patch.find('object'))").text.isdigit()
    assert episode.calls[0].scores
    episode.close()


@pytest.mark.parametrize("values", [{"answer": -1.0}, {"answer": 0.0, "kind": 0.0}])
def test_weights_are_checked(values):
    with pytest.raises(UsageError, match="from 0, one above 0"):
        RewardWeights(**values)


def test_only_programs_are_called():
    program = "def execute_command(image):\n    return 1\n"
    assert with_call(program, "image").endswith("final_answer = execute_command(image)")
    assert with_call(f"{program}final_answer = 2", "image").endswith("final_answer = 2")
    assert with_call("x = 1", "image") == "x = 1"


def test_tasks_are_numbered(tasks):
    assert tasks.count is None
    assert tasks[3].sample == Tasks("world-everyday", split="val", seed=5)[3].sample
    assert tasks[3].sample != Tasks("world-everyday", split="val", seed=6)[3].sample
    drawn = Tasks("world", split="val:question")
    assert drawn.count == 300
    for wrong, number in ((drawn, 300), (tasks, -1)):
        with pytest.raises(UsageError, match="has the tasks 0"):
            wrong[number]
