"""An episode: code acts on one task in a sandbox session until it stores an answer.

:meth:`Episode.reset` opens the session and gives the query with the instructions
(:func:`opening`), :meth:`Episode.act` runs code in it and reads the answer that the code stores,
and :meth:`Episode.reward` weighs the parts of the reward. The modules beside this one are its faces
for TRL, OpenEnv, verifiers and Gymnasium.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from viper.env.tasks import EnvTask
from viper.errors import UsageError
from viper.models.llm.messages import Picture
from viper.models.media import media_from
from viper.prompting.builder import entry_point
from viper.prompting.exploring import FINAL, asked
from viper.prompting.router import overview
from viper.prompting.template import MODULE_NAMES, fill
from viper.reasoner import Reasoner, RunOptions
from viper.sandbox import Sandbox, ToolClient
from viper.schema import Answer, Failure, Query, ToolCall
from viper.strategies.answers import read_answer, wrong_type
from viper.strategies.base import Components
from viper.strategies.explore.environment import OPENING, Environment
from viper.strategies.program import ENTRY, program_arguments
from viper.strategies.prompts import names_for, pictures_and_caption
from viper.tools.tool_functions import TOOL_FUNCTIONS

# Most other scenes on which code is verified: a constant answer to a yes/no query passes all of
# eight by luck once in 256 times, and each costs a process.
CASES = 8

ENDED = "The episode has ended."

# Policies that learned from programs define a function; it is called for them.
_DEFINES_ENTRY = re.compile(rf"^def {ENTRY}\(", re.MULTILINE)


@dataclass(frozen=True)
class RewardWeights:
    """Weight of each part of a reward. A part with weight 0 is left out.

    Attributes:
        answer: the score of the data set's metric.
        kind: the answer is of the kind that the query asks for, right or wrong.
        calls: share of the allowed tool calls that were not made, times the score.
        verified: the code answers rightly about other scenes too, times the score. It needs a set
            whose scenes are known.

    Raises:
        UsageError: a negative weight, or none above 0.
    """

    answer: float = 1.0
    kind: float = 0.1
    calls: float = 0.0
    verified: float = 0.0

    @classmethod
    def of(cls, text: str) -> RewardWeights:
        """Return the weights that a text such as ``answer=1,kind=0.1`` changes.

        Raises:
            UsageError: the text is no list of parts with numbers, or no such weights exist.
        """
        try:
            return cls(**{k: float(v) for k, v in (pair.split("=") for pair in text.split(","))})
        except (TypeError, ValueError):
            known = ", ".join(part.name for part in fields(cls))
            raise UsageError(f"weights {text!r}: write PART=NUMBER,… with {known}") from None

    def __post_init__(self) -> None:
        values = self.each.values()
        if not all(0 <= value < math.inf for value in values) or not any(values):
            raise UsageError(f"weights {dict(self.each)}: give finite values from 0, one above 0")

    @property
    def each(self) -> Mapping[str, float]:
        """Return the weights by name."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def reward(self, parts: Mapping[str, float]) -> Reward:
        """Return the reward of these parts: their mean by weight."""
        total = sum(self.each[name] * value for name, value in parts.items())
        return Reward(total / sum(self.each.values()), dict(parts))


@dataclass(frozen=True)
class Reward:
    """A reward in [0, 1] and its parts by name, each in [0, 1]."""

    total: float
    parts: Mapping[str, float]


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

    # To look, to correct an error and to answer, with one to spare.
    turns: int = 4
    calls: int = 20
    exact: bool = False
    api: str | None = None
    instructions: int = 6_000
    weights: RewardWeights = field(default_factory=RewardWeights)

    def __post_init__(self) -> None:
        if self.turns < 1 or self.calls < 1 or self.instructions < 0:
            raise UsageError("turns and calls are at least 1, instructions at least 0")


