"""Episodes as an OpenEnv environment, which ``viper env serve`` runs.

``reset(seed=7)`` begins task 7, ``step({"code": …})`` runs code. Each session (websocket) has an
episode of its own; all share the models.

Source: openenv 0.10.0, ``Environment`` and ``create_app``.
"""

from __future__ import annotations

import secrets
from asyncio import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_app
from starlette.types import ASGIApp, Receive, Scope, Send

from viper.env.episode import Episode, EpisodeObservation, Rules
from viper.env.tasks import Tasks
from viper.errors import UsageError
from viper.reasoner import Reasoner
from viper.serve.gate import AccessRules, Gate, refused_in_json
from viper.serve.settings import ServeSettings


class Code(Action):
    """Code to run."""

    code: str


class Result(Observation):
    """The query at the start, later the result of the code; ``reward`` comes at the end.

    Attributes:
        pictures: ``note`` and ``uri`` of each picture, the ``data:`` URI of a PNG file.
        parts: the parts of the reward by name.
    """

    text: str
    pictures: list[dict[str, str]] = []
    parts: dict[str, float] = {}


class EpisodeEnvironment(Environment[Code, Result, State]):
    """The episodes of a session, one after another.

    Attributes:
        state: also ``task`` and ``sample_id`` of the episode, and never its answer.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def __init__(self, tasks: Tasks, reasoner: Reasoner, rules: Rules) -> None:
        super().__init__()
        self._tasks, self._reasoner, self._rules = tasks, reasoner, rules
        self._episode: Episode | None = None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **more: Any) -> Result:
        """Begin a task and return its query.

        Args:
            seed: number of the task; a random one without it.

        Raises:
            UsageError: there is no such task, or an argument is unknown.
        """
        if more or type(seed) not in (int, type(None)):
            raise UsageError(f"reset takes seed, a number, and episode_id; not {more or seed!r}")
        number = secrets.randbelow(self._tasks.drawn) if seed is None else seed
        task = self._tasks[number]
        self.close()
        name = episode_id or secrets.token_hex(8)
        self.state = State(episode_id=name, task=number, sample_id=task.sample.sample_id)
        self._episode = Episode(task, self._reasoner, self._rules)
        return _result(self._episode.reset())

    def step(self, action: Code, timeout_s: float | None = None, **_: Any) -> Result:
        """Run code. The sandbox bounds its time, whatever ``timeout_s`` says.

        Raises:
            UsageError: no episode runs.
        """
        if self._episode is None:
            raise UsageError("no episode runs; reset the session")
        result = _result(self._episode.act(action.code))
        self.state.step_count += 1
        if result.done:
            reward = self._episode.reward()
            result.reward, result.parts = reward.total, dict(reward.parts)
            self.close()
        return result

    def close(self) -> None:
        """End the process of the code."""
        if self._episode is not None:
            self._episode.close()
        self._episode = None


def _result(seen: EpisodeObservation) -> Result:
    pictures = [{"note": note, "uri": picture.data_uri()} for picture, note in seen.pictures]
    return Result(text=seen.text, pictures=pictures, done=seen.done)


def guarded_app(
    tasks: Tasks, reasoner: Reasoner, rules: Rules, settings: ServeSettings, sessions: int
) -> ASGIApp:
    """Build the application of a server, which refuses the callers that ``viper serve`` refuses.

    Args:
        sessions: greatest number of sessions at the same time.
    """
    make = partial(EpisodeEnvironment, tasks, reasoner, rules)
    app: ASGIApp = create_app(make, Code, Result, "viper", max_concurrent_envs=sessions)
    gate = Gate(app, AccessRules.to_service(settings), refuse=refused_in_json)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(CancelledError):  # the server ends while code runs
            await gate(scope, receive, send)

    return guarded
