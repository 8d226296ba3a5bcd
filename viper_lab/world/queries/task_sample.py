"""One sample of the world's own tasks: statements about pairs, tags, edits, reserved concepts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viper.errors import UnknownNameError
from viper.schema import Query
from viper_lab.world.places import ScenePlace
from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.splits import check_split

# Last lines of line programs and of their plans.
LINE_PROGRAMS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("line_programs.toml").read_text("utf-8")
)


@dataclass(frozen=True)
class TaskSample:
    """An instruction about one or two pictures, its target, and a program for it.

    Attributes:
        sample_id: ``pairs-val-0-pyramid-7``: set, split, seed, part, number.
        task: ``statement``, ``tag``, ``edit``, ``ground`` or ``question``.
        target: as :attr:`viper.data.sample.Sample.target` of that task; of an edit a
            :class:`viper.data.sample.EditTarget`.
        places: the pictures, in order.
        plan: numbered steps in words, one per line.
        program: gives the right answer with perfect tools.
        api: of the program, ``visprog`` or ``abstract``.
        template: name of the wording; ``h…`` are held out.
        concept: reserved concept of the pictures, if any.
        groups: further groups of reports.
    """

    sample_id: str
    split: str
    task: str
    text: str
    target: Any
    places: tuple[ScenePlace, ...]
    plan: str
    program: str
    query_type: str
    template: str
    api: str = "visprog"
    concept: str | None = None
    groups: dict[str, str] = field(default_factory=dict)

    @property
    def query(self) -> Query:
        """Return the query for the Reasoner."""
        media = "image" if len(self.places) == 1 else "images"
        return Query(self.text, self.task, media, (), self.sample_id)


@dataclass(frozen=True)
class TaskSpec:
    """One sample to draw.

    Attributes:
        concept: its reserved concept, or None.
    """

    sample_id: str
    split: str
    concept: str | None

    def sample(self, **values: Any) -> TaskSample:
        """Return the sample of these values and of its own."""
        return TaskSample(
            sample_id=self.sample_id, split=self.split, concept=self.concept, **values
        )


def task_specs(
    name: str, split: str, seed: int, count: int, concepts: Sequence[str] = (), part: str = ""
) -> Iterator[TaskSpec]:
    """Yield the specs of ``count`` samples, about the concepts in turn.

    Args:
        part: part of the ids; by default ``known`` without concepts, the concept's own name of one,
            and ``reserved`` of several.

    Raises:
        UnknownNameError: no such split or reserved concept.
    """
    check_split(split)
    for concept in concepts:
        if concept not in CONCEPTS:
            raise UnknownNameError("reserved concept", concept, CONCEPTS)
    if not part:
        part = "known" if not concepts else concepts[0] if len(concepts) == 1 else "reserved"
    for number in range(count):
        about = concepts[number % len(concepts)] if concepts else None
        yield TaskSpec(f"{name}-{split}-{seed}-{part}-{number}", split, about)