@dataclass(frozen=True)
class EpisodeObservation:
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

    def __init__(self, task: EnvTask, reasoner: Reasoner, rules: Rules | None = None) -> None:
        self.task, self.rules = task, rules or Rules()
        self.answer: Answer | None = None
        self._reasoner = reasoner
        self._environment: Environment | None = None
        self._codes: list[str] = []
        self._done = True

    def reset(self) -> EpisodeObservation:
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
            assert exact is not None  # whoever knows other scenes knows this one
            media, components = exact.media, with_exact_tools(components, exact.tools)
        options = RunOptions(sample.task, sample.options, sample_id=sample.sample_id, api=rules.api)
        media = media or media_from(sample.load())
        self._context, _ = self._reasoner.context(media, sample.text, options)
        context = self._context
        self._environment = Environment(components, context)
        self._codes, self.answer, self._done = [], None, False
        pictures, caption = pictures_and_caption(context.media)
        text = opening(context.query, components, context.settings.api, rules)
        return EpisodeObservation(text, tuple((picture, caption) for picture in pictures))

    def act(self, code: str) -> EpisodeObservation:
        """Run code and return its result. An ended episode stays as it is.

        Raises:
            UsageError: the episode was not reset.
        """
        if self._environment is None:
            raise UsageError("the episode has not begun; call reset first")
        if self._done:
            return EpisodeObservation(ENDED, done=True)
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
        return EpisodeObservation(text, result.pictures, self._done)

    def reward(self) -> Reward:
        """Return the reward of the answer so far, which is 0 without one."""
        weights, score = self.rules.weights, self.task.score(self.answer)
        answer, components = self.answer, self._reasoner.components
        settings, unused = components.toolbox.settings, 1 - len(self.calls) / self.rules.calls
        parts: dict[str, float] = {
            "answer": score,
            "kind": answer is not None and not wrong_type(answer, self._context.query, settings),
            "calls": score * max(0.0, unused),
        }
        if weights.verified:  # takes a process for each other scene
            verified = score and is_verified(self.task, self._codes, components.sandbox)
            parts["verified"] = score * verified
        return weights.reward({n: float(parts[n]) for n, w in weights.each.items() if w})

    def close(self) -> None:
        """End the process of the code."""
        if self._environment is not None:
            self._environment.close()
        self._environment, self._done = None, True

    @property
    def calls(self) -> Sequence[ToolCall]:
        """Return the tool calls so far."""
        return [] if self._environment is None else self._environment.tools.calls


def opening(query: Query, components: Components, api: str, rules: Rules) -> str:
    """Return the text of the first observation: the query, and the instructions before it."""
    if not rules.instructions:
        return asked(query)
    values = {
        "variables": fill(f"variables_{query.media}", {}).strip(),
        "final": FINAL,
        "turns": str(rules.turns),
        "modules": MODULE_NAMES,
        "asked": asked(query),
    }
    room = rules.instructions - len(fill("act", {**values, "api": ""}))
    entries, _ = names_for(components, query, components.settings, api)
    return fill("act", {**values, "api": overview(entries, query.text, room)})


def with_call(code: str, media: str) -> str:
    """Return code that stores the answer of the program which it defines, if it is one."""
    if FINAL in code or not _DEFINES_ENTRY.search(code):
        return code
    call = entry_point("choice" if media == "video" else "question", media)
    return f"{code.rstrip()}\n{FINAL} = {call}"


def with_exact_tools(components: Components, client: ToolClient) -> Components:
    """Return components whose tools that ask models are answered by a client."""

    def answered(name: str) -> Callable[..., Any]:
        return lambda _session, *args, **kwargs: client.call(name, args, kwargs, None)

    exact = {name: answered(name) for name in TOOL_FUNCTIONS}
    toolbox = components.toolbox
    return replace(components, toolbox=toolbox.with_tools({**toolbox.tools, **exact}))


def is_verified(task: EnvTask, codes: Sequence[str], sandbox: Sandbox) -> bool:
    """Return whether the code of some turns answers rightly about other scenes.

    Raises:
        UsageError: the scene of the task is not known.
    """
    query, cases = task.sample.query, task.scenes.cases(CASES)
    for case, target in cases:
        with sandbox.session(tools=case.tools) as session:
            session.run(OPENING[query.media], args=program_arguments(query, case.media))
            for code in codes:
                session.run(code, shows=True)
            stored = session.run(FINAL, shows=True)
        answer = read_answer(stored.value, query, case.media) if stored.ok else None
        if task.score(answer if isinstance(answer, Answer) else None, target) != 1:
            return False
    return bool(cases)
