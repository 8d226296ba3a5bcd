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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
        self._components, self._judge = components, judge
        self._options = options.changed(careful=False)
        self._journal, self._budget = journal, budget
        outcomes = read_lines(journal, ValidationOutcome, "an outcome of a try")
        self._known = {outcome.key: outcome for outcome in outcomes}
        self.llm_calls = spent + sum(outcome.llm_calls for outcome in outcomes)

    @property
    def shows_incorrect(self) -> bool:
        """Return whether the strategy shows incorrect demonstrations."""
        return self._options.settings(self._components.settings).strategy == "plan"

    def with_demonstrations(
        self, sample: Sample, demonstrations: Sequence[PoolExample]
    ) -> ValidationOutcome:
        """Answer the sample again with only these demonstrations in its prompts.

        Raises:
            BudgetSpentError: the run may need more requests than are left.
            ViperError: a model or the sandbox failed; no outcome is stored.
        """
        ids, plans = [each.id for each in demonstrations], self.shows_incorrect
        bare = replace(self._components, demonstrations=NoExamples(), examples=NoExamples())
        run = Reasoner(showing(bare, demonstrations), preload=False).run
        options = self._options.changed(
            examples=0 if plans else 1, correct_demonstrations=1, incorrect_demonstrations=1
        )
        tried, most_calls = ("shown", sample.sample_id, *ids), 2 + MAX_RESAMPLES if plans else 1
        return self._once(tried, sample, run, options, most_calls, ids)

    def of_plan(self, sample: Sample, plan: str) -> ValidationOutcome:
        """Answer by a program written for this plan. Raise as :meth:`with_demonstrations`."""
        run = partial(Reasoner(self._components, preload=False).run, using=PlanStrategy(plan))
        options = self._options.changed(correct_demonstrations=0, incorrect_demonstrations=0)
        return self._once(("plan", sample.sample_id, plan), sample, run, options, most_calls=1)

    def of_program(self, sample: Sample, program: str) -> ValidationOutcome:
        """Answer by this program, without any request to a language model."""
        run = partial(Reasoner(self._components, preload=False).execute, program)
        tried = ("program", sample.sample_id, program)
        return self._once(tried, sample, run, self._options, most_calls=0)

    def _once(
        self,
        tried: tuple[str, ...],
        sample: Sample,
        run: Callable[[Any, str, RunOptions], RunResult],
        options: RunOptions,
        most_calls: int,
        demonstrations: Sequence[str] = (),
    ) -> ValidationOutcome:
        """Return the outcome of the journal, or make and append it.

        Args:
            tried: what is tried, on which sample, and the ids or text of it.
            most_calls: most requests that the run may need.
            demonstrations: ids of the demonstrations that the prompts should show.
        """
        key = hashlib.sha256(json.dumps(tried).encode()).hexdigest()[:24]
        if key in self._known:
            return self._known[key]
        if self._budget is not None and self.llm_calls + most_calls > self._budget:
            raise BudgetSpentError(f"{self.llm_calls} of {self._budget} requests were made")
        options = options.changed(
            task=sample.task, options=sample.options, sample_id=sample.sample_id
        )
        result = run(sample.load(), sample.text, options)
        verdict: Correctness = "none"
        if result.answer is not None:
            score = self._judge.score(sample, Prediction.of(result.answer)).value
            verdict = "right" if is_correct(score) else "wrong"
        trace, calls = result.trace, result.trace.usage.llm_calls
        prompt_ids = {name for trial in trace.trials for name in trial.demonstrations}
        was_shown = set(demonstrations) <= prompt_ids or bool(trace.examples_shown)
        outcome = ValidationOutcome(key, verdict, was_shown, trace.program or "", calls)
        append_line(self._journal, dataclasses.asdict(outcome))
        self._known[key] = outcome
        self.llm_calls += calls
        return outcome
