"""Verdicts drawn one by one: they say what the finding says, and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from viper.prompting.seeking import read_verdict
from viper.strategies.seek.grounding import is_grounded
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.reading import readings
from viper_lab.world.knowledge.simulate import STYLE, Library

LIBRARY = Library.of(catalogue("train", 3, 40))


def test_every_verdict_is_made_of_what_stands_there() -> None:
    kinds: Counter[str] = Counter()
    for one in readings(LIBRARY, 300, Random(0)):
        verdict = read_verdict(one.reply, STYLE)
        assert verdict is not None and one.sort == "read"
        assert one.prompt.count("# found:") == 1 and one.prompt.endswith("# verdict:")
        assert is_grounded(verdict.extracted, [one.prompt], "exact")
        kinds[verdict.kind] += 1
    assert min(kinds[kind] for kind in ("uninformative", "informative", "answer")) > 20


def test_the_same_seed_draws_the_same() -> None:
    first, second = (list(readings(LIBRARY, 20, Random(5))) for _ in range(2))
    assert first == second
    assert first != list(readings(LIBRARY, 20, Random(6)))


def test_of_two_that_look_alike_the_label_decides() -> None:
    labelled = [
        one for one in readings(LIBRARY, 400, Random(1)) if "with the label called" in one.prompt
    ]
    looking = [one for one in labelled if "# entities:" in one.prompt and ", marked" in one.prompt]
    assert len(looking) > 10
    for one in looking:
        lines = one.prompt.splitlines()
        *_, last = (line for line in lines if line.startswith("# known: "))
        mark = last.removeprefix("# known: ")
        found = next(line for line in lines if line.startswith("# found:"))
        assert (one.reply.strip() != "no") == (f"marked {mark}" in found)


@pytest.mark.parametrize("seed", [37, 118])
def test_a_name_that_holds_a_colour_says_nothing_about_it(seed: int) -> None:
    library = Library.of(catalogue("train", seed, 20))
    towns = {town for town, colour in library.catalogue.colour_words if colour == "red"}
    texts = [text.text for text in library.texts if text.about in towns]
    assert any("red" in text and not re.search(r"\bred\b", text) for text in texts)
    for one in readings(library, 2000, Random(0)):
        verdict = read_verdict(one.reply, STYLE)
        assert verdict is not None
        assert is_grounded(verdict.extracted, [one.prompt], "exact")
