"""Suites for language models, text tools and video models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import eq
from typing import Any

import numpy as np

from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.models.vision.roles import EventWindow, Pixels, VideoModel
from viper.testing.conformance.rules import (
    TOLERANCE,
    gives_nothing,
    is_chance,
    keeps_identity,
    leaves_arrays_alone,
    require,
    works_in_another_thread,
)

PROMPTS = ("def execute_command(image):\n", "The opposite of left is", "1 2 3 4")
CONTINUATIONS = (" one", " two and a half", "3")
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
    with keeps_identity(backend, LLM):
        limit = backend.max_context
        require(isinstance(limit, int) and limit > 0, f"max_context must be above 0, not {limit!r}")
        gives_nothing("generate without prompts", lambda: backend.generate([], GREEDY))
        for sampling in (GREEDY, SAMPLED):
            _check_shape(backend.generate(list(prompts), sampling), len(prompts), sampling)
        if repeats:
            _check_repeats(backend, prompts)
            _check_stop(backend, prompts)
        _check_scores(backend, prompts[0], tolerance)
        _check_counts(backend)


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


def _check_repeats(backend: Any, prompts: Sequence[str]) -> None:
    for name, sampling in (("temperature 0", GREEDY), ("one seed", SAMPLED)):
        first, second = (_texts(backend, prompts, sampling) for _ in range(2))
        require(first == second, f"the same request must give the same texts at {name}")
    first = _texts(backend, prompts, GREEDY)
    turned = _texts(backend, prompts[::-1], GREEDY)[::-1]
    require(first == turned, "completions must come in the order of the prompts")
    with ThreadPoolExecutor(THREADS) as pool:
        calls = [pool.submit(_texts, backend, prompts, GREEDY) for _ in range(THREADS)]
        same = all(call.result() == first for call in calls)
    require(same, "several threads at once must get what one gets alone")


def _check_stop(backend: Any, prompts: Sequence[str]) -> None:
    for prompt in prompts:
        text = _texts(backend, [prompt], GREEDY)[0][0]
        if not text:
            continue
        mark = text[len(text) // 2 :][:2]
        cut = _texts(backend, [prompt], replace(GREEDY, stop=(mark,)))[0][0]
        require(
            cut == text[: text.index(mark)],
            f"a text must end before the stop string {mark!r}: {text!r} became {cut!r}",
        )


def _texts(backend: Any, prompts: Sequence[str], sampling: Sampling) -> list[list[str]]:
    return [[item.text for item in each] for each in backend.generate(list(prompts), sampling)]


def _check_scores(backend: Any, prompt: str, tolerance: float) -> None:
    gives_nothing("score of no continuations", lambda: backend.score(prompt, []))
    scores = backend.score(prompt, list(CONTINUATIONS))
    require(len(scores) == len(CONTINUATIONS), "score must give one number a continuation")
    good = all(isinstance(each, float) and math.isfinite(each) and each <= 0 for each in scores)
    require(good, f"scores must be log-likelihoods, none above 0, not {scores}")
    turned = backend.score(prompt, list(CONTINUATIONS[::-1]))[::-1]
    same = all(abs(a - b) <= tolerance for a, b in zip(scores, turned, strict=True))
    require(same, "scores must come in the order of the continuations and not depend on it")


def _check_counts(backend: Any) -> None:
    short, long = (backend.count_tokens(text) for text in ("one two", "one two " * 20))
    require(isinstance(short, int) and 0 < short < long, "more text must count more tokens")


INFO = "There is a red cube on the table and a dog on the sofa."
QUESTION = "What is on the table?"
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


EVENTS = ("the red cube hits the blue ball", "a dog jumps on the sofa")
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
    clips = _noise() if clips is None else clips
    with keeps_identity(backend, VideoModel):
        leaves_arrays_alone(lambda copies: [backend.encode(clip) for clip in copies], clips)
        agree = partial(_same, tolerance=tolerance)
        for clip in clips:
            encoding = backend.encode(clip)
            windows = _located(backend, encoding, events)
            for each in windows:
                _are_well_formed(each, len(clip))
            repeated = _located(backend, encoding, events)
            require(
                agree(windows, repeated), "an encoding must give the same windows when asked again"
            )
            _check_descriptions(backend, encoding, len(clip), events[0])
        works_in_another_thread(lambda: _located(backend, backend.encode(clips[0]), events), agree)


def _noise() -> list[Pixels]:
    rng = np.random.default_rng(0)
    shapes = ((12, 48, 64, 3), (1, 40, 30, 3))
    return [rng.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]


def _located(backend: Any, encoding: Any, events: Sequence[str]) -> list[list[EventWindow]]:
    return [backend.locate(encoding, event) for event in events]


def _are_well_formed(windows: Sequence[EventWindow], frames: int) -> None:
    for item in windows:
        whole = isinstance(item.start, int) and isinstance(item.end, int)
        inside = whole and 0 <= item.start < item.end <= frames
        require(
            inside,
            f"a window must hold whole frames of its clip of {frames}, end exclusive, "
            f"not [{item.start}, {item.end})",
        )
        good = is_chance(item.score) and item.score >= MIN_SCORE
        require(good, f"scores must lie in [{MIN_SCORE}, 1], not at {item.score!r}")
    ordered = all(first.score >= second.score for first, second in pairwise(windows))
    require(ordered, "windows must come best first")


def _check_descriptions(backend: Any, encoding: Any, frames: int, event: str) -> None:
    for start, question in ((0, None), (frames // 2, None), (0, f"what happens when {event}?")):
        text = backend.describe(encoding, start, frames, question)
        require(isinstance(text, str), f"a description must be text, not {text!r}")
        repeated = backend.describe(encoding, start, frames, question)
        require(text == repeated, "a range must be described alike when asked again")


def _same(
    left: Sequence[Sequence[EventWindow]], right: Sequence[Sequence[EventWindow]], tolerance: float
) -> bool:
    return all(
        len(first) == len(second)
        and all(
            (a.start, a.end) == (b.start, b.end) and abs(a.score - b.score) <= tolerance
            for a, b in zip(first, second, strict=True)
        )
        for first, second in zip(left, right, strict=True)
    )
