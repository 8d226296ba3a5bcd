"""Episodes as an environment of gymnasium: those of `Episode`, checked by its own checker."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.bridges import episodes
from tests.bridges.episodes import SCRIPTS, SEEDS, Played
from tests.bridges.needed import need

need("gymnasium", "gymnasium")

import gymnasium  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from viper.env.gymnasium import EpisodeEnv  # noqa: E402
from viper.env.tasks import Tasks  # noqa: E402
from viper.errors import UsageError  # noqa: E402
from viper.models.llm.messages import Picture  # noqa: E402
from viper.reasoner import Reasoner  # noqa: E402

NAME = "viper.env.gymnasium:viper/Episode-v0"


@pytest.fixture(scope="module")
def env(made: Reasoner) -> Iterator[Any]:
    yield (env := EpisodeEnv(episodes.tasks(), episodes.RULES, reasoner=made))
    env.close()


def play(env: Any, script: str, seed: int) -> Played:
    played, terminated, truncated = Played(), False, False
    observation, info = env.reset(seed=seed)
    for number, code in enumerate(["", *episodes.actions(script, seed)]):
        if number:
            observation, played.reward, terminated, truncated, info = env.step(code)
        shown = [(note, Picture(pixels).data_uri()) for pixels, note in info["pictures"]]
        played.see(observation["text"], shown)
        played.ends = number if terminated or truncated else 0
        assert (terminated and truncated, "parts" in info) == (False, played.ends > 0)
        assert observation in env.observation_space
    assert truncated == (script == "no answer" or played.parts != {})
    played.parts = info["parts"]
    return played


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_episode_is_that_of_episode(script: str, seed: int, env: Any, made: Reasoner) -> None:
    assert play(env, script, seed) == episodes.expected(script, seed, made)


def test_the_checker_of_gymnasium_finds_nothing() -> None:
    made = gymnasium.make(NAME, tasks=episodes.tasks(), rules=episodes.RULES, profile="embedded")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(made.unwrapped)
    made.close()
    made.close()


def test_the_checker_finds_nothing_on_a_set_with_few_tasks(made: Reasoner) -> None:
    few = Tasks("world", split="val")
    assert few.count is not None and few.count < 456
    check_env(EpisodeEnv(few, reasoner=made), skip_close_check=True)


def test_tasks_follow_from_seeds_and_options(env: Any) -> None:
    def tasks(count: int) -> list[str]:
        return [env.reset()[1]["task"] for _ in range(count)]

    assert env.reset(seed=7)[1]["task"] == "everyday-train-0-2-7"
    first = tasks(3)
    assert len(set(first)) == 3
    env.reset(seed=7)
    assert tasks(3) == first
    assert env.reset(options={"task": 5})[1]["task"] == "everyday-train-0-2-5"
    assert env.reset(seed=7, options={"task": 5})[1]["task"] == "everyday-train-0-2-5"
    with pytest.raises(UsageError, match="task -1"):
        env.reset(options={"task": -1})


def test_environments_of_a_vector_share_the_models(made: Reasoner) -> None:
    def make() -> Any:
        return gymnasium.make(NAME, tasks=episodes.tasks(), rules=episodes.RULES, reasoner=made)

    vector = gymnasium.vector.SyncVectorEnv([make, make])
    texts = vector.reset(seed=[0, 3])[0]["text"]
    expected = [episodes.expected("right", seed, made) for seed in (0, 3)]
    assert list(texts) == [each.texts[0] for each in expected]
    codes = tuple(episodes.actions("right", seed)[0] for seed in (0, 3))
    _, rewards, terminated, _, _ = vector.step(codes)
    vector.close()
    assert (list(rewards), list(terminated)) == ([1, 1], [True, True])


def test_the_right_answer_is_nowhere_to_be_read(env: Any) -> None:
    target = episodes.tasks()[episodes.ASKS_A_COLOR].sample.target
    seen: list[Any] = []
    for code in episodes.HOSTILE:
        seen.append(env.reset(seed=episodes.ASKS_A_COLOR))
        observation, reward, _, _, info = env.step(code)
        assert reward == 0
        seen.append((observation, info))
    assert not [each for each in seen if re.search(rf"\b{target}\b", str(each))]


def test_pictures_are_those_of_the_query(env: Any) -> None:
    _, info = env.reset(seed=0)
    ((pixels, note),) = info["pictures"]
    decoded = Image.open(io.BytesIO(base64.b64decode(Picture(pixels).data_uri().split(",")[1])))
    assert (np.asarray(decoded) == pixels).all() and note.startswith("The picture of the query")


def test_code_before_a_reset_is_refused(made: Reasoner) -> None:
    with pytest.raises(UsageError, match="call reset first"):
        EpisodeEnv(episodes.tasks(), reasoner=made).step("1")


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(episodes.example("Gymnasium"), {})  # noqa: S102
    assert "'answer'" in capsys.readouterr().out
