"""Teaches the tools that are at fault for a wrong answer.

A concept is taught only to a tool that is found not to know it: what it already gets right in the
collected pictures is not what was wrong. What was tried is remembered, so that no concept is
collected for over and over.

Source: CLOVA (Gao et al. 2024), sec. 3.4. Differs: several tools may be updated in one task, and
where reflection blames no tool, the concepts that calls name are tried in the same way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viper.ace.critique import Critique
from viper.errors import CancelledError, StoreError, ViperError
from viper.models.media import Media
from viper.schema import ToolCall
from viper.strategies.replay import restore_references
from viper.tools.tool_functions import region_crop
from viper.tools.toolbox import Toolbox
from viper.tuning.concept_probe import Suspect, known_share, suspects
from viper.tuning.learning_record import PromptRecord, Update
from viper.tuning.soft_prompts.base import ABILITY_TOOLS, AnsweredQuestion, Progress, TunerOptions
from viper.tuning.tool_training import KNOWN, ToolTrainer, TrainingResult

MOST_RIGHT_ANSWERS = 200
"""Questions that the visual answerer got right by itself, kept to hold its prompts back."""

_RIGHT_PER_TASK = 2

MOST_ANSWER = 60
"""Characters of an answer: a word or a few, never an explanation."""


@dataclass(frozen=True)
class ToolSettings:
    """Which tools are taught, and how far one task goes.

    Attributes:
        only: tools that may be taught, by the pool's names; None: all that can be.
        updates: of tools in one task at most.
        tries: lessons of one tool on one concept at most, each with other data.
        probe: where reflection blames no tool, try the concepts that calls name.
        validate: discard prompts that do not hold on held-out data.
        seed: of data and training.
    """

    only: frozenset[str] | None = None
    updates: int = 3
    tries: int = 2
    probe: bool = True
    validate: bool = True
    seed: int = 0


@dataclass(frozen=True)
class About:
    """What a program's calls were about: the pictures, and a name for the evidence."""

    media: Media
    name: str


