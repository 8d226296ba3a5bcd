"""The records that pass between layers: frozen, serialisable, versioned.

Coordinates. Inside programs the y axis points up: a :class:`Box` holds ``left,
lower, right, upper`` in pixels of the original image with ``lower < upper`` and
``lower == 0`` at the bottom edge. Everything that leaves the program (JSON,
pictures, metrics) is ``[x0, y0, x1, y1]`` in pixels from the top-left corner.
:meth:`Box.to_pixels` and :meth:`Box.from_pixels` are the only conversion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

SCHEMA_VERSION = 1

Task = Literal["ground", "question", "choice", "statement", "edit", "tag", "auto"]
TASKS: tuple[str, ...] = ("ground", "question", "choice", "statement", "edit", "tag", "auto")

MediaKind = Literal["image", "images", "video"]

FailureKind = Literal[
    "syntax",
    "forbidden",
    "runtime",
    "tool",
    "below_threshold",
    "return_type",
    "timeout",
    "memory",
    "recursion",
    "output",
    "tool_budget",
    "protocol",
    "crash",
    "budget",
    "plan",
]

Correction = Literal["first", "self_debug", "self_debug_feedback", "self_tune", "fallback"]

FALLBACKS: tuple[str, ...] = ("none", "vipergpt")
"""What answers where every trial failed; see :mod:`viper.strategies.end_to_end`."""

RETRIEVALS: tuple[str, ...] = ("fixed", "bm25", "embeddings")
"""How in-context examples are chosen."""

EXAMPLE_ORDERS: tuple[str, ...] = ("rising", "falling")

PromptStyle = Literal["compact", "full", "chat"]
PROMPT_STYLES: tuple[str, ...] = get_args(PromptStyle)
"""Compact prompts are for small writers, full or chat ones for large ones."""

RANKERS: tuple[str, ...] = ("bm25", "embeddings")
"""How a router ranks the names of a large API."""

MAX_VOTES = 25

PixelBox = tuple[float, float, float, float]
"""``(x0, y0, x1, y1)``: pixels from the top-left corner, x1 and y1 exclusive."""


@dataclass(frozen=True)
class Box:
    """A rectangle in the program's coordinates: y points up, ``lower < upper``."""

    left: float
    lower: float
    right: float
    upper: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.upper - self.lower

    def to_pixels(self, image_height: float) -> PixelBox:
        """``(x0, y0, x1, y1)`` from the top-left corner of an image of that height."""
        return (self.left, image_height - self.upper, self.right, image_height - self.lower)

    @classmethod
    def from_pixels(cls, box: Sequence[float], image_height: float) -> Box:
        """The inverse of :meth:`to_pixels`."""
        x0, y0, x1, y1 = box
        return cls(x0, image_height - y1, x1, image_height - y0)


@dataclass(frozen=True)
class Query:
    """One question about one set of media.

    Attributes:
        text: the question as the user wrote it.
        task: what must come out; never ``auto`` once the Reasoner has resolved it.
        media: what the program gets: one image, several images, or one video.
        options: the candidate answers of a ``choice``; empty otherwise.
        sample_id: name of the sample in its data set, or None.
    """

    text: str
    task: str = "auto"
    media: str = "image"
    options: tuple[str, ...] = ()
    sample_id: str | None = None


@dataclass(frozen=True)
class Failure:
    """Why a program gave no valid answer. Self-correction reads this, never a message.

    ``line`` counts from 1 in the program as the author wrote it. ``tool``,
    ``parameter`` and ``call_index`` are set where a tool call is to blame
    (kinds ``tool``, ``below_threshold``, ``tool_budget``).
    """

    kind: str
    message: str
    line: int | None = None
    source_line: str | None = None
    function: str | None = None
    exception: str | None = None
    tool: str | None = None
    parameter: str | None = None
    call_index: int | None = None


@dataclass(frozen=True)
class ToolCall:
    """One call that crossed from a program to the parent.

    ``rejected_by`` names the threshold that emptied or refused the result
    (``detector.threshold``), ``shortened_by`` one that left some candidates out of it, else
    None. ``judged_by`` names the threshold that candidates were held against, if any, and
    ``scores`` are theirs, the best ones first. ``taught`` names what the tool had learned that had
    a part in the result, as ``loc: pyramid``. ``args`` and ``result`` are JSON values.
    """

    index: int
    tool: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    seconds: float
    cached: bool = False
    rejected_by: str | None = None
    shortened_by: str | None = None
    judged_by: str | None = None
    scores: tuple[float, ...] = ()
    error: str | None = None
    line: int | None = None
    taught: tuple[str, ...] = ()


@dataclass(frozen=True)
class Usage:
    """What a run cost. ``model_calls`` counts forward passes of vision models.

    ``cost_usd`` is what writing its programs cost, in US dollars: 0 where all came from the
    response cache, None where no price is known. What failed requests cost is not known and
    not in it, nor what tools asked of the language model.
    """

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_calls: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True)
class Trial:
    """One program run: what was written, what happened, with which thresholds.

    ``program`` is empty where the strategy writes none, and for a fallback. ``writing`` is what the
    requests for it cost, redrawn ones among them; nothing where the program before ran again.
    ``plan`` are the numbered steps that the program was written from, one a line, and
    ``plan_prompt`` what the planner was asked; None where the strategy plans nothing.
    ``demonstrations`` are the ids of those that either prompt showed, each once, in their order.
    """

    index: int
    program: str
    correction: str
    ok: bool
    failure: Failure | None
    thresholds: Mapping[str, float]
    tool_calls: tuple[ToolCall, ...]
    stdout: str
    seconds: float
    seed: int | None = None
    temperature: float | None = None
    prompt: str | None = None
    writing: Usage = Usage()
    writing_seconds: float = 0.0
    plan: str | None = None
    plan_prompt: str | None = None
    demonstrations: tuple[str, ...] = ()


