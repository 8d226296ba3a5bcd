"""What the critic reaches on planted faults: how often it names the right place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.reflection import END_OF_FAULT
from viper_lab.faults.cases import FaultCase

TOKENS = 48


class Named(NamedTuple):
    """What a line after ``# fault:`` blames; the step is "" where it names none."""

    location: str
    step: str


def named(fault: str) -> Named:
    """Location and step of a line, whatever a small model wrote."""
    words = fault.strip().partition(":")[0].split()
    if len(words) == 2 and words[0].isdigit():
        return Named(words[1], words[0])
    return Named(" ".join(words), "")


def evaluate(
    critic: Path | LLM, cases: Sequence[FaultCase], *, base: Path | None = None
) -> Mapping[str, float]:
    """Shares of the cases.

    Keys: ``location`` (program, or which tool), ``step`` (location and call),
    ``location/tool``, ``location/program`` (of faults of that sort).

    Args:
        critic: any language model, or the folder of an adapter over ``base``.
    """
    llm = _opened(critic, base)
    stops = Sampling(max_tokens=TOKENS, stop=(END_OF_FAULT,))
    said = [named(llm.generate([case.prompt], stops)[0][0].text) for case in cases]
    true = [named(case.fault) for case in cases]
    pairs = list(zip(cases, said, true, strict=True))
    figures = {
        "location": _share([one.location == other.location for _, one, other in pairs]),
        "step": _share([one == other for _, one, other in pairs]),
    }
    for sort in ("tool", "program"):
        hits = [one.location == other.location for c, one, other in pairs if c.sort == sort]
        figures[f"location/{sort}"] = _share(hits)
    return figures


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / max(1, len(hits))


def _opened(critic: Path | LLM, base: Path | None) -> LLM:
    if not isinstance(critic, Path):
        return critic
    from viper.models.llm.transformers_llm import TransformersLLM

    assert base is not None
    return TransformersLLM(base, template="plain", local_only=True, adapter=critic)
