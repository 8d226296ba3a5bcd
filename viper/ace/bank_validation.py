"""Check that the examples of a bank still work with the current API and models.

The language model writes nothing here. Each stored program runs unchanged on the sample that it
was mined from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from viper.ace.select import DESCRIPTION
from viper.ace.soundness import api_changed, problems
from viper.agreement import is_correct
from viper.api.library import Library
from viper.data.registry import data_set, samples_by_id
from viper.data.sample import DatasetSpec, Sample
from viper.errors import CancelledError, SandboxHostError, SandboxUnavailableError, ViperError
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Example

State = Literal["ok", "broken", "not run"]


@dataclass(frozen=True)
class SampleSource:
    """Place to look for samples.

    Attributes:
        set_name: data set to use instead of the one that an example names.
        spec: root folder, and a split to use instead of the one that an example names.
    """

    set_name: str | None = None
    spec: DatasetSpec = field(default_factory=DatasetSpec)


@dataclass(frozen=True)
class ExampleSample:
    """An example's sample with the name of its metric, or the reason why there is none."""

    sample: Sample | None = None
    metric: str = ""
    why: str = ""


@dataclass(frozen=True)
class ExampleCheck:
    """Result of checking one example.

    Attributes:
        number: place of the example in the bank, from 1.
        state: ``not run`` if the text has no problem but the program was not executed.
        why: why the example is broken or was not run.
        score: the program's score today; None if it was not run.
        note: a remark that does not make the example broken.
    """

    number: int
    example: Example
    state: State
    why: str = ""
    score: float | None = None
    note: str = ""


def check_text(
    number: int, example: Example, library: Library, *, listed: bool = False
) -> ExampleCheck:
    """Check the text of an example. The state is ``broken``, or ``not run`` until it is executed.

    Args:
        listed: an example is also broken if it calls a name that its API does not list.
    """
    wrong = problems(example, library, listed=listed)
    if wrong:
        return ExampleCheck(number, example, "broken", "; ".join(wrong))
    changed = not listed and api_changed(example, library)
    note = "the text of its API has changed" if changed else ""
    return ExampleCheck(number, example, "not run", note=note)


def samples_of(examples: Sequence[Example], data: SampleSource) -> list[ExampleSample]:
    """Return the samples of the examples, in their order."""
    places_by_set: dict[tuple[str, str | None], list[int]] = {}
    results = [ExampleSample(why="no data set is known; give --data")] * len(examples)
    for place, example in enumerate(examples):
        name = data.set_name or example.set
        if name:
            split = data.spec.split or example.split or None
            places_by_set.setdefault((name, split), []).append(place)
    for (name, split), places in places_by_set.items():
        ids = [examples[place].sample_id for place in places]
        try:
            samples = samples_by_id(name, replace(data.spec, split=split), ids)
            judge = data_set(name).metric
        except ViperError as error:
            for place in places:
                results[place] = ExampleSample(why=str(error))
            continue
        for place, sample_id in zip(places, ids, strict=True):
            sample = samples.get(sample_id)
            why = "" if sample else f"{name} has no sample {sample_id!r}"
            results[place] = ExampleSample(sample, judge, why)
    return results


def not_run(checked: ExampleCheck, example_sample: ExampleSample) -> ExampleCheck | None:
    """Return the example with the reason why it cannot run, or None if it can."""
    if checked.example.polarity == "incorrect":
        return replace(checked, why="it shows what is wrong")
    return replace(checked, why=example_sample.why) if example_sample.sample is None else None


def check_program(
    checked: ExampleCheck, example_sample: ExampleSample, reasoner: Reasoner
) -> ExampleCheck:
    """Run the example's program on its sample and judge it by the metric of the set.

    The example is ``ok`` if the score counts as right or is no worse than when it was mined. An
    example from a data set description has no label: it is ``ok`` if it answers its own query about
    the sample's media.

    Raises:
        SandboxUnavailableError, SandboxHostError: no program can run on this machine.
    """
    example, sample = checked.example, example_sample.sample
    assert sample is not None
    if example.kind == DESCRIPTION:
        # the medium with the example's own query; a video question has no options
        task = "question" if example.task == "choice" and not example.options else example.task
        sample = replace(sample, text=example.query, task=task, options=example.options)
    options = RunOptions(
        task=sample.task,
        options=sample.options,
        api=example.api,
        self_tune=False,
        sample_id=sample.sample_id,
    )
    try:
        result = reasoner.execute(example.program, sample.load(), sample.text, options)
    except (SandboxUnavailableError, SandboxHostError, CancelledError):
        raise
    except (ViperError, OSError) as error:
        return replace(checked, why=str(error))
    if result.answer is None:
        failure = result.failure
        why = f"{failure.kind}: {failure.message}" if failure else "no answer"
        return replace(checked, state="broken", why=why, score=0.0)
    if example.kind == DESCRIPTION:
        note = "; ".join(filter(None, (checked.note, "answers; no label judges it")))
        return replace(checked, state="ok", note=note)
    score = metric(example_sample.metric).score(sample, Prediction.of(result.answer)).value
    if is_correct(score) or score >= example.score:
        return replace(checked, state="ok", score=score)
    why = f"scores {score:.2f}, {example.score:.2f} when it was mined"
    return replace(checked, state="broken", why=why, score=score)
