"""The score of the embedded world: answers by family, failures by kind, baselines."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.metrics.accuracy import answer_correct, right_by_task
from viper.evaluate.sample_result import Prediction
from viper.models.media import Media, media_from
from viper.models.vision.vqa_blip import BlipAnswerer
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Answer
from viper.strategies.base import Components, RunContext, Strategy, answering_trial
from viper.strategies.end_to_end import captions, description, detector, language, vqa
from viper_lab.datasets.world import world_media, world_sample
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.queries.sample import WorldSample


@dataclass(frozen=True)
class ScoredSample:
    """One sample with its result; ``error`` is set if the run itself broke."""

    sample: WorldSample
    right: bool
    result: RunResult | None
    baselines: dict[str, bool]
    error: str | None = None

    @property
    def outcome(self) -> str:
        """Return ``right``, ``wrong`` (an answer, but not the right one) or the failure's kind."""
        if self.error is not None:
            return "error"
        if self.right:
            return "right"
        failure = self.result.failure if self.result is not None else None
        return failure.kind if failure is not None else "wrong"


@dataclass(frozen=True)
class ScoreRequest:
    """Samples to score: a fresh set drawn by ``seed``, ``limit`` samples in all.

    Attributes:
        vqa_baseline: weights of ``viper_lab.recipes.vqa_baseline`` to score among the baselines.
    """

    split: str = "test"
    seed: int = 0
    limit: int = 600
    with_baselines: bool = False
    vqa_baseline: Path | None = None
    workers: int = 2
    families: tuple[str, ...] = FAMILIES


