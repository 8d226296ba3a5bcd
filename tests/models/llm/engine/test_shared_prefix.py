"""Decoding together, ahead and with shared beginnings gives what plain decoding gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from families import CONTEXT, OTHERS, SHARING, Plain, save

from viper.models.llm.protocol import Sampling
from viper.models.llm.transformers_llm import TransformersLLM

pytestmark = pytest.mark.usefixtures("one_thread")

BEGIN = "# query: the red cube of the blicket\ndef execute_command(image):\n"
ENDS = ["", "d", "    return", "    return image.find('cube')\n", "the dax wug", "blicket" * 5]
MIXED = [*(BEGIN + end for end in ENDS), "d", "the cube", BEGIN, "wug", "# query", BEGIN + "d"]
MIXED += [BEGIN * 2 + "the", "image" * 9, "dax dax dax dax", BEGIN[:-9], "return image"]
BATCHES = {
    "one": MIXED[2:3],
    "one token": ["d"],
    "two equal": [BEGIN, BEGIN],
    "one begins the other": [BEGIN, BEGIN + "the dax"],
    "nothing in common": ["the cube", "def execute", "wug", "# query: the red", "    return"],
    "five alike": MIXED[:5],
    "seventeen": MIXED,
}
GREEDY = Sampling(max_tokens=10)
WARM = Sampling(temperature=0.7, seed=5, max_tokens=10)
LIMITS = [GREEDY, WARM, replace(GREEDY, n=3), replace(WARM, n=3)]


class Pair:
    """A model, and what it must give."""

    def __init__(self, family: str, folder: Path, seed: int) -> None:
        self.family = family
        self.llm = TransformersLLM(save(family, folder, seed), local_only=True, device="cpu")
        self._plain = Plain(folder)
        self._known: dict[Any, str] = {}

    @property
    def shares(self) -> bool | None:
        return self.llm._decoder._shares

    def wanted(self, prompt: str, sampling: Sampling, sample: int) -> str:
        key = (prompt, replace(sampling, n=1), sample if sampling.temperature else 0)
        if key not in self._known:
            self._known[key] = self._plain.text(prompt, sampling, sample)
        return self._known[key]

    def check(self, prompts: list[str], sampling: Sampling) -> None:
        found = self.llm.generate(prompts, sampling)
        for prompt, completions in zip(prompts, found, strict=True):
            texts = [completion.text for completion in completions]
            assert texts == [self.wanted(prompt, sampling, i) for i in range(sampling.n)]


@pytest.fixture(scope="module", params=[*SHARING, *OTHERS])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("family")
    return Pair(request.param, folder, seed=len(request.param))


@pytest.mark.parametrize("sampling", LIMITS, ids=["greedy", "warm", "greedy-3", "warm-3"])
def test_every_batch_gives_the_texts_of_plain_decoding(pair: Pair, sampling: Sampling) -> None:
    few = sampling.n == 1 and pair.family in SHARING
    for name, prompts in BATCHES.items():
        # One by one or token by token, many samples only take longer.
        if few or name in ("two equal", "one begins the other", "five alike"):
            pair.check(prompts, sampling)


def test_seventeen_prompts_with_three_samples_each(pair: Pair) -> None:
    sampling = replace(WARM, n=3 if pair.family in SHARING else 1, max_tokens=6)
    pair.check(MIXED, sampling)


def test_a_text_ends_where_the_context_does(pair: Pair) -> None:
    long = "the red cube " * 40
    while pair.llm.count_tokens(long) > CONTEXT - 4:
        long = long[:-1]
    shorter = long[: len(long) * 2 // 3]
    for sampling in (replace(GREEDY, max_tokens=40), replace(WARM, max_tokens=40)):
        pair.check([long, "d", shorter, long + "d", BEGIN], sampling)


def test_a_stop_string_ends_a_text_in_company(pair: Pair) -> None:
    free = replace(GREEDY, max_tokens=24)
    texts = [pair.wanted(prompt, free, 0) for prompt in MIXED[:6]]
    marks = tuple(text[len(text) // 2 :][:2] for text in texts[::2] if len(text) > 4)
    pair.check(MIXED[:6], replace(free, stop=marks))


def test_none_and_no_tokens(pair: Pair) -> None:
    assert pair.llm.generate([], GREEDY) == []
    found = pair.llm.generate(MIXED[:2], replace(GREEDY, max_tokens=0))
    assert [[item.text for item in each] for each in found] == [[""], [""]]


@pytest.mark.parametrize("family", SHARING)
def test_plain_attention_is_replaced(family: str, tmp_path: Path) -> None:
    pair = Pair(family, tmp_path, seed=1)
    pair.check(MIXED[:3], replace(GREEDY, max_tokens=40))
    assert pair.shares is True


@pytest.mark.parametrize("family", OTHERS)
def test_other_attention_is_left_alone(family: str, tmp_path: Path) -> None:
    pair = Pair(family, tmp_path, seed=1)
    pair.check(["d d", "d d d"], GREEDY)
    assert pair.shares is False
