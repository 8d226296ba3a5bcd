"""Strategies that write no program: one model, or two in a row, given the query itself.

They show what programs add over the models that programs call.

Source: Stanić et al. 2024, sec. 3, "Baselines" (table 1): the query to the detector; the
question to the VQA model; captions of a video's frames, with question and options, to a language
model; the language model alone. Differs: captions are of ``FRAMES`` evenly spread frames, not of
one a second; questions, choices and statements are all answered.

One of them can answer when every trial of a program failed: :func:`fall_back`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from viper.errors import CancelledError, ToolError, UsageError
from viper.models.media import Media
from viper.sandbox import Ref
from viper.schema import Failure, Query, Trial
from viper.strategies.answers import read_answer
from viper.strategies.base import Components, RunContext
from viper.tools.session import ToolSession

FRAMES = 8

WORDS = ("question", "choice", "statement")

Ask = Callable[[ToolSession, Query], Any]
"""Answers a query through the tools of a session, as a program would return it."""


class DetectorStrategy:
    """The whole query is the phrase to detect; its best box counts, whatever its score."""

    name = "detector"

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """One trial.

        Raises:
            UsageError: not a ``ground`` query about one picture.
        """
        _check(self.name, context.query, ("ground",), ("image",))
        yield one_trial(components, context, _best_box)


class VqaStrategy:
    """The VQA model's answer about the whole picture, or the commonest one about frames."""

    name = "vqa"

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """One trial; see :func:`ask_vqa`.

        Raises:
            UsageError: a query that words do not answer, or about several pictures.
        """
        _check(self.name, context.query, WORDS, ("image", "video"))
        yield one_trial(components, context, partial(ask_vqa, frames=FRAMES))


class CaptionsStrategy:
    """The language model answers from captions by the VQA model, and sees no picture.

    Args:
        frames: of a video, evenly spread; 1 takes the middle one.
    """

    name = "captions"

    def __init__(self, frames: int = FRAMES) -> None:
        self._frames = frames

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """One trial.

        Raises:
            UsageError: a query that words do not answer.
        """
        _check(self.name, context.query, WORDS, ("image", "images", "video"))
        yield one_trial(components, context, self._ask)

    def _ask(self, session: ToolSession, query: Query) -> Any:
        captions = [
            str(session.call("caption_image", (ref,), {}, None))
            for ref in _pictures(session.media, self._frames)
        ]
        if query.media == "images":
            captions = [f"picture {number}: {text}" for number, text in enumerate(captions, 1)]
        return _answer_from(session, query, ". ".join(captions))


class DescriptionStrategy:
    """The language model answers from what the video model says of the whole clip."""

    name = "description"

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """One trial.

        Raises:
            UsageError: not about a video, or a query that words do not answer.
        """
        _check(self.name, context.query, WORDS, ("video",))
        yield one_trial(components, context, _ask_video)


class LanguageStrategy:
    """The language model alone: how far the words of the query go without a look."""

    name = "llm"

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """One trial.

        Raises:
            UsageError: a query that words do not answer.
        """
        _check(self.name, context.query, WORDS, ("image", "images", "video"))
        yield one_trial(components, context, partial(_answer_from, info=""))


def one_trial(
    components: Components,
    context: RunContext,
    ask: Ask,
    index: int = 0,
    correction: str = "first",
) -> Trial:
    """A trial without a program; a tool that fails makes a ``tool`` failure.

    Args:
        ask: answers, or says itself what failed.

    Raises:
        CancelledError: ``context.cancel`` was set.
    """
    if context.cancel.is_set():
        raise CancelledError("the run was cancelled")
    started = time.perf_counter()
    session = components.toolbox.session(context.media, cancel=context.cancel)
    try:
        value = ask(session, context.query)
        read = value
        if not isinstance(value, Failure):
            read = read_answer(value, context.query, context.media, by="the model")
    except ToolError as error:
        last = session.calls[-1]
        read = Failure("tool", str(error), tool=last.tool, call_index=last.index)
    context.usage.model_calls += session.model_calls
    failure = read if isinstance(read, Failure) else None
    if failure is None:
        context.final_value = (read, value)
    return Trial(
        index=index,
        program="",
        correction=correction,
        ok=failure is None,
        failure=failure,
        thresholds=dict(session.thresholds),
        tool_calls=tuple(session.calls),
        stdout="",
        seconds=round(time.perf_counter() - started, 4),
    )


def ask_vqa(session: ToolSession, query: Query, frames: int) -> Any:
    """What the VQA model answers about the picture, or most often about so many frames.

    Of equally frequent answers the earliest counts. For a choice that answer stands if it is an
    option; else ``select_answer`` picks one by all answers in order.
    """
    question = _question(query)
    answers = [
        str(session.call("simple_query", (ref, question), {}, None))
        for ref in _pictures(session.media, frames)
    ]
    commonest = Counter(answers).most_common(1)[0][0]
    read = read_answer(commonest, query, session.media)
    if query.task == "choice" and isinstance(read, Failure):
        return _answer_from(session, query, ", ".join(answers))
    return commonest


