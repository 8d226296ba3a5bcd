"""The critic's recipe: an adapter of the program writer that says what made an answer wrong.

Run ``viper lab world faults``, then ``viper lab world train critic``. The critic continues the
compact prompt of :mod:`viper.prompting.reflection` with a tool and step, or with ``program``. It
learns from injected faults (:mod:`viper_lab.faults.cases`). These are few, so each text exchanges
words that the world treats alike (colours, shapes, materials).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.reflection import END_OF_FAULT, FAULT
from viper_lab.faults.cases import FaultCase, read_cases
from viper_lab.recipes.adapters import WRITER, AdapterTraining, learn
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.writer_documents import Piece
from viper_lab.recipes.writer_score import load_llm
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES

# Folder of the injected faults within the work folder.
FAULTS = "faults"

TRAINING = AdapterTraining("critic", steps=300)

# Words that may be exchanged; sizes may not, because programs order by area.
FAMILIES: Sequence[Sequence[str]] = (COLOURS, SHAPES, MATERIALS)

# Share of the texts without the right answer, as in feedback that consists of words alone.
WITHOUT_DESIRED = 0.05

# Share of the texts about a tool whose program is learned, too. That program is right, and a critic
# that can predict it from the query sees where another program departs.
RIGHT_PROGRAMS = 0.2

# Matches a program without its last newline: the tokenizer has one token for that newline and the
# next ``# ``.
_PROGRAM = re.compile(r"^def .*?(?=\n# )", re.MULTILINE | re.DOTALL)

_DESIRED = re.compile(r"^# desired: .*\n", re.MULTILINE)


def train(options: TrainOptions) -> Mapping[str, float]:
    """Train the critic on the faults in ``options.work`` and save it to ``options.out``.

    Returns:
        Shares of validation faults, see :func:`evaluate`; empty if the work folder holds none.

    Raises:
        DataError: the folder holds no injected faults.
    """
    cases = read_cases(options.work / FAULTS, "train")
    learn(options, TRAINING, partial(critic_documents, cases))
    held_back = read_cases(options.work / FAULTS, "val", needed=False)
    return evaluate(options.out, held_back) if held_back else {}


def critic_documents(cases: Sequence[FaultCase], random: Random) -> Iterator[list[Piece]]:
    """Yield texts without end: families and sorts of fault equally often, words exchanged."""
    groups: dict[tuple[str, str], list[FaultCase]] = {}
    for case in cases:
        groups.setdefault((case.family, case.sort), []).append(case)
    while True:
        case = random.choice(groups[random.choice(sorted(groups))])
        yield pieces_of(case, random)


def pieces_of(case: FaultCase, random: Random) -> list[Piece]:
    """Return a case as a training text with its words exchanged."""
    prompt, fault = exchange((case.prompt, case.fault), random)
    if random.random() < WITHOUT_DESIRED:
        prompt = _DESIRED.sub("", prompt)
    program = _PROGRAM.search(prompt)
    assert program is not None and prompt.endswith(FAULT)
    before, inside, after = prompt[: program.start()], program[0], prompt[program.end() :]
    is_learned = case.sort == "tool" and random.random() < RIGHT_PROGRAMS
    return [
        Piece(before, learned=False),
        Piece(inside, learned=is_learned),
        Piece(after, learned=False),
        Piece(fault, learned=True),
    ]


def exchange(texts: Sequence[str], random: Random) -> list[str]:
    """Return the texts with the words of each family permuted, in the same way in all texts."""
    replacements: dict[str, str] = {}
    for family in FAMILIES:
        words = list(family)
        random.shuffle(words)
        replacements.update(zip(family, words, strict=True))
    word = re.compile(rf"\b({'|'.join(replacements)})(s?)\b")
    return [word.sub(lambda match: replacements[match[1]] + match[2], text) for text in texts]


class FaultLine(NamedTuple):
    """Fault that a line after ``# fault:`` names; the step is "" if the line names none."""

    location: str
    step: str


def read_line(fault: str) -> FaultLine:
    """Read location and step from a line, which may be malformed."""
    words = fault.strip().partition(":")[0].split()
    if len(words) == 2 and words[0].isdigit():
        return FaultLine(words[1], words[0])
    return FaultLine(" ".join(words), "")


def evaluate(critic: Path | LLM, cases: Sequence[FaultCase]) -> Mapping[str, float]:
    """Return shares of the cases that the critic explains correctly.

    Keys: ``location`` (program, or which tool), ``step`` (location and call),
    ``location/tool``, ``location/program`` (of faults of that sort).

    Args:
        critic: any language model, or the folder of an adapter over the shipped writer.
    """
    llm = load_llm(critic, WRITER)
    stops = Sampling(max_tokens=48, stop=(END_OF_FAULT,))
    predictions = [read_line(llm.generate([case.prompt], stops)[0][0].text) for case in cases]
    targets = [read_line(case.fault) for case in cases]
    pairs = list(zip(cases, predictions, targets, strict=True))
    figures = {
        "location": _share([p.location == true.location for _, p, true in pairs]),
        "step": _share([p == true for _, p, true in pairs]),
    }
    for sort in ("tool", "program"):
        hits = [p.location == true.location for case, p, true in pairs if case.sort == sort]
        figures[f"location/{sort}"] = _share(hits)
    return figures


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / max(1, len(hits))
