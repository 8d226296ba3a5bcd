"""Who is to blame for a wrong answer: reflectors on injected faults.

    python benchmarks/blame.py [--faults 300] [--seed 7] [--without-edits]
                               [--reflector intervention|language|both] [--profile FILE]

Canonical programs of the embedded world's validation split, a third each about expressions,
questions and clips, that answer right with the shipped models get one fault each: by turns one
tool made wrong about one thing, or one thing wrong in the program. Prints how often a reflector
speaks (coverage) and how often it is then right (precision), by kind of fault and by tool, with
95% intervals; where it names a call, whether that call is a wrong one, and whether the result that
it infers is the true tool's. ``language`` is the critic of a profile with the embedded tools; with
``both`` the agreement of the two is printed, too. Not looked at while weights were chosen: any seed
but 100 and 101. About ten minutes on one core.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from viper.evaluate.intervals import proportion
from viper.models.media import media_from
from viper.profiles import load_profile
from viper.strategies.base import Components
from viper.strategies.critique import Critique, CritiqueError
from viper.tuning.case import Case
from viper.tuning.reflector import InterventionReflector, Reflector, Weighing
from viper.tuning.wiring import reflectors_of
from viper_lab.datasets.world import world_media, world_sample
from viper_lab.faults.injection import Fault, SolvedQuery, inject
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import FAMILIES, Family
from viper_lab.world.queries.programs import gold_program

SPARE = 3
"""Samples drawn for each fault that is wanted: some programs are wrong, some faults do no harm."""


@dataclass(frozen=True)
class Judged:
    """One fault and what the reflector said."""

    family: str
    fault: Fault
    said: Critique

    @property
    def is_right(self) -> bool:
        return self.said.location == self.fault.truth.location

    @property
    def is_right_call(self) -> bool:
        return self.said.step in self.fault.calls

    @property
    def is_right_label(self) -> bool:
        return self.is_right_call and self.said.desired == self.fault.truth.desired


def faults(components: Components, family: Family, count: int, seed: int) -> Iterator[Fault]:
    """So many faults of one family, tools and programs by turns."""
    found = 0
    for sample in generate(family, "val", seed, SPARE * count):
        if found == count:
            return
        program = gold_program(sample.meaning, "abstract", sample.task)
        target = world_sample(sample).target
        solved = SolvedQuery(sample.query, media_from(world_media(sample)()), program, target)
        random = Random(f"{seed}-{sample.sample_id}")
        fault = inject(components, solved, "program" if found % 2 else "tool", random)
        if fault is not None:
            found += 1
            yield fault


def share(hits: int, n: int) -> str:
    """``.87 [.80, .92] of 103``."""
    one = proportion(hits, n)
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}] of {n}"


def line(name: str, judged: Sequence[Judged]) -> str:
    spoken = [one for one in judged if one.said.speaks]
    right = sum(one.is_right for one in spoken)
    return (
        f"{name:28} coverage {share(len(spoken), len(judged)):34} "
        f"precision {share(right, len(spoken))}"
    )


def table(judged: Sequence[Judged], key: Callable[[Judged], str]) -> None:
    for name in sorted({key(one) for one in judged}):
        print(line(f"  {name}", [one for one in judged if key(one) == name]))


def report(judged: Sequence[Judged]) -> None:
    print(line("all", judged))
    print("by sort")
    table(judged, lambda one: one.fault.sort)
    print("by family")
    table(judged, lambda one: one.family)
    print("by kind")
    table(judged, lambda one: f"{one.fault.sort}: {one.fault.kind}")
    print("by what is to blame")
    table(judged, lambda one: one.fault.truth.location)
    print("by what was blamed")
    for name in sorted({one.said.location for one in judged if one.said.speaks}):
        blamed = [one for one in judged if one.said.location == name]
        print(f"  {name:26} precision {share(sum(one.is_right for one in blamed), len(blamed))}")
    named = [one for one in judged if one.said.tool is not None and one.said.step is not None]
    calls = sum(one.is_right_call for one in named)
    print(f"the call, where one is named    {share(calls, len(named))}")
    true = [one for one in named if one.is_right_call]
    labels = sum(one.is_right_label for one in true)
    print(f"the inferred result, where the call is right    {share(labels, len(true))}")


def agreement(ones: Sequence[Judged], others: Sequence[Judged]) -> None:
    """How often both reflectors blame the same, and what that is worth."""
    pairs = [(a, b) for a, b in zip(ones, others, strict=True) if a.said.speaks and b.said.speaks]
    same = [a for a, b in pairs if a.said.location == b.said.location]
    print("agreement of the two")
    print(f"  where both speak           {share(len(same), len(pairs))}")
    print(f"  precision where they agree {share(sum(a.is_right for a in same), len(same))}")
    apart = [(a, b) for a, b in pairs if a.said.location != b.said.location]
    print(f"  else the first is right    {share(sum(a.is_right for a, _ in apart), len(apart))}")
    print(f"  else the second is right   {share(sum(b.is_right for _, b in apart), len(apart))}")
    silent = [b for a, b in zip(ones, others, strict=True) if not a.said.speaks]
    print(line("  where the first is silent", silent))
    print(line("  the first, else the second", [
        a if a.said.speaks else b for a, b in zip(ones, others, strict=True)
    ]))  # fmt: skip


def reflected(reflector: Reflector, case: Case) -> Critique:
    try:
        return reflector.reflect(case)
    except CritiqueError as error:
        return Critique("none", None, str(error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--without-edits", action="store_true", help="change no program")
    parser.add_argument("--each", action="store_true", help="print every judgement")
    parser.add_argument(
        "--reflector", choices=("intervention", "language", "both"), default="intervention"
    )
    parser.add_argument("--profile", default="embedded", help="the embedded one plus [critic]")
    given = parser.parse_args()
    components = load_profile(given.profile).without_examples().components()
    weighing = Weighing(edits=not given.without_edits)
    names = ["intervention", "language"] if given.reflector == "both" else [given.reflector]
    critic = reflectors_of(components, "llm-global")[0] if "language" in names else None
    judged: dict[str, list[Judged]] = {name: [] for name in names}
    seconds = dict.fromkeys(names, 0.0)
    for family in FAMILIES:
        for fault in faults(components, family, given.faults // len(FAMILIES), given.seed):
            for name in names:
                reflector: Reflector = (
                    critic
                    if name == "language" and critic is not None
                    else InterventionReflector(fault.components(components), weighing)
                )
                began = time.perf_counter()
                said = reflected(reflector, fault.case)
                seconds[name] += time.perf_counter() - began
                judged[name].append(Judged(family, fault, said))
                if given.each:
                    print(f"{name}: {fault.truth.location} {fault.calls} {fault.kind}: "
                          f"{said.location} {said.step}: {said.reason}", flush=True)  # fmt: skip
    for name in names:
        print(f"== {name}")
        report(judged[name])
        print(f"{seconds[name] / max(len(judged[name]), 1):.2f} s a reflection")
    if len(names) > 1:
        agreement(*judged.values())
    components.close()


if __name__ == "__main__":
    main()
