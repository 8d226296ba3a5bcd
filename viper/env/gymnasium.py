"""Episodes as a Gymnasium environment.

``gymnasium.make("viper.env.gymnasium:viper/Episode-v0", tasks=Tasks("world-everyday"))``

Source: gymnasium 1.4.0, ``Env``. It reads no entry points, so the name of this module stands before
that of the environment.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from viper.env.episode import Episode, EpisodeObservation, Rules
from viper.env.tasks import Tasks
from viper.profiles import load_profile
from viper.reasoner import Reasoner

# Longest code and observation: more than the sandbox compiles or prints, 64 KiB each.
MOST_TEXT = 1 << 16


class AnyText(gymnasium.spaces.Text):
    """Space of texts of all characters."""

    def contains(self, x: Any) -> bool:
        """Return whether a value is a text that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length


class EpisodeEnv(gymnasium.Env[dict[str, str], str]):
    """Episodes of a data set; an action is code, an observation has the key ``text``.

    ``info`` has ``task``, the sample id; ``pictures``, uint8 [H, W, 3] with a note each; and at the
    end ``parts``, the parts of the reward by name.

    Args:
        profile: name or file of the profile whose models answer tool calls.
        reasoner: what to use instead of the profile, for several environments of one process.
    """

    def __init__(
        self,
        tasks: Tasks,
        rules: Rules | None = None,
        profile: str = "auto",
        reasoner: Reasoner | None = None,
    ) -> None:
        self.action_space = AnyText(MOST_TEXT, min_length=0)
        self.observation_space = gymnasium.spaces.Dict({"text": AnyText(MOST_TEXT, min_length=0)})
        self._tasks, self._rules, self._owns_reasoner = tasks, rules, reasoner is None
        self._reasoner = reasoner or Reasoner(load_profile(profile), preload=False)
        self._episode = Episode(tasks[0], self._reasoner, rules)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Begin a task and return its query.

        Args:
            seed: number of the task, taken modulo the number of tasks. Without it the task is a
                random one, which follows from the last seed.
            options: ``{"task": 7}`` begins task 7.

        Raises:
            UsageError: there is no such task.
        """
        super().reset(seed=seed)
        count = self._tasks.drawn
        number = int(self.np_random.integers(count)) if seed is None else seed % count
        self._episode.close()
        task = self._tasks[(options or {}).get("task", number)]
        self._episode = Episode(task, self._reasoner, self._rules)
        return self._seen(self._episode.reset())

    def step(self, action: str) -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        """Run code. An episode without an answer is truncated after its last turn.

        Raises:
            UsageError: the environment was not reset.
        """
        observation = self._episode.act(action)
        text, info = self._seen(observation)
        if not observation.done:
            return text, 0.0, False, False, info
        reward, answered = self._episode.reward(), self._episode.answer is not None
        return text, reward.total, answered, not answered, {**info, "parts": dict(reward.parts)}

    def close(self) -> None:
        """End the processes of the sandbox."""
        self._episode.close()
        if self._owns_reasoner:
            self._reasoner.close()

    def _seen(self, observation: EpisodeObservation) -> tuple[dict[str, str], dict[str, Any]]:
        pictures = [(picture.pixels.copy(), note) for picture, note in observation.pictures]
        name = self._episode.task.sample.sample_id
        return {"text": observation.text}, {"task": name, "pictures": pictures}


gymnasium.register("viper/Episode-v0", EpisodeEnv)
