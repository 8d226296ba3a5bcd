"""Mining in-context examples from a few labelled samples.

Source: Stanić et al. 2024, sec. 2.3: run zero-shot over the samples, keep the
programs that score. Differs: only programs right at the first trial are kept, so a
bank never teaches what self-correction had to repair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from viper.api.spec import api_hash
from viper.reasoner import Reasoner, RunOptions, RunResult
from viper.schema import Example, Query


@dataclass(frozen=True)
class Labelled:
    """A labelled sample as mining takes it.

    Attributes:
        query: with its task resolved and its sample id.
        media: gives the picture or clip when it is needed.
        score: the data set's own metric of a result, in [0, 1].
        kind: the query's type, so that a bank can cover several.
    """

    query: Query
    media: Callable[[], Any]
    score: Callable[[RunResult], float]
    kind: str


@dataclass(frozen=True)
class Mined:
    """One sample's outcome: its example if the program was right, and how far mining is."""

    done: int
    right: int
    example: Example | None
    kind: str


def mine(
    reasoner: Reasoner,
    samples: Iterable[Labelled],
    *,
    api: str,
    seed: int = 0,
) -> Iterator[Mined]:
    """Runs each sample with one program and no self-tuning; yields what came of it.

    Args:
        reasoner: wired without examples (zero-shot).
        samples: labelled samples; a score above 0.5 counts as right.
        api: name of the API set.
        seed: of sampling, recorded with each example.
    """
    right = 0
    names = reasoner.components.library.api_set(api)
    for done, sample in enumerate(samples, start=1):
        query = sample.query
        result = reasoner.run(sample.media(), query.text, mining_options(query, api, seed))
        value = sample.score(result)
        first_try = len(result.trace.trials) == 1
        example = None
        if value > 0.5 and first_try and result.program:
            right += 1
            example = Example(
                query=query.text,
                program=result.program,
                task=result.trace.task,
                api=api,
                score=value,
                sample_id=query.sample_id or "",
                seed=seed,
                llm=reasoner.components.llm.model_id,
                api_hash=api_hash(names.entries(result.trace.task)),
                options=query.options,
            )
        yield Mined(done, right, example, sample.kind)


def mining_options(query: Query, api: str, seed: int) -> RunOptions:
    """One program a query, so that only what is right at once is kept."""
    return RunOptions(
        task=query.task,
        options=query.options,
        api=api,
        trials=1,
        seed=seed,
        sample_id=query.sample_id,
    )


def keep_best(mined: Iterable[Mined], keep: int) -> list[Example]:
    """At most ``keep`` examples a task: best score first, shorter programs first, kinds in turn.

    Programs that differ in names of things only are folded into one: the same kind
    of query comes again only after every other kind had its turn.
    """
    ranked = sorted(
        (item for item in mined if item.example is not None),
        key=lambda item: (
            -_example(item).score,
            len(_example(item).program),
            _example(item).sample_id,
        ),
    )
    seen: Counter[tuple[str, str]] = Counter()
    rounds = []
    for item in ranked:
        key = (_example(item).task, item.kind)
        rounds.append((seen[key], _example(item)))
        seen[key] += 1
    kept: list[Example] = []
    counts: Counter[str] = Counter()
    for _, example in sorted(rounds, key=lambda pair: pair[0]):
        if counts[example.task] < keep:
            counts[example.task] += 1
            kept.append(example)
    return kept


def _example(item: Mined) -> Example:
    assert item.example is not None
    return item.example
