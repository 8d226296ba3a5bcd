"""Episodes as an environment of TRL's ``GRPOTrainer``.

``GRPOTrainer(…, train_dataset=Dataset.from_dict({"task": range(1000)}),
environment_factory=partial(CodeEnvironment, tasks, reasoner))``: each row is the number of a task.

Source: TRL 1.16, ``GRPOTrainer.environment_factory``.
"""

from __future__ import annotations

from typing import Any

from viper.env.episode import Episode, EpisodeObservation, Rules
from viper.env.tasks import Tasks
from viper.reasoner import Reasoner

Content = str | list[dict[str, Any]]


class CodeEnvironment:
    """One rollout at a time; its public methods are the policy's tools, so it has only one.

    Args:
        sees: the policy takes pictures; observations are then lists of content blocks.
    """

    def __init__(
        self, tasks: Tasks, reasoner: Reasoner, rules: Rules | None = None, sees: bool = False
    ) -> None:
        self._tasks, self._reasoner, self._rules, self._sees = tasks, reasoner, rules, sees
        self._episode: Episode | None = None

    def reset(self, task: int, **_: Any) -> Content:
        """Begin the task of this number and return the first observation."""
        if self._episode is not None:
            self._episode.close()
        self._episode = Episode(self._tasks[task], self._reasoner, self._rules)
        return self._content(self._episode.reset())

    def run_code(self, code: str) -> Content:
        """Run Python code and return what it printed and the value of its last line.

        Args:
            code: The code. It ends the task when it stores the answer in final_answer.

        Returns:
            The result of the code.
        """
        assert self._episode is not None
        return self._content(self._episode.act(code))

    def get_reward(self) -> float:
        """Return the reward of the episode in [0, 1], and end the process of its code."""
        assert self._episode is not None
        reward = self._episode.reward().total
        self._episode.close()
        return reward

    def _content(self, observation: EpisodeObservation) -> Content:
        if not self._sees:
            return observation.text
        from PIL import Image

        blocks: list[dict[str, Any]] = []
        for picture, note in observation.pictures:
            blocks.append({"type": "image", "image": Image.fromarray(picture.pixels)})
            blocks += [{"type": "text", "text": note}] if note else []
        return [*blocks, {"type": "text", "text": observation.text}]
