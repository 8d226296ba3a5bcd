"""What a tuned agent makes of workflows that it was not tuned on: the loss of their actions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from viper.record import record_from_json
from viper.tuning.agent.encoding import IGNORED, Encoded, padded
from viper.tuning.agent.workflow import Workflow

FILE = "held-out.json"
"""Of the folder for checkpoints."""


@dataclass(frozen=True)
class HeldOut:
    """Mean loss of a token of the actions, in nats.

    Attributes:
        rows: texts that the actions stand in.
        tokens: of the actions.
        before, after: tuning; ``after`` is None until it is over.
    """

    rows: int
    tokens: int
    before: float
    after: float | None = None


def split(
    workflows: Sequence[Workflow], share: float, seed: int
) -> tuple[list[Workflow], list[Workflow]]:
    """The workflows to tune on and those that are held out.

    Workflows of the same media stay together, in whatever manner they were made: ``share`` of all
    media, rounded down, is held out with what is asked about them.
    """
    units = list(dict.fromkeys(one.unit for one in workflows))
    out = set(Random(f"held out {seed}").sample(units, int(share * len(units))))
    return (
        [one for one in workflows if one.unit not in out],
        [one for one in workflows if one.unit in out],
    )


def token_loss(model: Any, rows: Sequence[Encoded], pad: int, batch: int) -> tuple[float, int]:
    """Mean loss of the tokens that count, and how many they are."""
    import torch

    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            count = sum(label != IGNORED for row in some for label in row.labels[1:])
            filled = padded(some, pad)
            given = {name: torch.tensor(values, device=device) for name, values in filled.items()}
            total += float(model(**given).loss) * count
            tokens += count
    model.train(was_training)
    return total / max(1, tokens), tokens


def read_held_out(work: Path) -> HeldOut | None:
    """What is noted in a folder; None where nothing was held out, or nothing readable stands."""
    try:
        return record_from_json(HeldOut, json.loads((work / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def note_held_out(work: Path, found: HeldOut) -> None:
    """Notes it, in one step."""
    part = work / f"{FILE}.part"
    part.write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")
    part.replace(work / FILE)
