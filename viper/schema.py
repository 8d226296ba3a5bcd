"""The records that pass between layers: frozen, serialisable and versioned.

A :class:`Trace` records one :class:`Query` with its trials and tool calls;
:func:`to_json` writes any record, :mod:`viper.record` reads it.

Coordinates. Inside programs the y axis points up: a :class:`Box` holds ``left, lower, right,
upper`` in pixels of the original image with ``lower < upper`` and ``lower == 0`` at the bottom
edge. Outside programs (JSON, pictures, metrics) a box is ``[x0, y0, x1, y1]`` in pixels from the
top-left corner. :meth:`Box.to_pixels` and :meth:`Box.from_pixels` are the only conversion.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

# Stands in every record, so that a later form can tell this one; new optional fields need no other.
SCHEMA_VERSION = 1

Task = Literal["ground", "question", "choice", "statement", "edit", "tag", "extract", "auto"]
TASKS: tuple[str, ...] = get_args(Task)

# Fallbacks that answer if every trial failed; see :mod:`viper.strategies.end_to_end`.
FALLBACKS: tuple[str, ...] = ("none", "vipergpt")

# The paper's abstract API and what is ours: for every profile that says nothing else.
DEFAULT_API = "abstract+more"

# Ways to choose in-context examples.
RETRIEVALS: tuple[str, ...] = ("fixed", "bm25", "embeddings")

EXAMPLE_ORDERS: tuple[str, ...] = ("rising", "falling")

PromptStyle = Literal["compact", "full", "chat"]
# Prompt styles: compact for small program writers, full or chat for large ones.
PROMPT_STYLES: tuple[str, ...] = get_args(PromptStyle)

# Rankings by which a router orders the names of a large API.
RANKERS: tuple[str, ...] = ("bm25", "embeddings")

# Each vote may cost as many programs as trials are allowed; 25 votes decide any realistic split.
MAX_VOTES = 25

# ``(x0, y0, x1, y1)``: pixels from the top-left corner, x1 and y1 exclusive.
PixelBox = tuple[float, float, float, float]


def _unstored() -> Any:
    """Declare a field that JSON leaves out; pydantic reads ``exclude`` as :func:`to_json` does."""
    return field(default=None, repr=False, compare=False, metadata={"exclude": True})


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
        """Return ``(x0, y0, x1, y1)`` from the top-left corner of an image of the given height."""
        return (self.left, image_height - self.upper, self.right, image_height - self.lower)

    @classmethod
    def from_pixels(cls, box: Sequence[float], image_height: float) -> Box:
        """Return the box of ``(x0, y0, x1, y1)``; the inverse of :meth:`to_pixels`."""
        x0, y0, x1, y1 = box
        return cls(x0, image_height - y1, x1, image_height - y0)


@dataclass(frozen=True)
class Query:
    """One question about one set of media.

    Attributes:
        text: the question as the user wrote it.
        task: kind of answer; never ``auto`` once the Reasoner has resolved it.
        media: kind of media: one image, several images, or one video.
        options: the candidate answers of a ``choice``; empty otherwise.
        sample_id: name of the sample in its data set, or None.
        like: boxes that the user marked as examples; programs get them as ``marked``.
        fields: what an ``extract`` reads, each as ``name:type``; empty otherwise. See
            :func:`viper.api.written.field_types`.
    """

    text: str
    task: str = "auto"
    media: str = "image"
    options: tuple[str, ...] = ()
    sample_id: str | None = None
    like: tuple[PixelBox, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """The reason why a program gave no valid answer. Self-correction reads this, never a message.

    Kinds are those of the sandbox (docs/sandbox.md), ``below_threshold``, ``budget`` and ``plan``;
    ``unavailable`` if an endpoint kept failing;
    ``api`` if a program to verify misuses the API; ``wrong_type`` if the answer is not of the kind
    that the question asks for; ``outside_domain`` or ``abstained`` if the answer was withheld;
    and ``refusal``, ``truncated`` and ``no_program`` if the language model's reply held no program.
    ``line`` counts from 1 in the program as the author wrote it. ``tool``, ``parameter`` and
    ``call_index`` are set if a tool call caused the failure (kinds ``tool``, ``below_threshold``,
    ``tool_budget``). ``name`` is the missing name of an AttributeError or NameError, ``owner`` the
    type of the object without it. ``advice`` is for the people who run the query, such as a setting
    to change; the message that the program's writer gets is without it.
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
    name: str | None = None
    owner: str | None = None
    advice: str | None = None

    @property
    def explained(self) -> str:
        """Return the message with the advice, for people."""
        return f"{self.message}; {self.advice}" if self.advice else self.message


