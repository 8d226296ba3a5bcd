"""What the same models reach on the embedded world without any program."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.evaluate.scorers import answer_correct, ground_correct
from viper.sandbox import Ref
from viper.schema import Box
from viper.tools.hub import HubSession, ToolHub
from viper.tools.media import media_from
from viper.world.queries.sample import WorldSample

PRIOR_SAMPLES = 600
"""Training samples from which the answer prior of the ``question_alone`` baseline is taken."""

CAPTIONED_FRAMES = 8

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


def baselines(hub: ToolHub, sample: WorldSample, pixels: Any, prior: Prior) -> dict[str, bool]:
    """Whether each baseline of the sample's family is right; a failing tool is wrong."""
    session = hub.session(media_from(pixels))
    return {
        name: _tried(method, session, sample, prior)
        for name, method in _METHODS[sample.family].items()
    }


def _tried(method: Any, session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    try:
        return bool(method(session, sample, prior))
    except ToolError:
        return False


def _whole(session: HubSession) -> Ref:
    height, width = session.media.images[0].shape[:2]
    return Ref("image", ("image0", width, height))


def _detector(session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    session.thresholds["detector.threshold"] = 0.0
    found = session.call("find", (_whole(session), sample.text), {}, None)
    if not found or sample.box is None:
        return False
    box = Box(*found[0].fields[1:5]).to_pixels(session.media.images[0].shape[0])
    return ground_correct(box, sample.box)


def _vqa(session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    answer = session.call("simple_query", (_whole(session), sample.text), {}, None)
    return answer_correct(answer, str(sample.answer))


def _question_alone(session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    return answer_correct(prior.get(sample.query_type), str(sample.answer))


def _select(session: HubSession, sample: WorldSample, info: str) -> bool:
    chosen = session.call("select_answer", (info, sample.text, list(sample.options)), {}, None)
    return bool(sample.options.index(chosen) == sample.answer)


def _options_alone(session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    return _select(session, sample, "")


def _frame_captions(session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    return _select(session, sample, _captions(session, CAPTIONED_FRAMES))


def _one_frame(session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    return _select(session, sample, _captions(session, 1))


def _clip_description(session: HubSession, sample: WorldSample, prior: Prior) -> bool:
    assert session.media.video is not None
    clip = Ref("video", ("video0", len(session.media.video), 0, 0))
    info = session.call("caption_video", (clip, sample.text), {}, None)
    return _select(session, sample, info)


def _captions(session: HubSession, count: int) -> str:
    """Captions of evenly spread frames, by the model that answers questions about pictures."""
    video = session.media.video
    assert video is not None
    spots = (
        np.linspace(0, len(video) - 1, count + 2)[1:-1]
        if count == 1
        else np.linspace(0, len(video) - 1, count)
    )
    frames = [video[int(round(spot))] for spot in spots]
    with session.hub.models.using("vqa") as vqa:
        return ". ".join(vqa.caption(vqa.encode(frames)))


_METHODS: Mapping[str, Mapping[str, Callable[[HubSession, WorldSample, Prior], bool]]] = {
    "referring": {"detector_on_query": _detector},
    "question": {"vqa_on_question": _vqa, "question_alone": _question_alone},
    "video": {
        "options_alone": _options_alone,
        "frame_captions": _frame_captions,
        "one_frame": _one_frame,
        "clip_description": _clip_description,
    },
}

TEXT_ALONE = {"question": "question_alone", "video": "options_alone"}
"""The baseline of a family that sees no picture."""
