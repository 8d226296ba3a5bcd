"""Each rule for video, text and language models fires on a backend that breaks it."""

from __future__ import annotations

import threading
from itertools import count

import pytest
from breaking import blackens, broken, broken_identities, differs_by_thread, refuses_threads, writes

from viper.models.llm.protocol import Completion
from viper.models.llm.scripted import ScriptedLLM, cut_at_stop
from viper.models.vision.roles import EventWindow
from viper.testing.conformance import check_llm, check_text, check_video
from viper.tools.text import LanguageTool

NUMBERS = count()
"""For backends that never say the same twice."""


class GoodVideo:
    """Places an event by a pixel of the first frame."""

    model_id = "good"

    def encode(self, frames):
        return self.keep(frames)

    def keep(self, frames):
        return frames.copy()

    def locate(self, encoding, event):
        start = int(encoding[0, 0, 0, 0]) % len(encoding)
        weak = EventWindow(0, len(encoding), 0.01)
        return [EventWindow(start, start + 1, 0.5 + int(encoding[0, 1, 0, 0]) / 512), weak]

    def describe(self, encoding, start, end, question=None):
        return f"something between {start} and {end}."


def locating(change):
    good = GoodVideo()
    return broken(GoodVideo, locate=lambda _, *given: change(good.locate(*given)))


def window(start, end, score=0.5):
    return locating(lambda windows: [EventWindow(start, end, score)])


BROKEN_VIDEOS = [
    *broken_identities(GoodVideo),
    ("lacks a method of the role VideoModel", type("Half", (), {"model_id": "half"})()),
    ("whole frames of its clip of 12", window(3, 13)),
    ("whole frames of its clip", window(-1, 1)),
    ("whole frames of its clip", window(0, 0)),
    ("whole frames of its clip", window(0.0, 1.0)),
    (r"scores must lie in \[0.01, 1\], not at 2.0", window(0, 1, 2.0)),
    (r"scores must lie in \[0.01, 1\], not at 0.001", window(0, 1, 0.001)),
    ("windows must come best first", locating(lambda windows: windows[::-1])),
    (
        "the same windows when asked again",
        locating(lambda windows: windows if next(NUMBERS) % 3 else windows[:1]),
    ),
    ("a description must be text", broken(GoodVideo, describe=lambda *_: None)),
    ("described alike when asked again", broken(GoodVideo, describe=lambda *_: f"{next(NUMBERS)}")),
    ("must not be changed", broken(GoodVideo, keep=staticmethod(blackens))),
    ("read-only arrays must be accepted", broken(GoodVideo, keep=staticmethod(writes))),
    (
        "another thread must get the same answer",
        broken(GoodVideo, keep=staticmethod(differs_by_thread)),
    ),
    ("another thread must get an answer", broken(GoodVideo, keep=staticmethod(refuses_threads))),
]


class GoodText:
    """Takes the longest option."""

    model_id = "good"

    def select(self, info, question, options):
        return max(options, key=len)

    def answer(self, question, *, context, long_answer):
        return f"{question}\n{context}" if long_answer else question


def selecting(select):
    return broken(GoodText, select=lambda _, info, question, options: select(options))


def _in_main_thread():
    return threading.current_thread() is threading.main_thread()


BROKEN_TEXTS = [
    *broken_identities(GoodText),
    ("one of the options as it is", selecting(lambda options: max(options, key=len).upper())),
    ("one of the options as it is", selecting(lambda options: 0)),
    ("leave the list of options", selecting(lambda options: options.pop())),
    ("choose alike", selecting(lambda options: options[next(NUMBERS) % len(options)])),
    ("take the only option", selecting(lambda options: "a dog")),
    (
        "one line of text",
        broken(GoodText, answer=lambda _, question, **_more: f"{question}\n{question}"),
    ),
    ("one line of text", broken(GoodText, answer=lambda *_, **_more: None)),
    (
        "an answer must be text",
        broken(GoodText, answer=lambda *_, long_answer, **_more: None if long_answer else "a"),
    ),
    (
        "another thread must get the same answer",
        selecting(lambda options: options[0] if _in_main_thread() else options[-1]),
    ),
]


class GoodLLM:
    """Says the prompt backwards, a number of the sample before it where that is drawn."""

    model_id = "good"
    max_context = 64

    def generate(self, prompts, sampling):
        return [[self.one(prompt, i, sampling) for i in range(sampling.n)] for prompt in prompts]

    def one(self, prompt, index, sampling):
        drawn = f"{index}" if sampling.temperature else ""
        text = cut_at_stop((drawn + prompt[::-1])[: sampling.max_tokens], sampling.stop)
        return Completion(text, len(prompt), len(text))

    def score(self, prompt, continuations):
        return [-float(len(each)) for each in continuations]

    def count_tokens(self, text):
        return len(text)


