"""What a bank of examples is worth after the API's routines were renamed.

The paper promises (sec. 2.3) that a change of the API costs one run of the mining and no work by
hand. Here the spatial routines get other names (``renamed_routines.py``): the old bank must be
found broken, example by example, and a bank mined under the new names must do as well.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

from viper.ace.soundness import problems
from viper.api.library import Library
from viper.reproduce.lab import Cell, Lab
from viper.reproduce.parts import Part
from viper.reproduce.result import Gain
from viper.reproduce.zero_shot import ACE, ACE_CELL, gain_of

FILE = Path(__file__).with_name("renamed_routines.py")

API = f"vipergpt+{FILE}"
"""The API with the new names in place of the old ones."""

WRITER = "renamed"
"""The lab's name for components whose sandbox knows the new names."""

RENAMED_CELL = Cell(
    "mined again for the renamed API",
    replace(ACE_CELL.options, api=API),
    replace(ACE, api=API),
    writer=WRITER,
)


@dataclass(frozen=True)
class RenamedApi:
    """How the change went.

    Attributes:
        examples: in the old banks.
        broken: those that call a name which is gone, by sample.
        named: those that the check names.
        gain: of the new bank under the new names over the old one under the old names.
    """

    examples: int
    broken: frozenset[str]
    named: frozenset[str]
    gain: Gain


def renamed_api(lab: Lab, part: Part) -> RenamedApi:
    """Tries it on one part under all seeds."""
    library = lab.writers[WRITER].library
    gone = _listed(Library(), "abstract") - _listed(library, API)
    count, broken, named = 0, set(), set()
    for seed in lab.scale.seeds:
        for example in lab.bank(ACE, part, seed).items:
            count += 1
            name = f"{seed} {example.sample_id}"
            if _called(example.program) & gone:
                broken.add(name)
            if problems(replace(example, api=API), library, listed=True):
                named.add(name)
    old, new = lab.all_rows(ACE_CELL, part), lab.all_rows(RENAMED_CELL, part)
    found = gain_of(old, new, "renamed API", f"old names -> {RENAMED_CELL.name}", part.name)
    return RenamedApi(count, frozenset(broken), frozenset(named), found)


def _listed(library: Library, api: str) -> set[str]:
    return {entry.name for entry in library.api_set(api).entries("ground")}


def _called(program: str) -> set[str]:
    """Every name and attribute that a program uses."""
    nodes = list(ast.walk(ast.parse(program)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
