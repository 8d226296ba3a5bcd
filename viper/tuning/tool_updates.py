"""Updates of the tools that are at fault for a wrong answer.

`ToolUpdates.update` trains what a critique names: VQA on the answer (`_teach_answer`), other tools
on the first concept that they do not know (`_teach_first`).

A tool is trained on a concept only if a test on the collected pictures shows that it does not know
the concept. Attempts are counted, so that data for a concept is not collected again and again.

Source: CLOVA (Gao et al. 2024), sec. 3.4. Differs: several tools may be updated in one task. If
reflection names no tool, the concepts that calls name are tried in the same way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viper.errors import CancelledError, StoreError, ViperError
from viper.evaluate.runs.learning_record import PromptRecord, Update
from viper.models.media import Media
from viper.schema import ToolCall
from viper.strategies.critique import Critique
from viper.tools.call_log import from_plain
from viper.tools.tool_functions import region_crop
from viper.tools.toolbox import Toolbox
from viper.tuning.concept_probe import Suspect, known_share, suspects
from viper.tuning.soft_prompts.base import FUNCTION_TOOLS, AnsweredQuestion, Progress, TunerOptions
from viper.tuning.tool_training import KNOWN, ToolTrainer

# Most questions that VQA got right by itself. They are kept so that prompts do less harm.
MOST_RIGHT_ANSWERS = 200

# So that 200 questions come from 100 tasks and not from one long program.
_RIGHT_PER_TASK = 2

# Most characters of an answer: one word or a few, never an explanation.
MOST_ANSWER = 60


@dataclass(frozen=True)
class UpdateSettings:
    """Settings for updating tools.

    Attributes:
        only: names of the tools in the pool that may be trained; None allows all trainable tools.
        updates: most updates of tools in one task.
        tries: most trainings of one tool on one concept, each with other data.
        probe: try the concepts that calls name if reflection names no tool.
        validate: discard prompts that do not help on held-out data.
        seed: random seed for data and training.
        decoder: see :class:`~viper.tuning.soft_prompts.base.TunerOptions`.
    """

    only: frozenset[str] | None = None
    updates: int = 3
    tries: int = 2
    probe: bool = True
    validate: bool = True
    seed: int = 0
    decoder: bool = False


@dataclass(frozen=True)
class CallSource:
    """The media that a program's calls used, with a name for the evidence."""

    media: Media
    name: str


