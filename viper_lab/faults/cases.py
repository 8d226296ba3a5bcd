"""Training data of the critic: faults injected into right programs, as prompt and target.

Canonical programs about scenes and clips of a split run with real tools. Each gets several faults,
of tools and of programs. A case is the prompt of a small writer
(:func:`viper.tuning.language_reflector.compact_prompt`) and its target
(:func:`fault_line`). A case takes some tenths of a second, so cases are
stored in files of JSON lines, called shards. A shard is written completely or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from viper.errors import DataError
from viper.models.media import media_from
from viper.prompting.compact import one_line
from viper.prompting.reflection import END_OF_FAULT
from viper.record import record_from_json
from viper.schema import to_json
from viper.strategies.base import Components
from viper.strategies.critique import Critique
from viper.tuning.language_reflector import compact_prompt
from viper_lab.datasets.world import world_media, world_sample
from viper_lab.faults.injection import Fault, SolvedQuery, Sort, inject
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import Family
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import WorldSample

# Families of successive shards; a clip costs several times as much as a picture.
ROUND: Sequence[Family] = ("referring", "question", "video", "referring", "question")

# Queries per shard.
SAMPLES = 24

# Number of attempts for each sort of fault on one program.
DRAWS: Sequence[tuple[Sort, int]] = (("tool", 3), ("program", 2))

# Base of a shard's query seed, far from the small seeds that people use.
_FIRST_SEED = 5000


@dataclass(frozen=True)
class FaultCase:
    """One injected fault as text.

    Attributes:
        family: of the query.
        sort: ``tool`` or ``program``.
        kind: description of the fault.
        prompt: up to and including ``# fault:``.
        fault: the target, including its final newline.
    """

    family: str
    sort: str
    kind: str
    prompt: str
    fault: str


def fault_cases(
    components: Components, sample: WorldSample, draws: Sequence[tuple[Sort, int]] = DRAWS
) -> Iterator[tuple[Fault, FaultCase]]:
    """Yield different faults of one query's canonical program; none if it is wrong by itself.

    Raises:
        SandboxUnavailableError, SandboxHostError: no program can be run here.
    """
    program = gold_program(sample.meaning, "abstract", sample.task)
    media = media_from(world_media(sample)())
    solved = SolvedQuery(sample.query, media, program, world_sample(sample).target)
    prompts: set[str] = set()
    for sort, times in draws:
        for number in range(times):
            random = Random(f"{sample.sample_id} {sort} {number}")
            fault = inject(components, solved, sort, random)
            if fault is None:
                break
            prompt = compact_prompt(fault.case, components.llm.count_tokens)
            if prompt not in prompts:
                prompts.add(prompt)
                target = target_of(fault.truth)
                yield fault, FaultCase(sample.family, sort, fault.kind, prompt, target)


def fault_line(location: str, step: int | None = None, desired: str = "") -> str:
    """Return the right continuation of ``# fault:``, with the end of its line.

    Args:
        location: ``program``, ``plan``, ``none`` or the name of a tool.
    """
    where = location if step is None else f"{step} {location}"
    return f" {where}{f': {one_line(desired)}' if desired else ''}{END_OF_FAULT}"


def target_of(truth: Critique) -> str:
    """Return a small writer's target for a fault; it states desired words and truth values."""
    if truth.tool is None:
        return fault_line(truth.location)
    desired = truth.desired if isinstance(truth.desired, str | bool) else ""
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
    """Write shards until the folder holds at least ``count`` cases; return their number.

    Existing shards are kept. An unfinished shard has another name, so a killed run leaves no
    incomplete shard.

    Args:
        report: called after each shard with the number of shards and cases.
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
    """Read all cases of a split's shards, sorted by file name.

    Raises:
        DataError: there are no cases though ``needed``, or a line is malformed.
    """
    cases: list[FaultCase] = []
    for path in sorted(folder.glob(f"{split}-*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            cases.append(_case(line, f"{path}:{number}"))
    if needed and not cases:
        raise DataError(
            f"{folder} holds no injected faults of the split {split}; make some with "
            f"viper lab world faults --split {split} --work {folder.parent}"
        )
    return cases


def _shard(components: Components, split: str, seed: int, number: int) -> Iterator[str]:
    for sample in generate(ROUND[number % len(ROUND)], split, seed, SAMPLES):
        for _, case in fault_cases(components, sample):
            yield json.dumps(to_json(case))


def _case(line: str, where: str) -> FaultCase:
    try:
        return record_from_json(FaultCase, json.loads(line), strict=True)
    except ValueError:
        raise DataError(f"{where}: not an injected fault; remove the file and run again") from None