@dataclass(frozen=True)
class ToolCall:
    """One call that crossed from a program to the parent.

    ``rejected_by`` names the threshold that emptied or refused the result (``detector.threshold``),
    ``shortened_by`` the threshold that removed some candidates from it; both are None otherwise.
    ``judged_by`` names the threshold that candidates were compared with, if any, and ``scores``
    holds their scores, best first. ``taught`` names the learned soft prompts that had a part in the
    result, such as ``loc: pyramid``. ``note`` says what a model's reply held that the result leaves
    out, "" for nothing. ``unknown`` is the phrase that a detector has no category for, else "".
    ``args`` and ``result`` are JSON values.
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
    note: str = ""
    unknown: str = ""


@dataclass(frozen=True)
class Usage:
    """The cost of a run. ``model_calls`` counts forward passes of vision models.

    Requests to language models count whoever sends them: the strategy, or a tool that a program
    calls. ``cost_usd`` is their cost in US dollars: 0 if every reply came from the response cache,
    None if no price is known. It excludes failed requests, whose cost is unknown.
    """

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_calls: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True)
class Trial:
    """One run of one program: its text, its result and its thresholds.

    ``program`` is empty if the strategy or the language model wrote none, and for a fallback;
    ``reply`` then holds the words that the model wrote instead. ``logprob`` is the log-probability
    of the model's text, where its backend knows it.
    ``writing`` is the cost of the requests for it, repeated ones included; it is zero if the
    previous program ran again.
    ``plan`` holds the numbered steps that the program was written from, separated by newlines.
    ``plan_prompt`` is the prompt of the planner. Both are None if the strategy has no plan.
    ``demonstrations`` holds the ids of the demonstrations in either prompt, each once, in their
    order. ``rests_on_nothing`` holds the indices of calls that found nothing and whose result may
    have reached the answer. ``sizes`` holds (width, height) of each picture by name, by which
    references become boxes from the top-left corner; see :func:`viper.record.outside`.

    ``answer`` and ``value`` are not stored, because the trace holds the answer of the run:
    ``answer`` is that of this trial, and ``value`` what its program returned, with arrays and
    references; a finished trace has no values. Nor is ``missed``, which tells self-tuning the
    highest lower value of each threshold that may change a call's result; None if nobody noted it.
    """

    index: int
    program: str
    correction: str
    ok: bool
    failure: Failure | None
    thresholds: Mapping[str, float]
    tool_calls: tuple[ToolCall, ...] = field(repr=False)
    stdout: str
    seconds: float
    seed: int | None = None
    temperature: float | None = None
    prompt: str | None = field(default=None, repr=False)
    writing: Usage = Usage()
    writing_seconds: float = 0.0
    plan: str | None = None
    plan_prompt: str | None = field(default=None, repr=False)
    demonstrations: tuple[str, ...] = ()
    rests_on_nothing: tuple[int, ...] = ()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    reply: str = ""
    logprob: float | None = None
    answer: Answer | None = _unstored()
    value: Any = _unstored()
    missed: Mapping[str, float] | None = _unstored()


@dataclass(frozen=True)
class Turn:
    """One turn of strategy ``explore``: an action and the observation that followed it.

    Source: DWIM (2025), supplement, sec. 6, for the actions.

    Attributes:
        index: number of the turn in the query, from 0.
        kind: the action; ``unreadable`` if none could be read, ``forced`` for an end at a limit.
        text: the code, the thought, the text that could not be read, or the reason for the end.
        result: the observation as the agent read it; "" if there is none.
        failure: the failure of the code, if it failed.
        calls: indices of the tool calls that the code made, in the trial's log.
        value: value of the last line, or the answer of ``done`` and ``forced``; JSON.
        writing: the cost of the request; zero for a turn that the agent did not write.
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
class RunWarning:
    """A reason to doubt an answer.

    Attributes:
        kind: ``unknown_words`` and ``unlike_training_pictures`` if the query or its media lie
            outside the profile's domain, or a program looked for what the detector does not know,
            ``guessed`` if the answer rests on nothing that was found, ``weak_evidence`` if it rests
            on what only a lowered threshold let pass, ``incomplete_reply`` if a model's reply was
            cut or held unreadable entries, ``fallback`` if a fallback answered, ``field`` if a
            field of a document is missing or in doubt, ``unused_pictures`` if a program looked at
            some of several pictures only, ``unsupported`` if it looked at nothing, ``wrong_type``
            if the question asks for another kind of answer, ``ended_early`` if the budget ended
            the run.
        text: one sentence for people.
        detail: the facts behind it, JSON.
    """

    kind: str
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One test of the program that answered, by verification or the setting ``checks``.

    Attributes:
        kind: ``exact`` for an exact input, on which the program must answer as most candidates do,
            or ``relation`` for a changed query with a known answer.
        name: what was tested.
        passed: the program's answer was the expected one.
        expected, seen: both answers, in short.
        margin: how clearly thresholds decided in the run of the check, in log-odds; negative if
            they rejected. None if none decided, or if the check moved them.
    """

    kind: str
    name: str
    passed: bool
    expected: str
    seen: str
    margin: float | None = None


# A clip of a video: its start and length in ms, and the number of moments whose frames it has, or
# the key frames before them.
CLIP_ID = re.compile(r"clip-([0-9]{1,9})-([0-9]{1,9})-([0-9]{1,2})(-keys)?")


def clip_id(start: float, seconds: float, count: int, keys: bool = False) -> str:
    """Return the name of a clip: a video's frames at so many moments, evenly from the start."""
    return f"clip-{round(1_000 * start)}-{round(1_000 * seconds)}-{count}{'-keys' * keys}"


