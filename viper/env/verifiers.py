"""Episodes as a taskset of verifiers, whose tool ``run_code`` an MCP server offers.

``vf-eval viper_episodes --env.taskset.split train:2`` plays them. One server for all rollouts holds
the models. It begins the episode of a rollout by the number of its task, and writes the reward to
the state of the rollout, where the task reads it.

Source: verifiers 0.4.0, ``Taskset``, ``Task`` and ``Toolset``.
"""

# Annotations are not postponed, because the server reads those of its tool.

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import verifiers.v1 as vf
from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent

from viper.env.episode import Episode, EpisodeObservation, Rules
from viper.env.tasks import Tasks
from viper.profiles import load_profile
from viper.reasoner import Reasoner

_NO_TURN = "The episode has ended, or the code before still runs."


class EpisodesConfig(vf.TasksetConfig, vf.SharedToolsetConfig):
    """Settings of the taskset and of its server.

    Attributes:
        pictures: show pictures to the model; False for a model that reads only text.
        sessions: greatest number of episodes that the server keeps, more than rollouts at the same
            time. The oldest one is ended.
    """

    data: str = "world-everyday"
    root: Path | None = None
    split: str | None = None
    seed: int = 0
    profile: str = "auto"
    rules: Rules = Rules()
    pictures: bool = True
    sessions: int = 256

    @property
    def tasks(self) -> Tasks:
        """Return the tasks."""
        return Tasks(self.data, root=self.root, split=self.split, seed=self.seed)

    @property
    def reasoner(self) -> Reasoner:
        """Return a reasoner whose models load on first use."""
        return Reasoner(load_profile(self.profile), preload=False)


class EpisodeData(vf.TaskData):
    """A task, without its answer, and the names of the reward's parts."""

    number: int
    parts: list[str]


class EpisodeState(vf.State):
    """State of a rollout, which its task and the server share."""

    rollout: str = ""
    number: int = 0
    begun: bool = False
    done: bool = False
    reward: float = 0.0
    parts: dict[str, float] = {}


class EpisodeTask(vf.Task[EpisodeData, EpisodeState]):
    """A task. A rollout that stops before its episode ends has the reward 0."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Write to the state which episode the server shall begin."""
        trace.state.rollout, trace.state.number = trace.id, self.data.number
        trace.state.parts = dict.fromkeys(self.data.parts, 0.0)

    @vf.stop
    async def ended(self, trace: vf.Trace) -> bool:
        """Return whether the episode has ended."""
        return trace.state.done

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        """Return the reward of the episode."""
        return trace.state.reward

    @vf.metric
    async def parts(self, trace: vf.Trace) -> dict[str, float]:
        """Return the parts of the reward by name."""
        return trace.state.parts


class CodeTool(vf.Toolset[EpisodesConfig, EpisodeState]):
    """The server of all rollouts."""

    TOOL_PREFIX = "viper"

    async def setup(self) -> None:
        """Open tasks and models."""
        self._tasks, self._reasoner = self.config.tasks, self.config.reasoner
        self._exit_stack.callback(self._reasoner.close)
        self._episodes: dict[str, Episode | None] = {}

    @vf.tool
    async def run_code(self, code: str) -> CallToolResult:
        """Run Python about the query; an answer in final_answer ends the episode."""
        state, episodes = self.state, self._episodes
        episode = episodes.get(state.rollout)
        if first := not state.begun and state.rollout not in episodes:
            episode = Episode(self._tasks[state.number], self._reasoner, self.config.rules)
        if episode is None:
            return CallToolResult(content=[TextContent(text=_NO_TURN)])
        state.begun, episodes[state.rollout] = True, None  # a call at the same time finds no turn
        if len(episodes) > self.config.sessions and (oldest := episodes.pop(next(iter(episodes)))):
            oldest.close()

        def act() -> EpisodeObservation:
            if first:
                episode.reset()
            seen = episode.act(code)
            if seen.done:
                reward = episode.reward()
                state.done, state.reward, state.parts = True, reward.total, dict(reward.parts)
                episode.close()
            else:
                episodes[state.rollout] = episode
            return seen

        seen = await asyncio.to_thread(act)
        content: list[ContentBlock] = [TextContent(text=seen.text)]
        for picture, note in seen.pictures if self.config.pictures else ():
            data = picture.data_uri().partition(",")[2]
            content += TextContent(text=note), ImageContent(data=data, mime_type="image/png")
        return CallToolResult(content=content)


class Episodes(vf.Taskset[EpisodeTask, EpisodesConfig]):
    """The tasks of a data set by number, endlessly if it has no end."""

    def __init__(self, config: EpisodesConfig) -> None:
        super().__init__(config)
        self.INFINITE = config.tasks.count is None

    def load(self) -> Iterator[EpisodeTask]:
        """Yield the tasks, each with the opening of its episode as the prompt."""
        rules, tasks = self.config.rules, self.config.tasks
        parts = [name for name, weight in rules.weights.each.items() if weight]
        with self.config.reasoner as reasoner:
            for number in count() if tasks.count is None else range(tasks.count):
                episode = Episode(tasks[number], reasoner, rules)
                opening = episode.reset()
                episode.close()
                shown: list[vf.ContentPart] = []
                for picture, note in opening.pictures if self.config.pictures else ():
                    source = vf.ImageUrlSource(url=picture.data_uri())
                    shown += vf.TextContentPart(text=note), vf.ImageUrlContentPart(image_url=source)
                shown.append(vf.TextContentPart(text=opening.text))
                name, prompt = episode.task.sample.sample_id, [vf.UserMessage(content=shown)]
                data = EpisodeData(id=name, prompt=prompt, number=number, parts=parts)
                yield EpisodeTask(data, self.config.task)

    @classmethod
    def toolsets(cls, config: EpisodesConfig) -> list[CodeTool]:
        """Return the server."""
        return [CodeTool(config)]


if __name__ == "__main__":
    CodeTool.run()
