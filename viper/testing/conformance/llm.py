"""The rules of a language model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from viper.llm.protocol import LLM, Completion, Sampling
from viper.testing.conformance.rules import TOLERANCE, gives_nothing, keeps_identity, require

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
    """Checks a :class:`~viper.llm.protocol.LLM`.

    Args:
        prompts: at least two.
        repeats: False leaves out that the same request gives the same text, which a
            shared server need not keep.
        tolerance: what a score may differ by between runs.

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
        require(
            reason in ("stop", "length"), f"finish_reason must be stop or length, not {reason!r}"
        )
        counts = item.prompt_tokens >= 0 and 0 <= item.completion_tokens <= sampling.max_tokens
        require(counts, f"token counts must keep to max_tokens {sampling.max_tokens}: {item}")


def _check_repeats(backend: Any, prompts: Sequence[str]) -> None:
    for name, sampling in (("temperature 0", GREEDY), ("one seed", SAMPLED)):
        first, again = (_texts(backend, prompts, sampling) for _ in range(2))
        require(first == again, f"the same request must give the same texts at {name}")
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
