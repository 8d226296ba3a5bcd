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

from openenv.core import env_server
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from viper.env.episode import Episode, Observation, Rules
from viper.env.tasks import DRAWN, Tasks
from viper.errors import UsageError
from viper.reasoner import Reasoner
from viper.serve.auth import Gatekeeper
from viper.serve.edge import error_response
from viper.serve.refusals import Refusal
from viper.serve.settings import ServeSettings


class Code(env_server.Action):
    """Code to run."""

    code: str


class Shown(BaseModel):
    """A picture, as the ``data:`` URI of a PNG file."""

    note: str
    uri: str


class Result(env_server.Observation):
    """The query at the start, later the result of the code; ``reward`` comes at the end.

    Attributes:
        parts: the parts of the reward by name.
    """

    text: str
    pictures: list[Shown] = []
    parts: dict[str, float] = {}


class EpisodeState(env_server.State):
    """The task of the session, without its answer."""

    task: int | None = None
    sample_id: str | None = None


class EpisodeEnvironment(env_server.Environment[Code, Result, EpisodeState]):
    """The episodes of a session, one after another."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: Tasks, reasoner: Reasoner, rules: Rules) -> None:
        super().__init__()
        self._tasks, self._reasoner, self._rules = tasks, reasoner, rules
        self._episode: Episode | None = None
        self._state = EpisodeState()
        self._done = False

    def reset(self, seed: int | None = None, episode_id: str | None = None, **more: Any) -> Result:
        """Begin a task and return its query.

        Args:
            seed: number of the task; a random one without it.

        Raises:
            UsageError: there is no such task, or an argument is unknown.
        """
        if more or type(seed) not in (int, type(None)):
            raise UsageError(f"reset takes seed, a number, and episode_id; not {more or seed!r}")
        self.close()
        number = secrets.randbelow(self._tasks.count or DRAWN) if seed is None else seed
        task = self._tasks[number]
        self._state = EpisodeState(
            episode_id=episode_id or secrets.token_hex(8),
            task=number,
            sample_id=task.sample.sample_id,
        )
        self._episode, self._done = Episode(task, self._reasoner, self._rules), False
        return self._result(self._episode.reset())

    def step(self, action: Code, timeout_s: float | None = None, **_: Any) -> Result:
        """Run code. The sandbox bounds its time, whatever ``timeout_s`` says.

        Raises:
            UsageError: the session was not reset.
        """
        if self._episode is None:
            raise UsageError("the session has no episode; reset it first")
        was_done = self._done
        observation = self._episode.act(action.code)
        self._done, self._state.step_count = observation.done, self._state.step_count + 1
        result = self._result(observation)
        if observation.done and not was_done:
            reward = self._episode.reward()
            result.reward, result.parts = reward.total, dict(reward.parts)
        return result

    def _result(self, observation: Observation) -> Result:
        pictures = [Shown(note=note, uri=one.data_uri()) for one, note in observation.pictures]
        return Result(text=observation.text, pictures=pictures, done=observation.done)

    @property
    def state(self) -> EpisodeState:
        """Return the state of the session."""
        return self._state

    def close(self) -> None:
        """End the process of the code."""
        if self._episode is not None:
            self._episode.close()
        self._episode = None


def guarded_app(
    tasks: Tasks, reasoner: Reasoner, rules: Rules, settings: ServeSettings, sessions: int
) -> ASGIApp:
    """Build the application of a server, which refuses the callers that ``viper serve`` refuses.

    Args:
        sessions: greatest number of sessions at the same time.
    """
    make = partial(EpisodeEnvironment, tasks, reasoner, rules)
    app: ASGIApp = env_server.create_app(
        make, Code, Result, "viper", max_concurrent_envs=sessions, state_cls=EpisodeState
    )
    gatekeeper = Gatekeeper(settings)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        answer = app
        if scope["type"] != "lifespan":
            try:
                gatekeeper.check(scope["path"], Headers(scope=scope))
            except Refusal as refusal:
                answer = error_response(refusal, secrets.token_hex(8))
        with suppress(CancelledError):  # the server ends while code runs
            await answer(scope, receive, send)

    return guarded