def completing(change):
    """A language model whose completions go through ``change(completion, sampling)``."""
    good = GoodLLM()
    return broken(
        GoodLLM, one=lambda _, prompt, i, sampling: change(good.one(prompt, i, sampling), sampling)
    )


def generating(change):
    good = GoodLLM()
    return broken(
        GoodLLM, generate=lambda _, prompts, sampling: change(good.generate(prompts, sampling))
    )


def scoring(score):
    return broken(GoodLLM, score=lambda _, prompt, continuations: score(continuations))


class Unstable(GoodLLM):
    """Says something else each time, for requests of one kind."""

    def __init__(self, drawn):
        self._drawn, self._numbers = drawn, count()

    def one(self, prompt, index, sampling):
        said = super().one(prompt, index, sampling)
        if bool(sampling.temperature) != self._drawn:
            return said
        return Completion(f"{next(self._numbers)}", said.prompt_tokens, 1)


class Unsafe(GoodLLM):
    """Mixes up callers from other threads."""

    def one(self, prompt, index, sampling):
        return super().one(prompt if _in_main_thread() else "someone else's", index, sampling)


BROKEN_LLMS = [
    *broken_identities(GoodLLM),
    ("lacks a method of the role LLM", type("Half", (), {"model_id": "half"})()),
    ("max_context must be above 0", broken(GoodLLM, max_context=0)),
    ("max_context must be above 0", broken(GoodLLM, max_context=None)),
    (
        "generate without prompts must give an empty result",
        generating(lambda results: results or None),
    ),
    ("n completions a prompt", generating(lambda results: results[:1])),
    ("n completions a prompt", generating(lambda results: [each[:1] for each in results])),
    ("a completion must be text", completing(lambda *_: Completion(None, 0, 0))),
    ("finish_reason must be", completing(lambda *_: Completion("a", 0, 0, "eos"))),
    ("keep to max_tokens 12", completing(lambda *_: Completion("a", 0, 13))),
    ("keep to max_tokens 12", completing(lambda *_: Completion("a", -1, 1))),
    ("the same texts at temperature 0", Unstable(drawn=False)),
    ("the same texts at one seed", Unstable(drawn=True)),
    (
        "in the order of the prompts",
        generating(lambda results: sorted(results, key=lambda each: each[0].text)),
    ),
    ("several threads at once", Unsafe()),
    (
        "must end before the stop string",
        completing(lambda item, sampling: Completion(item.text + "".join(sampling.stop), 1, 1)),
    ),
    ("must end before the stop string", completing(lambda item, sampling: _ignoring(sampling))),
    (
        "score of no continuations must give an empty result",
        scoring(lambda texts: [-1.0] * max(1, len(texts))),
    ),
    ("one number a continuation", scoring(lambda texts: [-1.0] if texts else [])),
    ("must be log-likelihoods", scoring(lambda texts: [0.5 for _ in texts])),
    ("must be log-likelihoods", scoring(lambda texts: [float("-inf") for _ in texts])),
    (
        "in the order of the continuations",
        scoring(lambda texts: [-float(i) for i, _ in enumerate(texts)]),
    ),
    ("more text must count more tokens", broken(GoodLLM, count_tokens=lambda *_: 3)),
    ("more text must count more tokens", broken(GoodLLM, count_tokens=lambda *_: 0)),
]


def _ignoring(sampling):
    return Completion("said in any case", 1, 1)


@pytest.mark.parametrize(
    ("check", "backend"),
    [
        (check_video, GoodVideo()),
        (check_text, GoodText()),
        (check_text, LanguageTool(ScriptedLLM(lambda prompt: "yes"))),
        (check_llm, GoodLLM()),
        (check_llm, ScriptedLLM(lambda prompt: f"{len(prompt)} characters")),
    ],
)
def test_a_good_backend_passes(check, backend) -> None:
    check(backend)


@pytest.mark.parametrize(
    ("check", "rule", "backend"),
    [
        *((check_video, *case) for case in BROKEN_VIDEOS),
        *((check_text, *case) for case in BROKEN_TEXTS),
        *((check_llm, *case) for case in BROKEN_LLMS),
    ],
)
def test_a_broken_rule_is_named(check, rule, backend) -> None:
    with pytest.raises(AssertionError, match=rule):
        check(backend)


def test_a_server_that_repeats_nothing_passes_where_that_is_said() -> None:
    check_llm(Unstable(drawn=False), repeats=False)
