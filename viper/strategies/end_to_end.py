"""Strategies that write no program: one or two models answer the query themselves.

They show what programs add over the models that programs call. Each is an
:class:`EndToEndStrategy` around one of the functions that ask a model; :func:`one_trial` runs it.

Source: Stanić et al. 2024, sec. 3, "Baselines" (table 1): the query to the detector; the question
to the VQA model; captions of a video's frames, with question and options, to a language model; the
language model alone. Differs: questions, choices and statements are all answered; a video whose
rate is unknown, such as an array, has captions of ``FRAMES`` evenly spread frames, not of one frame
per second, and a video of more than ``MOST_CAPTIONS`` seconds has that many.

One of them can answer if every trial of a program failed: :func:`fall_back`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from viper.errors import ToolError, UsageError
from viper.models.media import Media
from viper.sandbox import Ref
from viper.schema import Answer, Failure, Query, Trial
from viper.strategies.answers import read_answer
from viper.strategies.base import TOOL_STOPS, Components, RunContext, failure_of
from viper.tools.session import ToolSession, media_arguments

# Each frame costs a call of a model, and the short clips of the data sets change little between
# more of them.
FRAMES = 8

# Captions of a video, those of three minutes: each costs a call of a model, and all of them some
# 3,000 tokens of the language model's context.
MOST_CAPTIONS = 180

# Tasks whose answer is in words, which a model without programs can give.
WORDS = ("question", "choice", "statement")

# Answers a query with the tools of a session and returns the value that a program would return.
Ask = Callable[[ToolSession, Query], Any]


@dataclass
class EndToEndStrategy:
    """Answers a query by one call of `ask`, without a program.

    Attributes:
        media: kinds of media that it answers queries about.
        tasks: tasks that it answers.
    """

    name: str
    ask: Ask
    media: Collection[str] = ("image", "images", "video")
    tasks: Collection[str] = WORDS

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """Yield one trial.

        Raises:
            UsageError: the strategy answers no query of this task, or none about these media.
        """
        query = context.query
        if query.task not in self.tasks:
            raise UsageError(
                f"strategy {self.name} answers {_join(self.tasks)} queries only, got {query.task}; "
                "set another --strategy or --task"
            )
        if query.media not in self.media:
            words = {"image": "one picture", "images": "several pictures", "video": "a video"}
            expected = _join(words[kind] for kind in self.media)
            raise UsageError(
                f"strategy {self.name} answers queries about {expected} only, "
                f"got {words[query.media]}"
            )
        yield one_trial(components, context, self.ask)


def detector() -> EndToEndStrategy:
    """Detect the whole query as a phrase and answer the best box, whatever its score."""

    def best_box(session: ToolSession, query: Query) -> Any:
        session.thresholds["detector.threshold"] = 0.0
        boxes = session.call("find", (_pictures(session.media, 1)[0], query.text), {}, None)
        return boxes[0] if boxes else None

    return EndToEndStrategy("detector", best_box, ("image",), ("ground",))


def vqa() -> EndToEndStrategy:
    """Ask the VQA model about the picture, or about frames: the most frequent answer wins."""
    return EndToEndStrategy("vqa", partial(ask_vqa, frames=FRAMES), ("image", "video"))


def captions(frames: int = 0) -> EndToEndStrategy:
    """Ask the language model about captions of the VQA model: of the pictures, or of one frame per
    second of a video.

    Args:
        frames: number of evenly chosen frames instead of one per second.
    """

    def ask_captions(session: ToolSession, query: Query) -> Any:
        pictures = _frames(session.media, () if frames else _each_second(session.media))
        pictures = pictures or _pictures(session.media, frames or FRAMES)
        captions = [str(session.call("caption_image", (ref,), {}, None)) for ref in pictures]
        if query.media == "images":
            captions = [f"picture {number}: {text}" for number, text in enumerate(captions, 1)]
        return _answer_from(session, query, ". ".join(captions))

    return EndToEndStrategy("captions", ask_captions)


def description(asked: bool = True) -> EndToEndStrategy:
    """Ask the language model about the video model's description of the whole clip.

    Args:
        asked: the video model reads the query and describes what bears on it; otherwise it
            describes everything that happens.
    """

    def ask_video(session: ToolSession, query: Query) -> Any:
        clip = media_arguments(session.media)["video"]
        info = session.call("caption_video", (clip, query.text if asked else None), {}, None)
        return _answer_from(session, query, str(info))

    return EndToEndStrategy("description", ask_video, ("video",))


def language() -> EndToEndStrategy:
    """Ask the language model alone, to show how far the words of the query suffice."""
    return EndToEndStrategy("llm", partial(_answer_from, info=""))


def one_trial(components: Components, context: RunContext, ask: Ask) -> Trial:
    """Run a trial without a program; a failed tool results in a ``tool`` failure.

    Args:
        ask: returns the answer, or a Failure.

    Raises:
        CancelledError: ``context.cancel`` was set.
    """
    context.check_cancelled()
    started = time.perf_counter()
    session = components.toolbox.session(context.media, payer=context)
    value: Any = None
    try:
        value = answer = ask(session, context.query)
        if not isinstance(value, Failure):
            answer = read_answer(value, context.query, context.media, by="the model")
    except ToolError as error:
        last = session.calls[-1]
        answer = Failure("tool", str(error), tool=last.tool, call_index=last.index)
    except TOOL_STOPS as stop:
        answer = failure_of(stop)
    return trial_without_program(context, session, answer, value, started)


def trial_without_program(
    context: RunContext, session: ToolSession, result: Answer | Failure, value: Any, started: float
) -> Trial:
    """Return the trial of a session that has ended; the run bears the cost of its calls.

    Args:
        result: the value as an answer, or the reason why there is none.
        started: time on the performance counter when it began.
    """
    context.usage.model_calls += session.model_calls
    failure = result if isinstance(result, Failure) else None
    return Trial(
        index=0,
        program="",
        correction="first",
        ok=failure is None,
        failure=failure,
        thresholds=dict(session.thresholds),
        tool_calls=tuple(session.calls),
        stdout="",
        seconds=round(time.perf_counter() - started, 4),
        sizes=session.media.sizes,
        answer=None if isinstance(result, Failure) else result,
        value=None if failure else value,
    )


def ask_vqa(session: ToolSession, query: Query, frames: int) -> Any:
    """Return the VQA model's answer about the picture, or the most frequent one about ``frames``
    frames.

    Among equally frequent answers the earliest wins. For a choice the answer is used if it is an
    option; otherwise ``select_answer`` picks one from all answers in order.
    """
    question = _question(query)
    pictures = _pictures(session.media, frames)
    answers = [str(session.call("simple_query", (ref, question), {}, None)) for ref in pictures]
    commonest = Counter(answers).most_common(1)[0][0]
    answer = read_answer(commonest, query, session.media)
    if query.task == "choice" and isinstance(answer, Failure):
        return _answer_from(session, query, ", ".join(answers))
    return commonest


def _answer_from(session: ToolSession, query: Query, info: str) -> Any:
    """Return the language model's answer from ``info``; exactly one of the options, if there are
    any.
    """
    options = ["yes", "no"] if query.task == "statement" else list(query.options)
    if options:
        return session.call("select_answer", (info, _question(query), options), {}, None)
    keywords = {"context": info or None, "long_answer": False}
    return session.call("llm_query", (query.text,), keywords, None)


def _question(query: Query) -> str:
    """Return the query as a question; a statement becomes a question."""
    if query.task != "statement":
        return query.text
    statement = query.text.rstrip(" .!?")
    return f"is it true that {statement[:1].lower()}{statement[1:]}?"


def _pictures(media: Media, frames: int) -> list[Ref]:
    """Return the pictures, or ``frames`` evenly spread frames of the video, in order."""
    if media.video is None:
        return list(media_arguments(media)["image_list"])
    last = len(media.video) - 1
    spots = np.linspace(0, last, frames) if frames > 1 else np.array([last / 2])
    return _frames(media, (int(round(spot)) for spot in spots))


def _each_second(media: Media) -> list[int]:
    """Return the numbers of the kept frames next to each second; none if times are unknown."""
    if not media.times:
        return []
    times = np.array(media.times)
    seconds = np.arange(times[-1] + 1e-6)
    if len(seconds) > MOST_CAPTIONS:
        seconds = np.linspace(0, times[-1], MOST_CAPTIONS)
    return [int(np.abs(times - second).argmin()) for second in seconds]


def _frames(media: Media, numbers: Iterable[int]) -> list[Ref]:
    """Return frames of the video by their numbers, each once."""
    width, height = media.sizes.get("video0", (0, 0))
    return [Ref("image", (f"video0#{each}", width, height)) for each in dict.fromkeys(numbers)]


def _join(names: Iterable[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))


def fall_back(components: Components, context: RunContext, index: int) -> tuple[str, Trial] | None:
    """Run the fallback and return its name and its trial, or None if no fallback applies.

    It is off unless ``RunSettings.fallback``
    asks for it. Groundings in one picture get the average box; questions and choices about one
    picture or a video go to the VQA model. ``vipergpt`` repeats ViperGPT's published code. A trace
    names the fallback that answered, so that its scores can be told apart from those of programs
    alone.

    Source: Stanić et al. 2024, sec. 3, "Baselines", on ViperGPT's repository
    (github.com/cvlab-columbia/viper, ``datasets/refcoco.py``, ``prompts/fixed_code/``). There a
    grounding without a box is scored as the constant box (50.9, 39.1, 493.5, 356.5), in pixels with
    y up, whatever the picture; a failed program about a picture is replaced by a question to
    BLIP-2, and one about a video by a question about its middle frame.

    Differs: the box is that one as fractions of a picture of 640 x 480, or the profile's own,
    because pixels mean nothing on pictures of another size; ViperGPT's fixed program for RefCOCO,
    which first takes the detector's best box for the whole query, is the strategy ``detector``
    instead; options are not written into the question, and an answer that is not an option is
    matched to the options by the text model, not by word vectors.
    """
    query = context.query

    def average_box(session: ToolSession, query: Query) -> Ref:
        height, width = session.media.images[0].shape[:2]
        x0, y0, x1, y1 = context.settings.average_box
        return session.patch_ref("image0", (x0 * width, y0 * height, x1 * width, y1 * height))

    if context.settings.fallback == "none" or query.media == "images":
        return None
    if query.task == "ground" and query.media == "image":
        name, ask = "average_box", average_box
    elif query.task in ("question", "choice"):
        name, ask = "vqa", partial(ask_vqa, frames=1)
    else:
        return None
    trial = one_trial(components, context, ask)
    return name, replace(trial, index=index, correction="fallback")
