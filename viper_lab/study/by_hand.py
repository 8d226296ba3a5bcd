"""A search whose decisions are a person's: what a user study records.

The actions are those of strategy ``seek``, all of them at every step: what people do where nothing
is forbidden is what a transition graph is made of. Source: AVIS (Hu et al. 2023), sec. 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from viper.errors import UsageError
from viper.strategies.seek.actions import (
    MemoryState,
    Observation,
    SeekTools,
    WorkingMemory,
    is_possible,
    perform,
    resolve_words,
)
from viper.strategies.seek.graph import ACTIONS
from viper_lab.study.records import VERDICTS, SearchStep, Session

# Actions of one question.
MOST_STEPS = 60


@dataclass
class HandSearch:
    """One question of one participant.

    Attributes:
        steps: what was done, each judged but for the last, which may still be waiting.
        seen: what the last action found, until it is judged; None: the next action may come.
    """

    participant: str
    question: str
    tools: SeekTools
    steps: list[SearchStep] = field(default_factory=list)
    seen: Observation | None = None

    def __post_init__(self) -> None:
        self._memory = WorkingMemory(self.question)

    @property
    def now(self) -> MemoryState:
        """Return the state of the search and the known facts."""
        return self._memory.now

    @property
    def actions(self) -> tuple[str, ...]:
        """Return the actions that are possible now."""
        if self.seen is not None or len(self.steps) >= MOST_STEPS:
            return ()
        return tuple(action for action in ACTIONS if is_possible(action, self.now))

    def take(self, action: str, words: str = "") -> Observation:
        """Carry out an action. Its result waits for a judgement.

        Raises:
            UsageError: it cannot be done now.
            ViperError: the tool refused or failed; nothing is recorded.
        """
        if action not in self.actions:
            raise UsageError(f"{action!r} cannot be done now; can be: {', '.join(self.actions)}")
        if not words and ACTIONS[action].takes and action != "select":
            raise UsageError(f"{action} needs words: {ACTIONS[action].takes}")
        words = resolve_words(action, words, self.now)
        self.seen = perform(action, words, self.now, self.tools)
        self.steps.append(
            SearchStep(self.now.state, action, self.question, self.now.context, words, "")
        )
        return self.seen

    def judge(self, worth: str, extracted: str = "") -> None:
        """Record how useful the last action was.

        Args:
            worth: one of :data:`viper_lab.study.records.VERDICTS`.
            told: what it told, in the participant's words; the first line found where empty.

        Raises:
            UsageError: there is nothing to judge, or no such verdict.
        """
        if self.seen is None or worth not in VERDICTS:
            raise UsageError(f"nothing to call {worth!r} now; choose an action")
        seen, step = self.seen, self.steps[-1]
        self.steps[-1] = replace(step, verdict=worth)
        self.seen = None
        move = (step.action, step.words if step.action == "select" else "")
        if worth == "uninformative":
            self.now.excluded[move] = None
            return
        lines = seen.lines if seen.is_plain and not extracted else (extracted or seen.lines[0],)
        self._memory.push(
            MemoryState(
                state=step.action,
                query=self.question,
                context=(*self.now.context, *(line for line in lines if line)),
                focus=self.now.focus if seen.focus is None else seen.focus,
                objects=self.now.objects if seen.objects is None else seen.objects,
                led_here=move,
            )
        )

    def back(self) -> bool:
        """Return to the previous state, and False at the beginning. This is not an action."""
        return self.seen is None and self._memory.pop()

    def ended(self, is_answered: bool, answer: str = "") -> Session:
        """Return the record of the search, answered or given up.

        Raises:
            UsageError: it was found, and is not said.
        """
        if is_answered and not answer.strip():
            raise UsageError("say what the answer is")
        steps = list(self.steps)
        if steps and (is_answered or not steps[-1].verdict):
            steps[-1] = replace(steps[-1], verdict="answer" if is_answered else "uninformative")
        return Session(self.participant, self.question, tuple(steps), is_answered, answer.strip())
