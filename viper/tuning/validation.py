"""Validation of demonstrations on the samples that they came from, with stored outcomes.

`ValidationRun` answers a sample with given demonstrations, for a given plan, or by a given program;
`_once` reads an outcome from the journal or makes and appends it.

Every outcome is a line of a file. An interrupted session resumes there and repeats no request to
a language model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from viper.agreement import is_correct
from viper.data.sample import Sample
from viper.errors import ViperError
from viper.evaluate.metrics import Metric
from viper.evaluate.sample_result import Prediction
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.base import Components
from viper.strategies.demonstration_pool import PoolExample
from viper.strategies.examples import NoExamples
from viper.strategies.plan import PlanStrategy
from viper.strategies.program import MAX_RESAMPLES
from viper.tuning.learner import showing

# Verdict of the metric on an answer; ``none`` if there was no answer.
Correctness = Literal["right", "wrong", "none"]


class BudgetSpentError(ViperError):
    """The next request could pass the budget."""

    code = "budget"


@dataclass(frozen=True)
class ValidationOutcome:
    """ValidationOutcome of one validation.

    Attributes:
        key: hash of the sample and the demonstrations, plan or program.
        shown: whether the prompts had room for the demonstrations.
        program: the program that answered or failed.
        llm_calls: number of requests to language models.
    """

    key: str
    verdict: Correctness
    shown: bool = True
    program: str = ""
    llm_calls: int = field(default=0, metadata={"strict": True})


class ValidationRun:
    """Runs single samples with given demonstrations, plans or programs, one after another.

    Args:
        components: parts of the runs. Their own demonstrations and examples are not shown.
        judge: the metric of the set.
        options: options of every run: one program, no corrections.
        journal: file of outcomes; need not exist.
        budget: most requests to language models, including ``spent`` and those of the journal.
        spent: number of requests that were made before.

    Attributes:
        llm_calls: number of requests so far.
    """

    def __init__(
        self,
        components: Components,
        judge: Metric,
        options: RunOptions,
        journal: Path,
        budget: int | None = None,
        spent: int = 0,
    ) -> None:
        self._components, self._judge, self._options = components, judge, options
        self._journal, self._budget = journal, budget
        outcomes = read_lines(journal, ValidationOutcome, "an outcome of a try")
        self._known = {outcome.key: outcome for outcome in outcomes}
        self.llm_calls = spent + sum(outcome.llm_calls for outcome in outcomes)

    @property
    def shows_incorrect(self) -> bool:
        """Return whether the strategy shows incorrect demonstrations."""
        return self._options.strategy == "plan"

    def with_demonstrations(
        self, sample: Sample, demonstrations: Sequence[PoolExample]
    ) -> ValidationOutcome:
        """Answer the sample again with only these demonstrations in its prompts.

        Raises:
            BudgetSpentError: the run may need more requests than are left.
            ViperError: a model or the sandbox failed; no outcome is stored.
        """
        key = _key("shown", sample.sample_id, *(each.id for each in demonstrations))
        plans = self._options.strategy == "plan"
        bare = replace(self._components, demonstrations=NoExamples(), examples=NoExamples())
        parts = showing(bare, demonstrations)
        options = self._options.changed(
            examples=0 if plans else 1, correct_demonstrations=1, incorrect_demonstrations=1
        )

        def run() -> ValidationOutcome:
            result = Reasoner(parts, preload=False).run(
                sample.load(), sample.text, _about(sample, options)
            )
            return self._outcome(key, sample, result, demonstrations)

        return self._once(key, 2 + MAX_RESAMPLES if plans else 1, run)

    def of_plan(self, sample: Sample, plan: str) -> ValidationOutcome:
        """Answer by a program written for this plan. Raise as :meth:`with_demonstrations`."""
        key = _key("plan", sample.sample_id, plan)

        def run() -> ValidationOutcome:
            reasoner = Reasoner(self._components, preload=False)
            options = self._options.changed(correct_demonstrations=0, incorrect_demonstrations=0)
            result = reasoner.run(
                sample.load(), sample.text, _about(sample, options), using=PlanStrategy(plan)
            )
            return self._outcome(key, sample, result)

        return self._once(key, 1, run)

    def of_program(self, sample: Sample, program: str) -> ValidationOutcome:
        """Answer by this program, without any request to a language model."""
        key = _key("program", sample.sample_id, program)

        def run() -> ValidationOutcome:
            reasoner = Reasoner(self._components, preload=False)
            result = reasoner.execute(
                program, sample.load(), sample.text, _about(sample, self._options)
            )
            return self._outcome(key, sample, result)

        return self._once(key, 0, run)

    def _once(self, key: str, most_calls: int, run: Any) -> ValidationOutcome:
        if key in self._known:
            return self._known[key]
        if self._budget is not None and self.llm_calls + most_calls > self._budget:
            raise BudgetSpentError(f"{self.llm_calls} of {self._budget} requests were made")
        outcome: ValidationOutcome = run()
        append_line(self._journal, dataclasses.asdict(outcome))
        self._known[key] = outcome
        self.llm_calls += outcome.llm_calls
        return outcome

    def _outcome(
        self,
        key: str,
        sample: Sample,
        result: RunResult,
        demonstrations: Sequence[PoolExample] = (),
    ) -> ValidationOutcome:
        verdict: Correctness = "none"
        if result.answer is not None:
            score = self._judge.score(sample, Prediction.of(result.answer)).value
            verdict = "right" if is_correct(score) else "wrong"
        trace = result.trace
        prompt_ids = {name for trial in trace.trials for name in trial.demonstrations}
        was_shown = {demonstration.id for demonstration in demonstrations} <= prompt_ids or bool(
            trace.examples_shown
        )
        return ValidationOutcome(
            key, verdict, was_shown, trace.program or "", trace.usage.llm_calls
        )


def _about(sample: Sample, options: RunOptions) -> RunOptions:
    return replace(options, task=sample.task, options=sample.options, sample_id=sample.sample_id)


def _key(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
