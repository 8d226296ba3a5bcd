"""After routines were renamed the check names those examples that call them, and no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.reproduce.fake_lab import REFERRING, FakeLab
from viper.ace.bank import Bank
from viper.api.library import Library, library_for
from viper.reproduce.lab import Lab
from viper.reproduce.renamed_api import API, WRITER, renamed_api
from viper.schema import Example

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


class BankLab(FakeLab):
    """Banks of these programs under every seed."""

    def __init__(self, programs: list[str], gain: float = 0.0) -> None:
        super().__init__(lambda cell, *_: 0.5 + gain * ("mined again" in cell), samples=4)
        self._programs = programs
        self.writers = {WRITER: SimpleNamespace(library=library_for(API))}

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
    found = renamed_api(cast(Lab, BankLab(programs)), REFERRING)
    assert found.examples == 2 * len(programs)
    assert found.broken == found.named == broken


def test_the_new_bank_is_compared_with_the_old_one() -> None:
    found = renamed_api(cast(Lab, BankLab([CALLS_NONE], gain=0.25)), REFERRING)
    assert found.gain.difference.value == 0.25 and found.gain.difference.n == 8


def test_the_renamed_api_lists_new_names_in_place_of_old_ones() -> None:
    library = library_for(API)
    for task in ("ground", "question"):
        old = {entry.name for entry in Library().api_set("abstract").entries(task)}
        new = {entry.name for entry in library.api_set(API).entries(task)}
        assert {"get_patch_left_of", "sort_patches_left_to_right"} <= old - new
        assert {"leftward_area", "arrange_across"} <= new - old
        assert len(new - old) == 9