@dataclass
class ToolUpdates:
    """Updates tools, one task after another. Not for several threads at once.

    Args:
        toolbox: the tools in their current state.
        trainer: trains them.
        on_step: called with a description of each step.
        on_progress: called with the progress of training; may raise CancelledError.

    Attributes:
        attempts: number of trainings by tool and concept.
    """

    toolbox: Toolbox
    trainer: ToolTrainer
    settings: UpdateSettings = UpdateSettings()
    on_step: Callable[[str], None] = lambda text: None
    on_progress: Progress | None = None
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)

    def teaches(self, tool: str) -> bool:
        """Return whether a tool may be trained."""
        return self.settings.only is None or tool in self.settings.only

    def update(
        self, source: CallSource, critique: Critique | None, log: Sequence[ToolCall]
    ) -> list[Update]:
        """Train the tool that a critique names, else the first unknown concept that a call names.

        Return all updates, including failed ones. The list is empty if there was nothing to train.

        Raises:
            StoreError: the pool cannot be written.
            CancelledError: raised by ``on_progress``.
        """
        done: list[Update] = []
        if critique is not None and critique.tool is not None:
            faulty_calls = [call for call in log if call.tool == critique.tool]
            if critique.step is not None:
                faulty_calls = [call for call in faulty_calls if call.index == critique.step]
            if FUNCTION_TOOLS.get(critique.tool) == "vqa":
                done += self._teach_answer(source, faulty_calls[:1], critique.desired)
            else:
                done += self._teach_first(source, faulty_calls, "reflection")
        if not has_learned(done) and self.settings.probe:
            done += self._teach_first(source, log, "probe")
        return done

    def keep_right_answers(self, source: CallSource, log: Sequence[ToolCall]) -> None:
        """Store a few questions per task that VQA got right, with zero prompts.

        Source: CLOVA's supplement, sec. 8.1.2.

        Raises:
            StoreError: the pool cannot be written.
            ViperError: the model takes no soft prompts.
        """
        if not self.teaches("vqa") or len(self.trainer.pool.kept("vqa")) >= MOST_RIGHT_ANSWERS:
            return
        cases = []
        for call in log:
            question, right = _question(call), call.tool == "simple_query" and call.error is None
            if right and question is not None and isinstance(call.result, str):
                cases.append(self._answered(source, call, question, call.result, True))
        if cases:
            self.trainer.learn("vqa", None, cases[:_RIGHT_PER_TASK], self._options(0))

    def _teach_first(self, source: CallSource, log: Sequence[ToolCall], by: str) -> list[Update]:
        """Train the first of the concepts that calls name that its tool does not know."""
        done: list[Update] = []
        for suspect in suspects(log, self.trainer.sources.store):
            attempts = self.attempts.get((suspect.tool, suspect.concept), 0)
            if self.teaches(suspect.tool) and attempts < self.settings.tries:
                update = self._teach(source, suspect, by)
                done += [] if update is None else [update]
                if has_learned(done):
                    break
        return done

    def _teach(self, source: CallSource, suspect: Suspect, by: str) -> Update | None:
        """Collect data, test the tool and train it; return None if it knows the concept."""
        tool, concept, started = suspect.tool, suspect.concept, time.perf_counter()
        attempts = self.attempts.get((tool, concept), 0)
        self.attempts[tool, concept] = attempts + 1
        base = Update(tool, concept, by)
        try:
            self.on_step(f"collecting data about {concept} for {tool}")
            data = self.trainer.collect(tool, concept, self.settings.seed + attempts)
            knew = known_share(self.toolbox, tool, concept, data)
            if knew is not None and knew >= KNOWN:
                self.attempts[tool, concept] = self.settings.tries
                return None
            base = replace(base, knew=knew, collected=data.evidence)
            self.on_step(f"teaching {tool}: {concept}")
            update = self._trained(base, source, data, attempts)
        except (StoreError, CancelledError):
            raise
        except ViperError as error:
            update = replace(base, problem=str(error))
        return replace(update, seconds=round(time.perf_counter() - started, 3))

    def _teach_answer(
        self, source: CallSource, faulty_calls: Sequence[ToolCall], desired: Any
    ) -> list[Update]:
        """Train VQA on the answer that it should have given."""
        answer = answer_text(desired)
        question = _question(faulty_calls[0]) if faulty_calls else None
        key = ("vqa", f"{question} -> {answer}")
        attempts = self.attempts.get(key, 0)
        is_spent = attempts >= self.settings.tries or not self.teaches("vqa")
        if answer is None or question is None or is_spent:
            return []
        self.attempts[key] = attempts + 1
        started = time.perf_counter()
        evidence = {"manner": "inferred", "question": question, "answer": answer}
        base = Update("vqa", "", "reflection", collected=evidence)
        try:
            self.on_step(f"teaching vqa: {question} {answer}")
            case = self._answered(source, faulty_calls[0], question, answer)
            update = self._trained(base, source, [case])
        except (StoreError, CancelledError):
            raise
        except ViperError as error:
            update = replace(base, problem=str(error))
        return [replace(update, seconds=round(time.perf_counter() - started, 3))]

    def _trained(self, base: Update, source: CallSource, data: Any, attempts: int = 0) -> Update:
        """Train on the data and return the update with its prompts."""
        concept, options = base.concept or None, self._options(attempts)
        result = self.trainer.learn(
            base.tool, concept, data, options, self.on_progress, source.name
        )
        prompts = (PromptRecord(**vars(each.evidence), why=each.why) for each in result.trained)
        return replace(base, prompts=tuple(prompts), ids=tuple(result.ids))

    def _options(self, attempts: int) -> TunerOptions:
        settings, seed = self.settings, self.settings.seed + attempts
        return TunerOptions(seed=seed, validate=settings.validate, decoder=settings.decoder)

    def _answered(
        self, source: CallSource, call: ToolCall, question: str, answer: str, right: bool = False
    ) -> AnsweredQuestion:
        """Return the question of a call with the region that it asked about."""
        session = self.toolbox.session(source.media)
        pixels = region_crop(session, session.region(from_plain(call.args[0])))
        return AnsweredQuestion(f"{source.name}#{call.index}", pixels, question, answer, right)


def answer_text(desired: Any) -> str | None:
    """Return a desired result in the form of VQA answers: lower case, yes or no, digits.

    Return None if it cannot be an answer.
    """
    if isinstance(desired, bool):
        return "yes" if desired else "no"
    if isinstance(desired, int | float):
        if isinstance(desired, float) and not math.isfinite(desired):
            return None
        whole = int(desired) == desired
        # whole numbers up to here are exact as floats; larger ones would get invented digits
        text = str(int(desired)) if whole and abs(desired) < 1e15 else f"{desired:g}"
    elif isinstance(desired, str):
        text = " ".join(desired.split()).rstrip(".").lower()
    else:
        return None
    return text if 0 < len(text) <= MOST_ANSWER else None


def has_learned(done: Sequence[Update]) -> bool:
    """Return whether any of the updates left a prompt in the pool."""
    return any(update.ids for update in done)


def _question(call: ToolCall) -> str | None:
    """Return the question that VQA was asked about a picture, or None."""
    patch = call.args[0] if call.args else None
    value: Any = call.args[1] if len(call.args) > 1 else call.kwargs.get("question")
    if not isinstance(patch, Mapping) or patch.get("kind") not in ("patch", "image"):
        return None
    return value if isinstance(value, str) and value.strip() else None
