"""Runs the parts of ``viper lab reproduce photographs`` and prints their tables and claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from viper.commands.terminal import hint_to_go_on
from viper.errors import UnknownNameError
from viper.evaluate.campaign import bound_arenas
from viper_lab.papers.job import print_report, teller
from viper_lab.papers.result import Reproduction
from viper_lab.photographs import cells, detector, receipts, trust, withheld
from viper_lab.photographs.job import Measured, PhotographJob

Part = Callable[[PhotographJob], Measured]

# By the name that ``--part`` takes, in the order of the report.
PARTS: Mapping[str, Part] = {
    "detector": detector.measure,
    "counting": trust.counting,
    "existence": trust.existence,
    withheld.PART: withheld.measure,
    "receipts": receipts.measure,
    cells.PART: cells.measure,
}


def measure(job: PhotographJob, parts: tuple[str, ...], *, as_json: bool) -> int:
    """Measure the parts of these names, all without any; print and write the report.

    Returns:
        the exit code: 1 if a claim fails.

    Raises:
        UnknownNameError: there is no such part.
    """
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        raise UnknownNameError("part", unknown[0], PARTS)
    began, say = time.monotonic(), teller()
    bound_arenas()
    reproduction = Reproduction("Photographs", (), (), (), {"quick": job.quick})
    with hint_to_go_on():
        for name in parts or PARTS:
            say(f"measuring {name}")
            part = PARTS[name](job)
            reproduction = replace(
                reproduction,
                rows=(*reproduction.rows, *part.rows),
                gains=(*reproduction.gains, *part.gains),
                claims=(*reproduction.claims, *part.claims),
            )
    return print_report(reproduction, job.out, began, as_json=as_json)