# No video is longer, in seconds; a program may return any number.
_LONGEST_S = 1e7


@dataclass(frozen=True)
class Answer:
    """The answer of a run.

    ``value`` is JSON: str, bool, number or None; for a box see ``box`` (pixels from the top-left
    corner) and ``image_index``. ``choice_index`` counts from 0. Tags are a list of ``{"box",
    "label"}``. Fields are a list of ``{"field", "value", "box", "image_index", "confidence",
    "lines", "reason"}`` in the order of the query: ``value`` is a text, a decimal number or an ISO
    date, or None, ``lines`` the row of text that it was read from, and ``reason`` why it is missing
    or in doubt, "" otherwise. For a picture, ``value`` holds ``picture`` (its name in the media of
    the run), ``width`` and ``height``. ``confidence`` is the probability in [0, 1] that the
    answer is right; None if the profile is not calibrated for it.
    """

    value: Any
    kind: str
    choice_index: int | None = None
    box: PixelBox | None = None
    image_index: int | None = None
    info: Any = None
    confidence: float | None = None

    @property
    def moments(self) -> tuple[float, ...] | None:
        """Return when what a program saw happened, in rising seconds from the start of the video.

        A program gives them beside its answer, ``{"moment": 61.5}`` or ``{"moments": [...]}``, each
        a number or a pair whose first is the start. What is no time is left out. None without them.
        """
        info = self.info if isinstance(self.info, Mapping) else {}
        given = [info["moment"]] if "moment" in info else info.get("moments")
        if not isinstance(given, list):
            return None
        firsts = (each[0] if isinstance(each, list) and each else each for each in given)
        numbers = (each for each in firsts if type(each) in (int, float))
        return tuple(sorted(round(float(n), 3) for n in numbers if 0 <= n < _LONGEST_S))

    @property
    def moment(self) -> float | None:
        """Return the first of :attr:`moments`; None without any."""
        return self.moments[0] if self.moments else None


