"""What every way of running vLLM on the embedded writer must do as transformers does it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.compact import compact_selection
from viper_lab.recipes.writer_score import GREEDY, Condition, draw_trials
from viper_lab.world.queries.texts import selection_sample

PROGRAMS = 100
"""Prompts compared, half without examples, half with four."""

ENOUGH = 0.97
"""Least share of the same programs: two engines add numbers up in different orders, so
where two tokens are all but equally likely they may choose differently."""

SELECTIONS = 20


def prompts(count: int = PROGRAMS) -> list[str]:
    """Prompts of the held-out split, the same in every run."""
    half = count // 2
    zero = draw_trials(Condition(), half, seed=0)
    four = draw_trials(Condition(examples=4), count - half, seed=0)
    return [trial.prompt for trial in (*zero, *four)]


def check_programs(engine: LLM, reference: LLM) -> None:
    """Greedy programs are the same, all but a few; prints how many."""
    asked = prompts()
    written = [found[0].text for found in engine.generate(asked, GREEDY)]
    expected = [reference.generate([prompt], GREEDY)[0][0].text for prompt in asked]
    same = sum(one == other for one, other in zip(written, expected, strict=True))
    print(f"\n{engine.model_id}: {same} of {len(asked)} programs identical to transformers")
    pairs = zip(written, expected, strict=True)
    for one, other in islice((pair for pair in pairs if pair[0] != pair[1]), 3):
        print(f"--- vLLM\n{one}\n--- transformers\n{other}")
    assert same >= ENOUGH * len(asked)


def check_counts(engine: LLM, reference: LLM) -> None:
    """Prompts take as many tokens, and texts end for the same reason."""
    asked, short = prompts(4), Sampling(max_tokens=5)
    for one, other in zip(
        engine.generate(asked, short), reference.generate(asked, short), strict=True
    ):
        assert one[0].prompt_tokens == other[0].prompt_tokens
        assert one[0].completion_tokens == other[0].completion_tokens == 5
        assert one[0].finish_reason == other[0].finish_reason == "length"


def check_scores(engine: LLM, reference: LLM) -> None:
    """Scores of options are the same up to rounding, so the same one is chosen."""
    random = Random("vllm selections")
    for _ in range(SELECTIONS):
        sample = selection_sample(random, "test")
        prompt = compact_selection(sample.info, sample.question, sample.options)
        options = [f" {option}" for option in sample.options]
        assert engine.score(prompt, options) == pytest.approx(
            reference.score(prompt, options), abs=2e-3
        )


def check_samples(engine: LLM) -> None:
    """Samples of one seed repeat, differ among themselves and from another seed's."""
    # Prompts unlike all that the writer was trained on, where it is sure of nothing.
    asked = ["cube cube", "def def ("]
    warm = Sampling(temperature=2.0, seed=5, max_tokens=40, n=3)
    texts = [
        [[item.text for item in found] for found in engine.generate(asked, sampling)]
        for sampling in (warm, warm, replace(warm, seed=6))
    ]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert [len(set(found)) for found in texts[0]] == [3, 3]


def check_stop(engine: LLM) -> None:
    """A stop string ends the text before it."""
    asked = prompts(2)[:1]
    free = engine.generate(asked, GREEDY)[0][0].text
    mark = free[len(free) // 2 :][:3]
    stopped = engine.generate(asked, Sampling(max_tokens=400, stop=(mark,)))[0][0]
    assert stopped.text == free[: free.index(mark)]
    assert stopped.finish_reason == "stop"
