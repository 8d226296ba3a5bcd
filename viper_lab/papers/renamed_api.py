"""What a bank of examples is worth after the API's routines were renamed.

The paper promises (sec. 2.3) that a change of the API costs one run of the mining and no work by
hand. Here the spatial routines get other names, once invented ones and once names of common
words: the old bank must be found broken, example by example, and a bank mined under the new
names must do as well.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from viper.ace.soundness import problems
from viper.api.library import Library
from viper_lab.papers.cell_runner import Cell, CellRunner
from viper_lab.papers.parts import Part
from viper_lab.papers.result import Gain
from viper_lab.papers.tables import gain_of
from viper_lab.papers.zero_shot import Ablation

# The renamed routines are those of the paper's API.
OLD = Ablation()


@dataclass(frozen=True)
class Renaming:
    """New names for the spatial routines.

    Attributes:
        words: what the names are made of.
        file: routines under these names.
    """

    words: str
    file: Path

    @property
    def api(self) -> str:
        """Return the API with the new names instead of the old ones."""
        return f"vipergpt+{self.file}"

    @property
    def writer(self) -> str:
        """Return the runner's name for the components whose sandbox knows the new names."""
        return f"renamed in {self.words}"

    @property
    def cell(self) -> Cell:
        """Return the counterpart of the cell with mined examples."""
        return Cell(
            f"mined again, renamed in {self.words}",
            OLD.ace.options.changed(api=self.api),
            replace(OLD.mining, api=self.api),
            writer=self.writer,
        )


INVENTED = Renaming("invented words", Path(__file__).with_name("renamed_in_invented_words.py"))
COMMON = Renaming("common words", Path(__file__).with_name("renamed_in_common_words.py"))
RENAMINGS = (INVENTED, COMMON)


@dataclass(frozen=True)
class RenamedApi:
    """How the change went.

    Attributes:
        examples: in the old banks, under each renaming.
        broken: those that call a name which is gone, by renaming and sample.
        named: those that the check names.
        gains: by what the names are made of, of the new bank under the new names over the old
            one under the old names.
    """

    examples: int
    broken: frozenset[str]
    named: frozenset[str]
    gains: Mapping[str, Gain]


def renamed_api(runner: CellRunner, part: Part) -> RenamedApi:
    """Try each renaming on one part under all seeds."""
    count, broken, named = 0, set(), set()
    gains: dict[str, Gain] = {}
    for renaming in RENAMINGS:
        library = runner.writers[renaming.writer].library
        gone = _listed(Library(), OLD.api) - _listed(library, renaming.api)
        for seed in runner.scale.seeds:
            for example in runner.bank(OLD.mining, part, seed).items:
                count += 1
                name = f"{renaming.words} {seed} {example.sample_id}"
                if _called(example.program) & gone:
                    broken.add(name)
                if problems(replace(example, api=renaming.api), library, listed=True):
                    named.add(name)
        old, new = runner.all_results(OLD.ace, part), runner.all_results(renaming.cell, part)
        step = f"old names -> {renaming.cell.name}"
        gains[renaming.words] = gain_of(old, new, "renamed API", step, part.name)
    return RenamedApi(count, frozenset(broken), frozenset(named), gains)


def _listed(library: Library, api: str) -> set[str]:
    return {entry.name for entry in library.api_set(api).entries("ground")}


def _called(program: str) -> set[str]:
    """Return every name and attribute that a program uses."""
    nodes = list(ast.walk(ast.parse(program)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
