"""``world-fine`` as a data set: pictures of 1,024 x 768 pixels that need a closer look.

Splits: ``val``, ``train``, ``test``; the author of the wordings of ``val`` and ``test`` had not
seen those of ``train``. A suffix takes one kind, ``val:sign``. Sample ids are
``SPLIT-SEED-KIND-N``. Without ``--limit`` 300 samples are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viper.data.layout import split_of
from viper.data.sample import DatasetSpec, Sample
from viper_lab.datasets.world import VAL_FIRST, GeneratedDataset, count_of

# The kinds of queries; see :data:`viper_lab.world.fine.kinds.KINDS`.
KINDS = ("tag", "sign", "faint", "dots", "pair", "line", "gauge")


@dataclass(frozen=True)
class FineMedia:
    """Draws the pictures of a sample when called."""

    split: str
    seed: int
    index: int

    def __call__(self) -> Any:
        from viper_lab.world.fine.kinds import fine_sample

        return list(fine_sample(self.split, self.seed, self.index).pictures)


class WorldFine(GeneratedDataset):
    """Data set ``world-fine``; see the module."""

    name = "world-fine"
    splits = (*VAL_FIRST, *(f"{split}:{kind}" for split in VAL_FIRST for kind in KINDS))
    families = KINDS
    metric = "answers"
    summary = "small, turned, faint, many: needs a closer look or a measurement; needs no files"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return the samples asked for, kinds in turn."""
        from viper_lab.world.fine.kinds import fine_sample

        split, _, part = split_of(self, spec).partition(":")
        indices = range(count_of(spec))
        if part:
            indices = range(KINDS.index(part), count_of(spec) * len(KINDS), len(KINDS))
        samples = []
        for index in indices:
            drawn = fine_sample(split, spec.seed, index)
            number = index // len(KINDS)
            samples.append(
                Sample(
                    f"{split}-{spec.seed}-{drawn.kind}-{number}",
                    drawn.question,
                    task="question",
                    media="image" if len(drawn.pictures) == 1 else "images",
                    target=str(drawn.answer),
                    load=FineMedia(split, spec.seed, index),
                    groups={"kind": drawn.kind},
                    files=(f"{split}-fine-{spec.seed}-{index}",),
                )
            )
        return samples