@dataclass(frozen=True)
class Trace:
    """The full record of one query, read by stores, viewers and mining.

    ``left_out`` names the functions that a router kept out of the prompt because the API exceeded
    its budget. ``fallback`` names the fallback that answered after every trial had failed
    (``average_box``, ``vqa``). The answer is then not the strategy's, and the failure that led to
    it is that of the trial before the last. ``failure`` is None if there is an answer.
    ``examples_shown`` holds the sample ids of the examples in the last prompt, in its order.
    ``examples_left_out`` counts the further examples for which the model's context had no room.
    ``chosen`` is the index of the trial that gave the answer, None if there is no answer. ``votes``
    holds the answers of a run that voted, each with its count, the winner first. ``turns`` are
    those of strategy ``explore``, ``path`` the steps of strategy ``seek``, and ``parts`` the data
    of strategies of other packages, by name. ``warnings`` holds the reasons to doubt the answer.
    ``guess`` is an answer that was withheld for one of them or for its low confidence; ``answer``
    is then None. ``checks``
    holds the tests of the program that answered, if it was verified or checked.
    """

    query: Query
    task: str
    task_reason: str
    answer: Answer | None
    failure: Failure | None
    trials: tuple[Trial, ...] = field(repr=False)
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
    warnings: tuple[RunWarning, ...] = ()
    guess: Answer | None = None
    checks: tuple[Check, ...] = ()
    schema: int = SCHEMA_VERSION

    def withheld(self) -> Trace:
        """Return the trace without its answer if a warning says that the profile withholds it.

        The answer is then :attr:`guess`, and the failure has the kind ``outside_domain``.
        """
        reason = next((each for each in self.warnings if each.detail.get("withhold")), None)
        if self.answer is None or reason is None:
            return self
        message = f"{reason.text} {reason.detail.get('instead', '')}".strip()
        return self.without_answer(Failure("outside_domain", message))

    def without_answer(self, failure: Failure) -> Trace:
        """Return the trace with its answer as a guess, and a failure instead."""
        return replace(self, answer=None, guess=self.answer, failure=failure)

    @property
    def answering(self) -> Trial | None:
        """Return the trial that gave the answer, or else the last trial with a program."""
        if self.chosen is not None and self.trials[self.chosen].program:
            return self.trials[self.chosen]
        return next((trial for trial in reversed(self.trials) if trial.program), None)

    @property
    def program(self) -> str | None:
        """Return the program of the chosen trial, else of the last good one, else the last."""
        return self._best_text("program")

    @property
    def plan(self) -> str | None:
        """Return the plan of :attr:`program`; None if there is no plan."""
        return self._best_text("plan")

    def _best_text(self, name: Literal["program", "plan"]) -> str | None:
        """Return a text of the best trial that has one: chosen before good before late."""
        ranks = [(i == self.chosen, trial.ok, i) for i, trial in enumerate(self.trials)]
        texts = (getattr(self.trials[i], name) for *_, i in sorted(ranks, reverse=True))
        return next(filter(None, texts), None)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the trial that gave the answer, or else of the last trial."""
        if not self.trials:
            return ()
        return self.trials[-1 if self.chosen is None else self.chosen].tool_calls

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return (width, height) of each picture that the trials know."""
        return {name: size for trial in self.trials for name, size in trial.sizes.items()}


@dataclass(frozen=True)
class Example:
    """A solved (or deliberately wrong) query that a prompt may show.

    Source: Stanić et al. 2024, sec. 2.3 (ACEs); ``polarity`` and ``critique`` serve the incorrect
    demonstrations of CLOVA.

    Attributes:
        task: the task as named in the prompt.
        kind: type of the query in its data set, which keeps a bank varied.
        set: data set of the sample, in the form that :func:`viper.data.registry.data_set` accepts.
        split: split of that data set.
        part: the part that it demonstrates, ``plan`` or ``program``; empty outside a
            demonstration pool.
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
    """Return a record (nested dataclasses, tuples, mappings) as plain JSON values."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        stored = (item for item in dataclasses.fields(record) if "exclude" not in item.metadata)
        return {item.name: to_json(getattr(record, item.name)) for item in stored}
    if isinstance(record, Mapping):
        return {str(key): to_json(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [to_json(value) for value in record]
    return str(record) if isinstance(record, Path) else record