@dataclass
class ToolUpdates:
    """Updates tools, one task after another; not for several threads at once.

    Args:
        toolbox: with the tools as they were taught so far.
        teacher: teaches them.
        on_step: told in words what is being done.
        on_progress: of training; may raise CancelledError.

    Attributes:
        tried: how many lessons each tool had on each concept.
    """

    toolbox: Toolbox
    teacher: ToolTrainer
    settings: ToolSettings = ToolSettings()
    on_step: Callable[[str], None] = lambda text: None
    on_progress: Progress | None = None
    tried: dict[tuple[str, str], int] = field(default_factory=dict)

    def teaches(self, tool: str) -> bool:
        """Return whether a tool may be trained."""
        return self.settings.only is None or tool in self.settings.only

    def update(
        self, about: About, critique: Critique | None, log: Sequence[ToolCall]
    ) -> list[Update]:
        """Train the tool that a critique names, else the first unknown concept that a call names.

        What was tried without success stands in the list too. Empty: nothing was at fault that
        can be taught.

        Raises:
            StoreError: the pool cannot be written.
            CancelledError: raised by ``on_progress``.
        """
        done: list[Update] = []
        if critique is not None and critique.tool is not None:
            blamed = [call for call in log if call.tool == critique.tool]
            if critique.step is not None:
                blamed = [call for call in blamed if call.index == critique.step]
            if ABILITY_TOOLS.get(critique.tool) == "vqa":
                done += self._teach_answer(about, blamed[:1], critique.desired)
            else:
                done += self._teach_first(about, self._suspects(blamed), "reflection")
        if not has_learned(done) and self.settings.probe:
            done += self._teach_first(about, self._suspects(log), "probe")
        return done

    def keep_right_answers(self, about: About, log: Sequence[ToolCall]) -> None:
        """Store a few questions per task that VQA got right, with zero prompts.

        Source: CLOVA's supplement, sec. 8.1.2.

        Raises:
            StoreError: the pool cannot be written.
            ViperError: a model that takes no soft prompts.
        """
        if not self.teaches("vqa") or len(self.teacher.pool.kept("vqa")) >= MOST_RIGHT_ANSWERS:
            return
        cases = [
            AnsweredQuestion(
                _name(about, call), self._seen(about, call), question, call.result, True
            )
            for call in log
            if _is_answered(call) and (question := _question(call))
        ]
        if cases:
            self.teacher.learn("vqa", None, cases[:_RIGHT_PER_TASK], self._options(0))

    def _suspects(self, log: Sequence[ToolCall]) -> list[Suspect]:
        return suspects(log, self.teacher.sources.store)

    def _teach_first(self, about: About, suspects: Sequence[Suspect], by: str) -> list[Update]:
        """Train the first of these concepts that its tool does not know."""
        done: list[Update] = []
        for suspect in suspects:
            if not self.teaches(suspect.tool):
                continue
            if self.tried.get((suspect.tool, suspect.concept), 0) >= self.settings.tries:
                continue
            update = self._teach(about, suspect, by)
            done += [] if update is None else [update]
            if has_learned(done):
                break
        return done

    def _teach(self, about: About, suspect: Suspect, by: str) -> Update | None:
        """Collect data, test the tool and train it; return None if it knows the concept."""
        tool, concept, started = suspect.tool, suspect.concept, time.perf_counter()
        tried = self.tried.get((tool, concept), 0)
        self.tried[tool, concept] = tried + 1
        base = Update(tool, concept, by)
        try:
            self.on_step(f"collecting data about {concept} for {tool}")
            data = self.teacher.collect(tool, concept, self.settings.seed + tried)
            knew = known_share(self.toolbox, tool, concept, data)
            if knew is not None and knew >= KNOWN:
                self.tried[tool, concept] = self.settings.tries
                return None
            base = replace(base, knew=knew, collected=data.evidence)
            self.on_step(f"teaching {tool}: {concept}")
            options, task = self._options(tried), about.name
            taught = self.teacher.learn(
                tool, concept, data, options, self.on_progress, data.evidence, task
            )
            update = _with(base, taught)
        except (StoreError, CancelledError):
            raise
        except ViperError as error:
            update = replace(base, problem=str(error))
        return replace(update, seconds=round(time.perf_counter() - started, 3))

    def _teach_answer(self, about: About, blamed: Sequence[ToolCall], desired: Any) -> list[Update]:
        """Train VQA on the answer that it should have given."""
        answer = answer_text(desired)
        question = _question(blamed[0]) if blamed else None
        key = ("vqa", f"{question} -> {answer}")
        if answer is None or question is None or not self.teaches("vqa"):
            return []
        if self.tried.get(key, 0) >= self.settings.tries:
            return []
        self.tried[key] = self.tried.get(key, 0) + 1
        started = time.perf_counter()
        evidence = {"manner": "inferred", "question": question, "answer": answer}
        base = Update("vqa", "", "reflection", collected=evidence)
        try:
            self.on_step(f"teaching vqa: {question} {answer}")
            name, pixels = _name(about, blamed[0]), self._seen(about, blamed[0])
            case = AnsweredQuestion(name, pixels, question, answer)
            options, task = self._options(0), about.name
            taught = self.teacher.learn(
                "vqa", None, [case], options, self.on_progress, evidence, task
            )
            update = _with(base, taught)
        except (StoreError, CancelledError):
            raise
        except ViperError as error:
            update = replace(base, problem=str(error))
        return [replace(update, seconds=round(time.perf_counter() - started, 3))]

    def _options(self, tried: int) -> TunerOptions:
        return TunerOptions(seed=self.settings.seed + tried, validate=self.settings.validate)

    def _seen(self, about: About, call: ToolCall) -> Any:
        """Return the pixels that a call's tool was shown."""
        session = self.toolbox.session(about.media)
        return region_crop(session, session.region(restore_references(call.args[0])))


def answer_text(desired: Any) -> str | None:
    """Return a desired result as VQA models say it: lower case, yes or no, digits; else None."""
    if isinstance(desired, bool):
        return "yes" if desired else "no"
    if isinstance(desired, int | float):
        if isinstance(desired, float) and not math.isfinite(desired):
            return None
        whole = int(desired) == desired
        text = str(int(desired)) if whole and abs(desired) < 1e15 else f"{desired:g}"
    elif isinstance(desired, str):
        text = " ".join(desired.split()).rstrip(".").lower()
    else:
        return None
    return text if 0 < len(text) <= MOST_ANSWER else None


def has_learned(done: Sequence[Update]) -> bool:
    """Return whether any of the updates left a prompt in the pool."""
    return any(one.ids for one in done)


def _with(base: Update, taught: TrainingResult) -> Update:
    prompts = tuple(PromptRecord(**vars(one.evidence), why=one.why) for one in taught.trained)
    return replace(base, prompts=prompts, ids=tuple(taught.ids))


def _name(about: About, call: ToolCall) -> str:
    return f"{about.name}#{call.index}"


def _question(call: ToolCall) -> str | None:
    """Return the question that VQA was asked about a picture, or None."""
    patch = call.args[0] if call.args else None
    value: Any = call.args[1] if len(call.args) > 1 else call.kwargs.get("question")
    if not isinstance(patch, Mapping) or patch.get("kind") not in ("patch", "image"):
        return None
    return value if isinstance(value, str) and value.strip() else None


def _is_answered(call: ToolCall) -> bool:
    """Return whether VQA answered a question about a picture."""
    answered = call.tool == "simple_query" and isinstance(call.result, str) and call.error is None
    return answered and _question(call) is not None
