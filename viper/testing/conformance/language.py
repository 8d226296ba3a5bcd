"""Suites for language models, text tools and video models.

Each ``check_…`` calls the backend in the order of the role's methods and requires one rule after
another: the shape of results, then repeatability, order and independence, then another thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import eq
from typing import Any

import numpy as np

from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.models.vision.roles import EventWindow, Pixels, VideoModel
from viper.testing.conformance.rules import (
    TOLERANCE,
    check_score,
    come_best_first,
    gives_nothing,
    keeps_identity,
    leaves_arrays_alone,
    lists_agree,
    require,
    works_in_another_thread,
)

# Begin code, a sentence and a series, and differ in length, so that padding shows.
PROMPTS = ("def execute_command(image):\n", "The opposite of left is", "1 2 3 4")
CONTINUATIONS = (" one", " two and a half", "3")
# Short, as a suite may run on a processor.
GREEDY = Sampling(max_tokens=12)
SAMPLED = Sampling(temperature=0.8, seed=7, max_tokens=12, n=3)
THREADS = 4


def check_llm(
    backend: Any,
    prompts: Sequence[str] = PROMPTS,
    *,
    repeats: bool = True,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a :class:`~viper.models.llm.protocol.LLM`.

    Args:
        prompts: at least two.
        repeats: False skips the rule that the same request gives the same text, which a shared
            server need not keep.
        tolerance: largest difference of a score between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """

    def texts(prompts: Sequence[str], sampling: Sampling) -> list[list[str]]:
        return [[item.text for item in each] for each in backend.generate(list(prompts), sampling)]

    with keeps_identity(backend, LLM):
        limit = backend.max_context
        require(isinstance(limit, int) and limit > 0, f"max_context must be above 0, not {limit!r}")
        gives_nothing("generate without prompts", lambda: backend.generate([], GREEDY))
        for sampling in (GREEDY, SAMPLED):
            _check_shape(backend.generate(list(prompts), sampling), len(prompts), sampling)
        if repeats:
            for name, sampling in (("temperature 0", GREEDY), ("one seed", SAMPLED)):
                first, second = (texts(prompts, sampling) for _ in range(2))
                require(first == second, f"the same request must give the same texts at {name}")
            first, turned = texts(prompts, GREEDY), texts(prompts[::-1], GREEDY)[::-1]
            require(first == turned, "completions must come in the order of the prompts")
            with ThreadPoolExecutor(THREADS) as pool:
                calls = [pool.submit(texts, prompts, GREEDY) for _ in range(THREADS)]
                same = all(call.result() == first for call in calls)
            require(same, "several threads at once must get what one gets alone")
            for prompt in prompts:
                if text := texts([prompt], GREEDY)[0][0]:
                    mark = text[len(text) // 2 :][:2]
                    cut = texts([prompt], replace(GREEDY, stop=(mark,)))[0][0]
                    rule = f"a text must end before the stop string {mark!r}"
                    require(cut == text[: text.index(mark)], f"{rule}: {text!r} became {cut!r}")
        gives_nothing("score of no continuations", lambda: backend.score(prompts[0], []))
        scores = backend.score(prompts[0], list(CONTINUATIONS))
        require(len(scores) == len(CONTINUATIONS), "score must give one number a continuation")
        good = all(isinstance(each, float) and math.isfinite(each) and each <= 0 for each in scores)
        require(good, f"scores must be log-likelihoods, none above 0, not {scores}")
        turned = backend.score(prompts[0], list(CONTINUATIONS[::-1]))[::-1]
        same = all(abs(a - b) <= tolerance for a, b in zip(scores, turned, strict=True))
        require(same, "scores must come in the order of the continuations and not depend on it")
        short, long = (backend.count_tokens(text) for text in ("one two", "one two " * 20))
        require(isinstance(short, int) and 0 < short < long, "more text must count more tokens")


def _check_shape(results: Sequence[Sequence[Completion]], prompts: int, sampling: Sampling) -> None:
    good = len(results) == prompts and all(len(each) == sampling.n for each in results)
    require(good, "generate must give n completions a prompt")
    for item in (item for each in results for item in each):
        require(isinstance(item.text, str), f"a completion must be text, not {item.text!r}")
        reason = item.finish_reason
        known = reason in ("stop", "length", "refusal")
        require(known, f"finish_reason must be stop, length or refusal, not {reason!r}")
        counts = item.prompt_tokens >= 0 and 0 <= item.completion_tokens <= sampling.max_tokens
        require(counts, f"token counts must keep to max_tokens {sampling.max_tokens}: {item}")


INFO = "There is a red cube on the table and a dog on the sofa."
QUESTION = "What is on the table?"
# None stands word for word in the text, one ends with a space: an option is returned as it is.
OPTIONS = ("a dog", "A red cube ", "nothing, really")


def check_text(backend: Any) -> None:
    """Check a backend of the text role (see :class:`~viper.tools.text.LanguageTool`).

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    with keeps_identity(backend):
        options = list(OPTIONS)
        chosen = backend.select(INFO, QUESTION, options)
        require(chosen in OPTIONS, f"select must give one of the options as it is, not {chosen!r}")
        require(options == list(OPTIONS), "select must leave the list of options as it is")
        repeated = backend.select(INFO, QUESTION, options)
        require(chosen == repeated, "select must choose alike when asked again")
        for option in OPTIONS:
            only = backend.select(INFO, QUESTION, [option])
            require(only == option, "select must take the only option")
        for context in (None, INFO):
            short = backend.answer(QUESTION, context=context, long_answer=False)
            good = isinstance(short, str) and "\n" not in short
            require(good, f"a short answer must be one line of text, not {short!r}")
            long = backend.answer(QUESTION, context=context, long_answer=True)
            require(isinstance(long, str), f"an answer must be text, not {long!r}")
        works_in_another_thread(lambda: backend.select(INFO, QUESTION, options), eq)


# The default phrases name nothing in the noise: the rules hold for weak windows too.
EVENTS = ("the red cube hits the blue ball", "a dog jumps on the sofa")

# The least score that video models report (:mod:`viper.models.vision.video_windows`).
MIN_SCORE = 0.01


def check_video(
    backend: Any,
    clips: Sequence[Pixels] | None = None,
    *,
    events: Sequence[str] = EVENTS,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a :class:`~viper.models.vision.roles.VideoModel`.

    Args:
        clips: uint8 [T, H, W, 3]; None takes a clip of noise and a single frame.
        events: phrases to search in each.
        tolerance: largest difference of a score between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    if clips is None:
        rng = np.random.default_rng(0)
        shapes = ((12, 48, 64, 3), (1, 40, 30, 3))
        clips = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]

    def located(encoding: Any) -> list[list[EventWindow]]:
        return [backend.locate(encoding, event) for event in events]

    def same_window(a: EventWindow, b: EventWindow) -> bool:
        return (a.start, a.end) == (b.start, b.end) and abs(a.score - b.score) <= tolerance

    agree = partial(lists_agree, agree=same_window)
    with keeps_identity(backend, VideoModel):
        leaves_arrays_alone(lambda copies: [backend.encode(clip) for clip in copies], clips)
        for clip in clips:
            encoding, frames = backend.encode(clip), len(clip)
            windows = located(encoding)
            for window in (window for each in windows for window in each):
                start, end = window.start, window.end
                whole = isinstance(start, int) and isinstance(end, int)
                rule = f"a window must hold whole frames of its clip of {frames}, end exclusive"
                require(whole and 0 <= start < end <= frames, f"{rule}, not [{start}, {end})")
                check_score(window.score, MIN_SCORE)
            for each in windows:
                come_best_first(each, "windows")
            repeated = located(encoding)
            require(
                agree(windows, repeated), "an encoding must give the same windows when asked again"
            )
            about = f"what happens when {events[0]}?"
            for start, question in ((0, None), (frames // 2, None), (0, about)):
                first, second = (
                    backend.describe(encoding, start, frames, question) for _ in range(2)
                )
                require(isinstance(first, str), f"a description must be text, not {first!r}")
                require(first == second, "a range must be described alike when asked again")
        works_in_another_thread(lambda: located(backend.encode(clips[0])), agree)
