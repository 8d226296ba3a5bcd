"""The shipped writer, on prompts as they come: company changes no program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from viper import Reasoner, load_profile
from viper.reasoner import RunOptions
from viper.strategies.program import attempt_sampling
from viper_lab.world.queries.generate import generate

pytestmark = [pytest.mark.models, pytest.mark.usefixtures("one_thread")]


def test_sixteen_at_once_give_the_programs_that_each_gives_alone() -> None:
    picture = np.zeros((2, 2, 3), np.uint8)
    with Reasoner(load_profile("embedded")) as reasoner:
        prompts = [
            reasoner.prompt(picture, item.text, RunOptions(task=item.task, options=item.options))
            for family in ("referring", "question")
            for item in generate(family, "val", 5, 6)
        ]
        llm = reasoner.components.llm
        greedy = attempt_sampling(reasoner.components.settings)
        for sampling in (greedy, replace(greedy, temperature=0.7, seed=3)):
            together = [each[0] for each in llm.generate([*prompts, *prompts[:4]], sampling)]
            alone = [llm.generate([prompt], sampling)[0][0] for prompt in prompts]
            for one, other in zip(together, [*alone, *alone[:4]], strict=True):
                assert one.logprob == pytest.approx(other.logprob, abs=1e-3)
                assert replace(one, logprob=None) == replace(other, logprob=None)
            assert all("def execute_command" in each.text for each in alone)