def draw(request: ScoreRequest) -> list[WorldSample]:
    """Draw the samples of a request, the same number for every family."""
    each = max(1, request.limit // len(request.families))
    return [
        sample
        for family in request.families
        for sample in generate(family, request.split, request.seed, each)
    ]


def score_samples(
    reasoner: Reasoner,
    samples: Sequence[WorldSample],
    request: ScoreRequest,
    on_done: Callable[[ScoredSample], None] | None = None,
) -> list[ScoredSample]:
    """Answer every sample; one that breaks counts as wrong and keeps its error."""
    rivals = _rivals(reasoner.components, request) if request.with_baselines else None
    lock = threading.Lock()

    def score(sample: WorldSample) -> ScoredSample:
        scored = _score_one(reasoner, sample, rivals)
        if on_done is not None:
            with lock:
                on_done(scored)
        return scored

    with ThreadPoolExecutor(max(1, request.workers)) as pool:
        futures = [pool.submit(score, sample) for sample in samples]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def _rivals(components: Components, request: ScoreRequest) -> Callable[..., dict[str, bool]]:
    """Return what scores the baselines on a sample and its pixels."""
    prior, trained = {}, None
    if "question" in request.families:
        prior = dict(answer_prior(generate("question", "train", 0, PRIOR_SAMPLES)))
    if request.vqa_baseline is not None:
        answerer = BlipAnswerer.from_pretrained(request.vqa_baseline)
        trained = replace(
            components, toolbox=components.toolbox.with_roles({"vqa": lambda: answerer})
        )
    return partial(baselines, components, prior=prior, trained=trained)


def _score_one(
    reasoner: Reasoner, sample: WorldSample, rivals: Callable[..., dict[str, bool]] | None
) -> ScoredSample:
    pixels = world_media(sample)()
    query = sample.query
    baseline_hits: dict[str, bool] = {}
    try:
        options = RunOptions(task=query.task, options=query.options, sample_id=query.sample_id)
        result = reasoner.run(pixels, query.text, options)
        if rivals is not None:
            baseline_hits = rivals(sample, pixels)
    except Exception as error:  # noqa: BLE001  (boundary: one sample must not end the set)
        return ScoredSample(sample, False, None, baseline_hits, f"{type(error).__name__}: {error}")
    return ScoredSample(sample, is_right(sample, result.answer), result, baseline_hits)


def report(scored: Sequence[ScoredSample], request: ScoreRequest) -> dict[str, Any]:
    """Return ``overall``, ``families``, ``query_types``, ``failures`` and ``baselines``."""
    by_type: dict[str, list[bool]] = defaultdict(list)
    for item in scored:
        by_type[f"{item.sample.family}/{item.sample.query_type}"].append(item.right)
    figures: dict[str, Any] = {
        "overall": _share(item.right for item in scored),
        "families": {
            family: _share(item.right for item in scored if item.sample.family == family)
            for family in request.families
        },
        "query_types": {name: _share(hits) for name, hits in sorted(by_type.items())},
        "steps": {
            "one": _share(item.right for item in scored if item.sample.steps <= 1),
            "two_or_more": _share(item.right for item in scored if item.sample.steps >= 2),
        },
        "failures": {
            kind: proportion(count, len(scored))
            for kind, count in Counter(item.outcome for item in scored).most_common()
            if kind != "right"
        },
    }
    if request.with_baselines:
        figures["baselines"] = {family: _baselines(scored, family) for family in request.families}
    return figures


def _baselines(scored: Sequence[ScoredSample], family: str) -> dict[str, Any]:
    mine = [item for item in scored if item.sample.family == family]
    names = list(dict.fromkeys(name for item in mine for name in item.baselines))
    rows: dict[str, Any] = {
        name: _share(item.baselines.get(name, False) for item in mine) for name in names
    }
    if family in TEXT_ALONE:
        rows["chance"] = _chance([item.sample for item in mine])
    return rows


def _chance(samples: Sequence[WorldSample]) -> Estimate:
    if all(sample.options for sample in samples):
        values = [1 / len(sample.options) for sample in samples]
    else:
        by_type = answer_chance(samples)
        values = [by_type[sample.query_type] for sample in samples]
    value = sum(values) / max(len(values), 1)
    return Estimate(value, len(values), value, value)


def _share(hits: Iterable[bool]) -> Estimate:
    values = list(hits)
    return proportion(sum(values), len(values))


def is_right(sample: WorldSample, answer: Answer | None) -> bool:
    """Return whether an answer is right, by the metric of the data set ``world``."""
    return answer is not None and right_by_task(world_sample(sample), Prediction.of(answer))


# Number of training samples for the answer prior of the ``question_alone`` baseline.
PRIOR_SAMPLES = 600

Prior = Mapping[str, str]


def answer_prior(samples: Sequence[WorldSample]) -> Prior:
    """Return the most frequent answer of each query type, the best guess without a picture."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        counts[sample.query_type][str(sample.answer)] += 1
    return {kind: answers.most_common(1)[0][0] for kind, answers in counts.items()}


def answer_chance(samples: Sequence[WorldSample]) -> Mapping[str, float]:
    """Return one over the number of different answers of each query type."""
    answers_by_type: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        answers_by_type[sample.query_type].add(str(sample.answer))
    return {kind: 1 / len(answers) for kind, answers in answers_by_type.items()}


def baselines(
    components: Components,
    sample: WorldSample,
    pixels: Any,
    prior: Prior,
    trained: Components | None = None,
) -> dict[str, bool]:
    """Return whether each baseline of the sample's family is right; a failing tool is wrong.

    Args:
        trained: the components with a VQA model that was trained on questions of this family.
    """
    media = media_from(pixels)
    answers = {
        name: _right(strategy, components, sample, media)
        for name, strategy in _STRATEGIES[sample.family].items()
    }
    if sample.family == "question":
        if trained is not None:
            answers["vqa_trained_on_questions"] = _right(vqa(), trained, sample, media)
        answers["question_alone"] = answer_correct(prior.get(sample.query_type), str(sample.answer))
    return answers


def _right(strategy: Strategy, components: Components, sample: WorldSample, media: Media) -> bool:
    context = RunContext(sample.query, media, components.settings, threading.Event())
    answering = answering_trial(strategy.trials(components, context))
    return is_right(sample, None if answering is None else answering.answer)


_STRATEGIES: Mapping[str, Mapping[str, Strategy]] = {
    "referring": {"detector_on_query": detector()},
    "question": {"vqa_on_question": vqa()},
    "video": {
        "options_alone": language(),
        "frame_captions": captions(),
        "one_frame": captions(frames=1),
        "clip_description": description(),
        "clip_events": description(asked=False),
    },
}

# The baseline of each family that sees no picture.
TEXT_ALONE = {"question": "question_alone", "video": "options_alone"}
