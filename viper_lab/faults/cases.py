"""What the critic learns from: faults injected into right programs, each as prompt and target.

Canonical programs about scenes and clips of a split are run with real tools; each gets several
faults, of tools and of programs. A case is the text that a small writer is asked
(:func:`viper.tuning.language_reflector.compact_prompt`) and what it should go on with
(:func:`viper.prompting.reflection.fault_line`). Making one takes some tenths of a second, so they
are kept in files of JSON lines, a *shard* each; a shard is whole or not there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from viper.ace.critique import Critique
from viper.errors import DataError
from viper.models.media import media_from
from viper.prompting.reflection import fault_line
from viper.schema import to_json
from viper.strategies.base import Components
from viper.tuning.language_reflector import compact_prompt
from viper_lab.datasets.world import world_media, world_sample
from viper_lab.faults.injection import Fault, SolvedQuery, Sort, inject
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import Family
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import WorldSample

ROUND: Sequence[Family] = ("referring", "question", "video", "referring", "question")
"""Families of successive shards; a clip costs several times what a picture does."""

SAMPLES = 24
"""Queries a shard."""

DRAWS: Sequence[tuple[Sort, int]] = (("tool", 3), ("program", 2))
"""How often each sort of fault is tried on one program."""

_FIRST_SEED = 5000
"""Of a shard's queries: far from the small seeds that people take."""


@dataclass(frozen=True)
class FaultCase:
    """One injected fault as text.

    Attributes:
        family: of the query.
        sort: ``tool`` or ``program``.
        kind: what is wrong, in words.
        prompt: up to and with ``# fault:``.
        fault: what should follow, its line's end included.
    """

    family: str
    sort: str
    kind: str
    prompt: str
    fault: str


def fault_cases(
    components: Components, sample: WorldSample, draws: Sequence[tuple[Sort, int]] = DRAWS
) -> Iterator[tuple[Fault, FaultCase]]:
    """Different faults of one query's canonical program; none where it is wrong by itself.

    Raises:
        SandboxUnavailableError, SandboxHostError: no program can be run here.
    """
    program = gold_program(sample.meaning, "abstract", sample.task)
    media = media_from(world_media(sample)())
    solved = SolvedQuery(sample.query, media, program, world_sample(sample).target)
    seen: set[str] = set()
    for sort, times in draws:
        for number in range(times):
            random = Random(f"{sample.sample_id} {sort} {number}")
            planted = inject(components, solved, sort, random)
            if planted is None:
                break
            prompt = compact_prompt(planted.case, components.llm.count_tokens)
            if prompt not in seen:
                seen.add(prompt)
                fault = target_of(planted.truth)
                yield planted, FaultCase(sample.family, sort, planted.kind, prompt, fault)


def target_of(truth: Critique) -> str:
    """What a small writer should say of a fault; words and truth values with what was right."""
    desired = truth.desired if isinstance(truth.desired, str | bool) else ""
    if truth.tool is None:
        return fault_line(truth.location)
    return fault_line(truth.tool, truth.step, str(desired))


def write_cases(
    components: Components,
    folder: Path,
    count: int,
    *,
    split: str = "train",
    seed: int = 0,
    report: Callable[[int, int], None] = lambda shards, cases: None,
) -> int:
    """Makes shards until the folder holds so many cases; returns how many it then holds.

    Shards that are there already are kept. One that is being made has another name until it is
    whole, so a killed run leaves nothing half.

    Args:
        report: told after each shard how many shards and cases there are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held, number = 0, 0
    while held < count:
        path = folder / f"{split}-{seed}-{number:04}.jsonl"
        if not path.exists():
            part = path.with_suffix(".part")
            lines = _shard(components, split, _FIRST_SEED * (seed + 1) + number, number)
            part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            part.replace(path)
        held += len(path.read_text(encoding="utf-8").splitlines())
        number += 1
        report(number, held)
    return held


def read_cases(folder: Path, split: str, *, needed: bool = True) -> list[FaultCase]:
    """All cases of a split's shards, in the order of their names.

    Raises:
        DataError: there are none though they are needed, or a line that holds none.
    """
    found: list[FaultCase] = []
    for path in sorted(folder.glob(f"{split}-*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            found.append(_case(line, f"{path}:{number}"))
    if needed and not found:
        raise DataError(
            f"{folder} holds no injected faults of the split {split}; make some with "
            f"viper lab world faults --split {split} --work {folder.parent}"
        )
    return found


def _shard(components: Components, split: str, seed: int, number: int) -> Iterator[str]:
    for sample in generate(ROUND[number % len(ROUND)], split, seed, SAMPLES):
        for _, case in fault_cases(components, sample):
            yield json.dumps(to_json(case))


def _case(line: str, where: str) -> FaultCase:
    try:
        record: Any = json.loads(line)
        values = {name: record[name] for name in FaultCase.__dataclass_fields__}
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{where}: not an injected fault; remove the file and run again") from None
    if not all(isinstance(value, str) for value in values.values()):
        raise DataError(f"{where}: an injected fault has texts only; make the file anew")
    return FaultCase(**values)
