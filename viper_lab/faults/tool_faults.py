"""Samples one mistake of a tool about a call of a program.

The confidence of a mistake is sampled uniformly, from slightly above the right answer's to full:
nothing is assumed about the confidence of real mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np

from viper.models.vision.roles import EventWindow
from viper.schema import Query, ToolCall
from viper.tools import candidates, tool_functions
from viper.tools.call_log import from_plain, plain
from viper.tools.session import Region, ToolSession
from viper.tools.tool_functions import (
    detections,
    information,
    matcher_embedding,
    property_family,
    similarities,
    text_embedding,
)
from viper_lab.faults.faulty_toolbox import (
    FaultyDepth,
    FaultyOutput,
    FaultyScores,
    FaultyText,
    ToolFault,
)

# Highest score of a false box; the detector's own boxes rarely score higher.
HIGHEST_SCORE = 0.95

_LOWEST_SCORE = 0.01
_FARTHEST_BEYOND = 0.15
_NEAREST = 3

# Description of the mistake, and the mistake itself.
SampledFault = tuple[str, ToolFault]


class FaultSampler:
    """Samples mistakes about the calls of one run.

    Args:
        session: of the true tools, with the run's thresholds.
        log: of the run.
    """

    def __init__(self, session: ToolSession, query: Query, log: list[ToolCall]) -> None:
        self.session, self.query, self.log = session, query, log

    def sample(self, call: ToolCall, random: Random) -> SampledFault | None:
        """Sample a mistake about a call; None if none is possible."""
        draw = _DRAWS.get(call.tool)
        return None if draw is None else draw(self, call, random)

    def replay(self, call: ToolCall) -> Any:
        """Repeat a logged call and return the result in the form of the log.

        Raises:
            ToolError: the tool refuses the call.
        """
        args = tuple(from_plain(value) for value in call.args)
        kwargs = {name: from_plain(value) for name, value in call.kwargs.items()}
        return plain(self.session.nested(call.tool, args, kwargs))

    def region(self, call: ToolCall) -> Region:
        return self.session.region(from_plain(call.args[0]))


# Least and greatest probability of the wrong one of two answers.
_SURENESS = (0.5, 0.999)


def _find(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    session, region, name = sampler.session, sampler.region(call), str(call.args[1]).strip()
    threshold = session.threshold("detector.threshold")
    hits = detections(session, region, name)
    phrases = {name}
    if name.endswith("s") and all(item.score < threshold for item in hits):
        phrases.add(name[:-1])
        hits = detections(session, region, name[:-1])
    dx, dy = (0, 0) if session.toolbox.settings.find_scope == "whole" else region.box[:2]
    boxes = [(x0 - dx, y0 - dy, x1 - dx, y1 - dy) for x0, y0, x1, y1 in (hit.box for hit in hits)]
    strong = [place for place, item in enumerate(hits) if item.score >= threshold]
    weaker = [place for place, item in enumerate(hits) if item.score < threshold]
    kinds: list[tuple[str, dict[int, float]]] = []
    if strong:
        place = random.choice(strong)
        kinds.append(("a box missed", {place: random.uniform(_LOWEST_SCORE, threshold)}))
    if weaker:
        place = random.choice(weaker[:_NEAREST])
        kinds.append(("a box too many", {place: random.uniform(threshold, HIGHEST_SCORE)}))
    if len(strong) > 1:
        place = random.choice(strong[1:])
        kinds.append(("boxes misranked", {0: hits[place].score, place: hits[0].score}))
    if not kinds:
        return None
    what, scores = random.choice(kinds)
    altered = {boxes[place]: score for place, score in scores.items()}
    return what, FaultyScores(frozenset(phrases), altered)


def _embedding(
    sampler: FaultSampler, region: Region, texts: tuple[str, str], random: Random
) -> FaultyOutput:
    """Move the crop along the line between two texts until the second fits better."""
    session = sampler.session
    right, wrong = (text_embedding(session, text) for text in texts)
    own, apart = matcher_embedding(session, region), wrong - right
    scale = float(session.toolbox.models.trait("matcher", "logit_scale"))
    sure = random.uniform(*_SURENESS)
    margin = math.log(sure / (1 - sure)) / scale
    moved = own + (margin - own @ apart) / max(float(apart @ apart), 1e-6) * apart
    unit = (moved / np.linalg.norm(moved)).astype(np.float32)
    return FaultyOutput("matcher", "encode_images", (region.image_id, region.box), unit)


def _verify_property(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    name, value = str(call.args[1]).strip(), str(call.args[2]).strip()
    family = property_family(sampler.session, value)
    texts = {word: f"{word} {name}".strip() for word in family}
    others = [word for word in family if word != value]
    if not others:
        return None
    region = sampler.region(call)
    if call.result:
        pair = (texts[value], texts[random.choice(others)])
    else:
        fits = similarities(sampler.session, [region], list(texts.values()))[0]
        pair = (list(texts.values())[int(np.argmax(fits))], texts[value])
    return "a property misjudged", _embedding(sampler, region, pair, random)


def _best_text_match(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    others = [str(option) for option in call.args[1] if option != call.result]
    if not others:
        return None
    pair = (str(call.result), random.choice(others))
    return "a text mismatched", _embedding(sampler, sampler.region(call), pair, random)


def _simple_query(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    patch = from_plain(call.args[0])
    if patch.kind in ("segment", "video"):
        return _caption_video(sampler, call, random)
    session, region = sampler.session, sampler.region(call)
    question = str(call.args[1]).strip() if len(call.args) > 1 else "what is this?"
    families = session.toolbox.settings.attribute_families
    family = next((words for words in families if call.result in words), ())
    if len(family) < 2:
        return None
    scores = candidates.answer_likelihoods(session, patch, question, family)
    if scores is None:
        return None
    ranked = sorted(zip(scores, family, strict=True), reverse=True)
    answer = random.choice([word for _, word in ranked if word != call.result][:_NEAREST])
    likely = dict(zip(family, scores, strict=True))
    total = float(np.logaddexp(likely[answer], likely[call.result]))
    key = (session.media.content_hash(region.image_id), region.box, question)
    wrong = FaultyText("vqa", key, call.result, answer, random.uniform(*_SURENESS), total)
    return "a wrong answer", wrong


def _compute_depth(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    own = float(call.result)
    calls = [c for c in sampler.log if c.tool == call.tool and c.result != call.result]
    depths = {float(c.result) for c in calls}
    if not depths or own <= 0:
        return None
    nearest = sorted(depths, key=lambda depth: abs(math.log(depth / own)))[:_NEAREST]
    other = random.choice(nearest)
    beyond = math.exp(math.copysign(random.uniform(0, _FARTHEST_BEYOND), other - own))
    region = sampler.region(call)
    return "a depth misjudged", FaultyDepth(region.image_id, region.box, other * beyond / own)


def _locate_event(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    session, phrase = sampler.session, str(call.args[1]).strip()
    threshold = session.threshold("video.threshold")
    windows = tool_functions.windows(session, from_plain(call.args[0]), phrase)
    if not windows:
        return None
    key = (session.media.content_hash(session.segment(from_plain(call.args[0]))[0]), phrase)
    first, *others = windows
    if others and random.random() < 0.5:
        other = random.choice(others[:_NEAREST])
        swapped = EventWindow(other.start, other.end, first.score)
        lower = EventWindow(first.start, first.end, random.uniform(0.01, first.score))
        rest = [window for window in others if window is not other]
        ranked = sorted([lower, *rest], key=lambda window: -window.score)
        return "another window", FaultyOutput("video", "locate", key, [swapped, *ranked])
    if first.score < threshold:
        return None
    weak = random.uniform(_LOWEST_SCORE, threshold) / first.score
    lowered = [EventWindow(w.start, w.end, w.score * weak) for w in windows]
    return "an event missed", FaultyOutput("video", "locate", key, lowered)


def _caption_video(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    session = sampler.session
    name, start, end = session.segment(from_plain(call.args[0]))
    caption = str(call.result)
    question = next((str(text).strip() for text in call.args[1:2] if text is not None), None)
    sentences = [part for part in caption.rstrip(".").split(". ") if part]
    shorter = (". ".join(sentences[:n] + sentences[n + 1 :]) for n in range(len(sentences)))
    others = (text for text in sampler.query.options if text not in caption)
    wrong = [text for text in (*shorter, *others) if text]
    if not wrong:
        return None
    key = (session.media.content_hash(name), start, end, question)
    text, sureness = f"{random.choice(wrong)}.", random.uniform(*_SURENESS)
    return "a wrong description", FaultyText("video", key, caption, text, sureness)


def _select_answer(sampler: FaultSampler, call: ToolCall, random: Random) -> SampledFault | None:
    options = [str(option).strip() for option in call.args[2]]
    others = [option for option in options if option != call.result]
    if not others:
        return None
    key = ("select", information(call.args[0]), str(call.args[1]), tuple(options))
    answer, sureness = random.choice(others), random.uniform(*_SURENESS)
    return "a wrong choice", FaultyText("text", key, str(call.result), answer, sureness)


_DRAWS: Mapping[str, Callable[[FaultSampler, ToolCall, Random], SampledFault | None]] = {
    "find": _find,
    "verify_property": _verify_property,
    "best_text_match": _best_text_match,
    "simple_query": _simple_query,
    "compute_depth": _compute_depth,
    "locate_event": _locate_event,
    "caption_video": _caption_video,
    "select_answer": _select_answer,
}
