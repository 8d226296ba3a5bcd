"""After routines were renamed the check names those examples that call them, and no other."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from tests.lab.papers.fake_runner import REFERRING, FakeRunner
from viper.ace.bank import Bank
from viper.api.library import Library, library_for
from viper.schema import Example
from viper_lab.papers import renamed_api as renamed
from viper_lab.papers.cell_runner import CellRunner
from viper_lab.papers.renamed_api import COMMON, INVENTED, RENAMINGS, Renaming, renamed_api
from viper_lab.recipes.writer_words import made_up_names

CALLS_GONE = """def execute_command(image):
    image_patch = ImagePatch(image)
    return get_patch_left_of(image_patch.find('ring')[0]).find('cube')[0]
"""
SORTS = CALLS_GONE.replace("get_patch_left_of(", "sort_patches_left_to_right([").replace(
    ").find", "])[0].find"
)
CALLS_NONE = """def execute_command(image):
    image_patch = ImagePatch(image)
    return image_patch.find('cube')[0]
"""


class BankRunner(FakeRunner):
    """Banks of these programs under every seed."""

    def __init__(self, programs: list[str], gain: float = 0.0) -> None:
        super().__init__(lambda cell, *_: 0.5 + gain * ("mined again" in cell), samples=4)
        self._programs = programs
        self.writers = {
            renaming.writer: SimpleNamespace(library=library_for(renaming.api))
            for renaming in RENAMINGS
        }

    def bank(self, *_: object) -> Bank:
        return Bank(
            [
                Example("q", program, "ground", "abstract", 1.0, f"s{n}", 0, "w", "h")
                for n, program in enumerate(self._programs)
            ]
        )


@pytest.mark.parametrize(
    ("programs", "broken"),
    [
        ([CALLS_NONE, CALLS_GONE, SORTS], {"0 s1", "0 s2", "1 s1", "1 s2"}),
        ([CALLS_NONE], set()),
        ([], set()),
    ],
)
def test_broken_examples_are_named(programs: list[str], broken: set[str]) -> None:
    found = renamed_api(cast(CellRunner, BankRunner(programs)), REFERRING)
    assert found.examples == 4 * len(programs)
    everywhere = {f"{renaming.words} {name}" for renaming in RENAMINGS for name in broken}
    assert found.broken == found.named == everywhere


def test_what_the_check_names_is_counted_whatever_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = cast(CellRunner, BankRunner([CALLS_NONE, CALLS_GONE]))
    monkeypatch.setattr(renamed, "problems", lambda example, *_, **__: [])
    found = renamed_api(runner, REFERRING)
    assert len(found.broken) == 4 and not found.named
    monkeypatch.setattr(renamed, "problems", lambda example, *_, **__: ["wrong"])
    assert len(renamed_api(runner, REFERRING).named) == 8


def test_the_new_bank_is_compared_with_the_old_one() -> None:
    found = renamed_api(cast(CellRunner, BankRunner([CALLS_NONE], gain=0.25)), REFERRING)
    assert list(found.gains) == ["invented words", "common words"]
    for gain in found.gains.values():
        assert gain.difference.value == 0.25 and gain.difference.n == 8


@pytest.mark.parametrize(
    ("renaming", "some"),
    [(COMMON, {"leftward_area", "arrange_across"}), (INVENTED, {"cred", "judge_quote"})],
)
def test_the_renamed_api_lists_new_names_in_place_of_old_ones(
    renaming: Renaming, some: set[str]
) -> None:
    library = library_for(renaming.api)
    for task in ("ground", "question"):
        old = {entry.name for entry in Library().api_set("abstract").entries(task)}
        new = {entry.name for entry in library.api_set(renaming.api).entries(task)}
        assert {"get_patch_left_of", "sort_patches_left_to_right"} <= old - new
        assert some <= new - old
        assert len(new - old) == 9


def test_invented_names_are_those_that_the_writer_is_scored_with() -> None:
    files = [library_for(renaming.api).files[0] for renaming in (COMMON, INVENTED)]
    common, invented = ([routine.name for routine in file.routines] for file in files)
    drawn = made_up_names(Random(11), common, test=True)
    assert [drawn[name] for name in common] == invented
