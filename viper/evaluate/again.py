"""A query answered once more, with what was learned since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from viper.ace.growth import OnTrial
from viper.ace.pool import LearnedExamples
from viper.ace.pooled import Pooled
from viper.models.media import Media
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Answer, Trace
from viper.strategies.base import Components
from viper.tuning.learner import Answered


@dataclass(frozen=True)
class Again:
    """Answers the query of a trace; the ``again`` of a :class:`viper.tuning.learner.Task`.

    Attributes:
        options: settings of every run; task, options, seed and sample id are the trace's.
        judge: the score of an answer in [0, 1]; of None where there is none.
    """

    reasoner: Reasoner
    options: RunOptions
    media: Media
    first: Trace
    judge: Callable[[Answer | None], float]

    def __call__(self, program: str | None, shown: Sequence[Pooled]) -> Answered:
        """By a program, or by one that is written anew.

        Args:
            program: None has one written.
            shown: demonstrations that come before those of the pool.
        """
        reasoner, query = self.reasoner, self.first.query
        if shown:
            reasoner = Reasoner(_showing(reasoner.components, shown), preload=False)
        asked = self.options.changed(
            task=query.task,
            options=query.options,
            seed=self.first.seed,
            sample_id=query.sample_id,
        )
        if program is None:
            result = reasoner.run(self.media, query.text, asked)
        else:
            result = reasoner.execute(program, self.media, query.text, asked)
        trace = result.trace if program is None else self._planned(result.trace)
        return Answered(trace, self.judge(result.answer))

    def _planned(self, trace: Trace) -> Trace:
        """The trace of a program that ran again, with the plan that it was written from."""
        plan = next((one.plan for one in self.first.trials[::-1] if one.plan), None)
        trials = tuple(replace(trial, plan=plan) for trial in trace.trials)
        return replace(trace, trials=trials)


def _showing(components: Components, shown: Sequence[Pooled]) -> Components:
    """The same parts, with demonstrations that are shown before those of the pool."""
    tried = OnTrial(shown, components.demonstrations)
    examples = components.examples
    bank = examples.bank if isinstance(examples, LearnedExamples) else examples
    return replace(components, demonstrations=tried, examples=LearnedExamples(tried, bank))
