"""An episode: code acts on one task in a sandbox session until it stores an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from viper.env.rewards import Reward, Weights
from viper.env.tasks import Task
from viper.errors import UsageError
from viper.models.llm.messages import Picture
from viper.models.media import media_from
from viper.prompting.exploring import FINAL, VARIABLES, asked
from viper.prompting.router import overview
from viper.prompting.template import MODULE_NAMES, fill
from viper.reasoner import Reasoner, RunOptions
from viper.sandbox import Sandbox, ToolClient
from viper.schema import Answer, Failure, Query, ToolCall
from viper.strategies.answers import read_answer
from viper.strategies.base import Components
from viper.strategies.explore.environment import OPENING, Environment
from viper.strategies.program import ENTRY, program_arguments, wrong_type
from viper.strategies.prompts import pictures_and_caption
from viper.strategies.verification import ExactInput
from viper.tools.tool_functions import TOOL_FUNCTIONS

# Most other scenes on which code is verified.
CASES = 8

ENDED = "The episode has ended."

_DEFINES_ENTRY = re.compile(rf"^def {ENTRY}\(", re.MULTILINE)
_CALLS = {
    "image": f"{ENTRY}(image)",
    "images": f"{ENTRY}(image_list)",
    "video": f"{ENTRY}(video, question, possible_answers)",
}


@dataclass(frozen=True)
class Rules:
    """Rules of episodes.

    Attributes:
        turns: number of actions after which the episode ends without an answer.
        calls: number of tool calls at which the part ``calls`` of the reward is 0.
        exact: tools that ask models make no mistake. It needs a set whose scenes are known.
        api: functions that code may call, as ``--api`` names them; None for the profile's.
        instructions: number of characters for the instructions and the API in the first
            observation; 0 leaves the query alone.
        weights: weights of the reward's parts.

    Raises:
        UsageError: a value is out of range.
    """

    turns: int = 4
    calls: int = 20
    exact: bool = False
    api: str | None = None
    instructions: int = 6_000
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        if self.turns < 1 or self.calls < 1 or self.instructions < 0:
            raise UsageError("turns and calls are at least 1, instructions at least 0")


@dataclass(frozen=True)
class Observation:
    """What the agent sees after an action, or at the start.

    Attributes:
        pictures: pictures with their notes: those of the query at the start, and later what the
            code showed.
    """

    text: str
    pictures: tuple[tuple[Picture, str], ...] = ()
    done: bool = False


class Episode:
    """One task, from :meth:`reset` to an answer.

    The agent's code runs in a sandbox process of its own and gets neither the right answer nor the
    reward. The same task and the same actions give the same observations and the same reward.

    Attributes:
        answer: the answer that the code stored, if it can be read.
    """

    def __init__(self, task: Task, reasoner: Reasoner, rules: Rules | None = None) -> None:
        self.task, self.rules = task, rules or Rules()
        self.answer: Answer | None = None
        self._reasoner = reasoner
        self._environment: Environment | None = None
        self._codes: list[str] = []
        self._done = True

    def reset(self) -> Observation:
        """Start from the beginning and return the query with the instructions.

        Raises:
            UsageError: the rules ask for exact tools or verification, and the scene is not known.
            MediaError: the media cannot be read.
        """
        self.close()
        sample, rules, components = self.task.sample, self.rules, self._reasoner.components
        if rules.weights.verified:
            _ = self.task.scenes
        media: Any = None
        if rules.exact:
            exact = self.task.scenes.exact()
            media, components = exact.media, with_exact_tools(components, exact.tools)
        options = RunOptions(sample.task, sample.options, sample_id=sample.sample_id, api=rules.api)
        context, _ = self._reasoner.context(
            media or media_from(sample.load()), sample.text, options
        )
        self._context = context
        self._environment = Environment(components, context)
        self._codes, self.answer, self._done = [], None, False
        pictures, caption = pictures_and_caption(context.media)
        text = opening(context.query, components, context.settings.api, rules)
        return Observation(text, tuple((picture, caption) for picture in pictures))

    def act(self, code: str) -> Observation:
        """Run code and return its result. An ended episode stays as it is.

        Raises:
            UsageError: the episode was not reset.
        """
        if self._environment is None:
            raise UsageError("the episode has not begun; call reset first")
        if self._done:
            return Observation(ENDED, done=True)
        code = with_call(code, self._context.query.media)
        result = self._environment.run(code)
        self._codes.append(code)
        text = result.text
        if FINAL in code:
            stored = self._environment.stored()
            answer = None if stored.value is None else self._environment.read(stored.value)
            if isinstance(answer, Failure):
                text = f"{text}\n{FINAL}: {answer.message}"
            self.answer = answer if isinstance(answer, Answer) else None
        self._done = self.answer is not None or len(self._codes) >= self.rules.turns
        return Observation(text, result.pictures, self._done)

    def reward(self) -> Reward:
        """Return the reward of the answer so far, which is 0 without one."""
        weights, score = self.rules.weights, self.task.score(self.answer)
        parts = {name: getattr(self, f"_{name}")(score) for name, w in weights.each.items() if w}
        return weights.reward(parts)

    def close(self) -> None:
        """End the process of the code."""
        if self._environment is not None:
            self._environment.close()
        self._environment, self._done = None, True

    @property
    def calls(self) -> Sequence[ToolCall]:
        """Return the tool calls so far."""
        return [] if self._environment is None else self._environment.tools.calls

    def _answer(self, score: float) -> float:
        return score

    def _kind(self, _: float) -> float:
        if self.answer is None:
            return 0.0
        settings = self._reasoner.components.toolbox.settings
        return float(wrong_type(self.answer, self._context.query, settings) is None)

    def _calls(self, score: float) -> float:
        return score * max(0.0, 1 - len(self.calls) / self.rules.calls)

    def _verified(self, score: float) -> float:
        return score and score * float(is_verified(self.task, self._codes, self._sandbox))

    @property
    def _sandbox(self) -> Sandbox:
        return self._reasoner.components.sandbox


def opening(query: Query, components: Components, api: str, rules: Rules) -> str:
    """Return the text of the first observation: the query, and the instructions before it."""
    if not rules.instructions:
        return asked(query)
    values = {
        "variables": VARIABLES[query.media],
        "final": FINAL,
        "turns": str(rules.turns),
        "modules": MODULE_NAMES,
        "asked": asked(query),
    }
    room = rules.instructions - len(fill("act", {**values, "api": ""}))
    entries = components.library.api_set(api).entries(query.task)
    return fill("act", {**values, "api": overview(entries, query.text, room)})


def with_call(code: str, media: str) -> str:
    """Return code that stores the answer of the program which it defines, if it is one."""
    if FINAL in code or not _DEFINES_ENTRY.search(code):
        return code
    return f"{code.rstrip()}\n{FINAL} = {_CALLS[media]}"


def with_exact_tools(components: Components, client: ToolClient) -> Components:
    """Return components whose tools that ask models are answered by a client."""
    exact = {name: partial(_ask, client, name) for name in TOOL_FUNCTIONS}
    toolbox = components.toolbox
    return replace(components, toolbox=toolbox.with_tools({**toolbox.tools, **exact}))


def _ask(client: ToolClient, name: str, _session: Any, *args: Any, **kwargs: Any) -> Any:
    return client.call(name, args, kwargs, None)


def is_verified(task: Task, codes: Sequence[str], sandbox: Sandbox) -> bool:
    """Return whether the code of some turns answers rightly about other scenes.

    Raises:
        UsageError: the scene of the task is not known.
    """
    cases = task.scenes.cases(CASES)
    return bool(cases) and all(
        task.score(_answer_about(case, task, codes, sandbox), target) == 1 for case, target in cases
    )


def _answer_about(
    case: ExactInput, task: Task, codes: Sequence[str], sandbox: Sandbox
) -> Answer | None:
    """Return the answer of code to exact media."""
    query = task.sample.query
    arguments: Mapping[str, Any] = program_arguments(query, case.media)
    with sandbox.session(tools=case.tools) as session:
        session.run(OPENING[query.media], args=arguments)
        for code in codes:
            session.run(code, shows=True)
        stored = session.run(FINAL, shows=True)
    answer = read_answer(stored.value, query, case.media) if stored.ok else None
    return answer if isinstance(answer, Answer) else None