def _best_box(session: ToolSession, query: Query) -> Any:
    session.thresholds["detector.threshold"] = 0.0
    found = session.call("find", (_pictures(session.media, 1)[0], query.text), {}, None)
    return found[0] if found else None


def _ask_video(session: ToolSession, query: Query) -> Any:
    video = session.media.video
    assert video is not None
    count, height, width = video.shape[:3]
    clip = Ref("video", ("video0", count, width, height))
    info = session.call("caption_video", (clip, query.text), {}, None)
    return _answer_from(session, query, str(info))


def _answer_from(session: ToolSession, query: Query, info: str) -> Any:
    """The language model's answer given what is known; one of the options, exactly, if any."""
    options = ["yes", "no"] if query.task == "statement" else list(query.options)
    if options:
        return session.call("select_answer", (info, _question(query), options), {}, None)
    known = {"context": info or None, "long_answer": False}
    return session.call("llm_query", (query.text,), known, None)


def _question(query: Query) -> str:
    """The query as a question; a statement becomes one."""
    if query.task != "statement":
        return query.text
    said = query.text.rstrip(" .!?")
    return f"is it true that {said[:1].lower()}{said[1:]}?"


def _pictures(media: Media, frames: int) -> list[Ref]:
    """The pictures, or so many frames of the video, evenly spread, in order."""
    if media.video is None:
        named = [(f"image{number}", picture) for number, picture in enumerate(media.images)]
    else:
        last = len(media.video) - 1
        spots = np.linspace(0, last, frames) if frames > 1 else np.array([last / 2])
        numbers = dict.fromkeys(int(round(spot)) for spot in spots)
        named = [(f"video0#{number}", media.video[number]) for number in numbers]
    return [Ref("image", (name, pixels.shape[1], pixels.shape[0])) for name, pixels in named]


def _check(name: str, query: Query, tasks: Collection[str], media: Collection[str]) -> None:
    if query.task not in tasks:
        raise UsageError(
            f"strategy {name} answers {_listed(tasks)} queries only, got {query.task}; "
            "set another --strategy or --task"
        )
    if query.media not in media:
        seen = {"image": "one picture", "images": "several pictures", "video": "a video"}
        looks_at = _listed(seen[kind] for kind in media)
        raise UsageError(
            f"strategy {name} answers queries about {looks_at} only, got {seen[query.media]}"
        )


def _listed(names: Iterable[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))


def fall_back(components: Components, context: RunContext, index: int) -> Trial | None:
    """The fallback's trial, ``context.fallback`` set where it answers; None where there is none.

    Off unless ``RunSettings.fallback`` asks for it. Groundings in one picture have the average
    box; questions and choices about one picture or a video the VQA model. ``vipergpt`` is what
    ViperGPT's published code does, so that its scores can be told apart from those of programs
    alone: a trace says in ``fallback`` which one answered.

    Source: Stanić et al. 2024, sec. 3, "Baselines", on ViperGPT's repository
    (github.com/cvlab-columbia/viper, ``datasets/refcoco.py``, ``prompts/fixed_code/``). There a
    grounding without a box is scored as the constant box (50.9, 39.1, 493.5, 356.5), in pixels with
    y up, whatever the picture; a failed program about a picture is replaced by a question to
    BLIP-2, one about a video by a question about its middle frame.

    Differs: the box is that one as fractions of a picture of 640 x 480, or the profile's own, since
    pixels mean nothing on pictures of another size; ViperGPT's fixed program for RefCOCO, which
    first takes the detector's best box for the whole query, is the strategy ``detector`` instead;
    options are not written into the question, and an answer that is none of them is matched to them
    by the text model, not by word vectors.
    """
    chosen = _chosen(context)
    if chosen is None:
        return None
    name, ask = chosen
    trial = one_trial(components, context, ask, index, correction="fallback")
    if trial.ok:
        context.fallback = name
    return trial


def _chosen(context: RunContext) -> tuple[str, Ask] | None:
    query = context.query
    if context.settings.fallback == "none" or query.media == "images":
        return None
    if query.task == "ground" and query.media == "image":
        return "average_box", partial(_average_box, fractions=context.settings.average_box)
    if query.task in ("question", "choice"):
        return "vqa", partial(ask_vqa, frames=1)
    return None


def _average_box(session: ToolSession, query: Query, fractions: tuple[float, ...]) -> Ref:
    height, width = session.media.images[0].shape[:2]
    x0, y0, x1, y1 = fractions
    return session.patch_ref("image0", (x0 * width, y0 * height, x1 * width, y1 * height))
