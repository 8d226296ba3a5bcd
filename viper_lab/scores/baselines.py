"""What the same models reach on the embedded world without any program."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from viper.evaluate.metrics.accuracy import answer_correct
from viper.models.media import Media, media_from
from viper.strategies.base import Components, RunContext, Strategy
from viper.strategies.end_to_end import (
    CaptionsStrategy,
    DescriptionStrategy,
    DetectorStrategy,
    LanguageStrategy,
    VqaStrategy,
)
from viper_lab.scores.samples import is_right
from viper_lab.world.queries.sample import WorldSample

PRIOR_SAMPLES = 600
"""Training samples from which the answer prior of the ``question_alone`` baseline is taken."""

Prior = Mapping[str, str]


def answer_prior(samples: Sequence[WorldSample]) -> Prior:
    """The most frequent answer of each query type: all that a question alone can tell."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        counts[sample.query_type][str(sample.answer)] += 1
    return {kind: answers.most_common(1)[0][0] for kind, answers in counts.items()}


def answer_chance(samples: Sequence[WorldSample]) -> Mapping[str, float]:
    """One over the number of different answers that each query type has."""
    seen: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        seen[sample.query_type].add(str(sample.answer))
    return {kind: 1 / len(answers) for kind, answers in seen.items()}


def baselines(
    components: Components, sample: WorldSample, pixels: Any, prior: Prior
) -> dict[str, bool]:
    """Whether each baseline of the sample's family is right; a failing tool is wrong."""
    media = media_from(pixels)
    found = {
        name: _right(strategy, components, sample, media)
        for name, strategy in _STRATEGIES[sample.family].items()
    }
    if sample.family == "question":
        found["question_alone"] = answer_correct(prior.get(sample.query_type), str(sample.answer))
    return found


def _right(strategy: Strategy, components: Components, sample: WorldSample, media: Media) -> bool:
    context = RunContext(sample.query, media, components.settings, threading.Event())
    for _ in strategy.trials(components, context):
        pass
    answer, _ = context.final_value or (None, None)
    return is_right(sample, answer)


_STRATEGIES: Mapping[str, Mapping[str, Strategy]] = {
    "referring": {"detector_on_query": DetectorStrategy()},
    "question": {"vqa_on_question": VqaStrategy()},
    "video": {
        "options_alone": LanguageStrategy(),
        "frame_captions": CaptionsStrategy(),
        "one_frame": CaptionsStrategy(frames=1),
        "clip_description": DescriptionStrategy(),
    },
}

TEXT_ALONE = {"question": "question_alone", "video": "options_alone"}
"""The baseline of a family that sees no picture."""
