"""One query of the embedded world with its answer, and smaller records for text alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viper.schema import PixelBox, Query, to_json
from viper_lab.world.queries.meaning import TASK_OF_FAMILY, Meaning


@dataclass(frozen=True)
class WorldSample:
    """A query about one rendered scene or clip.

    Attributes:
        sample_id: ``test-7-referring-12``: split, seed, family, number.
        family: ``referring``, ``question`` or ``video``.
        answer: ``ground``: index of the object in the scene; ``question``: a word; ``choice``:
            index of the option.
        box: ``ground`` only: the object's visible pixels, from the top-left corner.
        media_index: number of the scene (or clip, family ``video``) within its split.
        query_type: the meaning's type.
        template: name of the text's template; ``h…`` are held out.
        steps: how many objects must be found, ordered or filtered one after another.
    """

    sample_id: str
    family: str
    split: str
    text: str
    answer: int | str
    media_index: int
    query_type: str
    template: str
    steps: int
    meaning: Meaning
    options: tuple[str, ...] = ()
    box: PixelBox | None = None

    @property
    def task(self) -> str:
        """Return ``ground``, ``question`` or ``choice``."""
        return TASK_OF_FAMILY[self.family]

    @property
    def query(self) -> Query:
        """Return the query for the Reasoner."""
        media = "video" if self.family == "video" else "image"
        return Query(self.text, self.task, media, self.options, self.sample_id)

    @property
    def answer_text(self) -> str:
        """Return the answer as text: the word, the right option, or the object's number."""
        if self.task == "choice":
            return self.options[int(self.answer)]
        return str(self.answer)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        record: dict[str, Any] = to_json(self)
        return {**record, "meaning": self.meaning.to_json(), "task": self.task}


@dataclass(frozen=True)
class TextSample:
    """A query and its canonical program, true of no particular scene: training text."""

    text: str
    program: str
    task: str
    api: str
    query_type: str
    template: str
    meaning: Meaning
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectionSample:
    """Input and output of ``select_answer``; ``answer`` is one of ``options``."""

    info: str
    question: str
    options: tuple[str, ...]
    answer: str