TurnKind = Literal["code", "thought", "done", "unreadable", "forced"]


@dataclass(frozen=True)
class Turn:
    """One turn of strategy ``explore``: an action, and what the environment answered.

    Source: DWIM (2025), supplement, sec. 6, for the actions.

    Attributes:
        index: counts from 0 in the query.
        kind: the action; ``unreadable`` where none could be read, ``forced`` the end at a bound.
        text: the code, the thought, what was written and not understood, or why it was forced.
        result: what came back, as the agent read it; "" where nothing does.
        failure: of code that failed.
        calls: indices of the tool calls that the code made, in the trial's log.
        value: what its last line was worth, or the answer of ``done`` and ``forced``; JSON.
        writing: what the request for it cost; nothing for a turn that the agent did not write.
        by: ``agent``, or ``checker`` for a thought that doubts a result.
    """

    index: int
    kind: str
    text: str = ""
    result: str = ""
    failure: Failure | None = None
    calls: tuple[int, ...] = ()
    value: Any = None
    seconds: float = 0.0
    writing: Usage = Usage()
    by: str = "agent"


@dataclass(frozen=True)
class Answer:
    """What a run answered.

    ``value`` is JSON: str, bool, number or None; for a box see ``box`` (pixels
    from the top-left corner) and ``image_index``. ``choice_index`` counts from 0. Tags are a
    list of ``{"box", "label"}``; of a picture ``value`` holds the name by which the media of the
    run know it (``picture``), ``width`` and ``height``.
    """

    value: Any
    kind: str
    choice_index: int | None = None
    box: PixelBox | None = None
    image_index: int | None = None
    info: Any = None


@dataclass(frozen=True)
class Trace:
    """Everything that happened for one query; what stores, viewers and mining read.

    ``left_out`` names what a router kept out of the prompt of an API that outgrew its budget.
    ``fallback`` names what answered after every trial had failed (``average_box``, ``vqa``): the
    answer is then not the strategy's, and the failure that led to it is that of the trial before
    the last. ``failure`` is None wherever there is an answer. ``examples_shown`` are the sample ids
    of the examples in the last prompt, in its order; ``examples_left_out`` how many more were
    wanted than the model's context had room for. ``chosen`` is the index of the trial whose answer
    counts, None where there is no answer; ``votes`` are the answers of a run that voted, each with
    its count, the winner first. ``turns`` are those of strategy ``explore``; ``path`` the steps of
    strategy ``seek``; ``parts`` what a strategy of another package tells, by name.
    """

    query: Query
    task: str
    task_reason: str
    answer: Answer | None
    failure: Failure | None
    trials: tuple[Trial, ...]
    usage: Usage
    seconds: float
    strategy: str
    profile: str
    api: str
    seed: int
    path: tuple[Any, ...] = ()
    turns: tuple[Turn, ...] = ()
    left_out: tuple[str, ...] = ()
    fallback: str | None = None
    examples_shown: tuple[str, ...] = ()
    examples_left_out: int = 0
    chosen: int | None = None
    votes: tuple[tuple[str, int], ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    @property
    def answering(self) -> Trial | None:
        """The trial whose answer counted, else the last that has a program."""
        if self.chosen is not None and self.trials[self.chosen].program:
            return self.trials[self.chosen]
        written = [trial for trial in self.trials if trial.program]
        return written[-1] if written else None

    @property
    def program(self) -> str | None:
        """The program that gave the answer, else the last one tried; None if none was written."""
        if self.chosen is not None and self.trials[self.chosen].program:
            return self.trials[self.chosen].program
        written = [trial for trial in self.trials if trial.program]
        answered = [trial for trial in written if trial.ok]
        return (answered or written)[-1].program if written else None

    @property
    def plan(self) -> str | None:
        """The plan of :attr:`program`; None if none was made."""
        if self.chosen is not None and self.trials[self.chosen].plan is not None:
            return self.trials[self.chosen].plan
        planned = [trial for trial in self.trials if trial.plan is not None]
        answered = [trial for trial in planned if trial.ok]
        return (answered or planned)[-1].plan if planned else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the trial that gave the answer, else of the last one."""
        if not self.trials:
            return ()
        return self.trials[-1 if self.chosen is None else self.chosen].tool_calls


@dataclass(frozen=True)
class Example:
    """A solved (or deliberately wrong) query that a prompt may show.

    Source: Stanić et al. 2024, sec. 2.3 (ACEs); ``polarity`` and ``critique``
    serve the incorrect demonstrations of CLOVA.

    Attributes:
        task: as the language model is asked it.
        kind: type of the query in its data set, by which a bank stays varied.
        set: data set that the sample is from, as :func:`viper.data.registry.data_set` takes it.
        split: of that set.
        part: what it demonstrates, ``plan`` or ``program``; empty outside a demonstration pool.
    """

    __pydantic_config__ = {"extra": "forbid"}

    query: str
    program: str
    task: str
    api: str
    score: int | float
    sample_id: str
    seed: int
    llm: str
    api_hash: str
    plan: str | None = None
    options: tuple[str, ...] = ()
    critique: str | None = None
    polarity: Literal["correct", "incorrect"] = "correct"
    kind: str = ""
    set: str = ""
    split: str = ""
    part: Literal["", "plan", "program"] = ""
    schema: int = field(default=SCHEMA_VERSION)


def to_json(record: Any) -> Any:
    """A record (nested dataclasses, tuples, mappings) as plain JSON values."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {f.name: to_json(getattr(record, f.name)) for f in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {str(key): to_json(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [to_json(value) for value in record]
    return record
