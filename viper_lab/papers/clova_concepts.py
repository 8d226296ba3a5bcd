"""Concepts of an annotation file in COCO's form: questions about its pictures, and the detector.

A third of the pictures, by a hash of the picture's id (`datasets.held_back`),
judges; nothing is learned from it. `Concepts.questions` writes a file of questions about each part,
with answers from the boxes, which any command takes as a data set. `Concepts.detector` teaches the
detector every concept directly and asks it before and after.

Source: CLOVA (Gao et al. 2024), sec. 3.4: boxes of a concept teach LOC. Differs: the paper measures
answers alone, and asks people's questions.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.agreement import match_tags
from viper.data.source import SourceFile
from viper.errors import DataError, UsageError
from viper.models.media import media_from
from viper.models.vision.prompt_pool import PromptPool
from viper.storage.files import write_file
from viper.tools.tool_functions import detections
from viper.tools.toolbox import Toolbox
from viper.tuning.lvis import CocoStore
from viper.tuning.soft_prompts.base import TunerOptions
from viper.tuning.tool_training import ToolTrainer
from viper.tuning.training_data import MOST_SAMPLES, AnnotatedPicture
from viper_lab.datasets.held_back import is_held_back
from viper_lab.papers.clova_tools import ToolOutcome
from viper_lab.papers.method_runner import MethodRunner, Subject
from viper_lab.scores.concepts.measurement import ToolAnswer, whole


@dataclass(frozen=True)
class Concepts:
    """Concepts to learn, and the pictures of a file.

    Attributes:
        names: of the concepts, as the file has them.
        pictures: learned from (False), and held back (True); none without a box.
    """

    store: CocoStore
    names: tuple[str, ...]
    pictures: dict[bool, list[AnnotatedPicture]]

    @classmethod
    def of(cls, file: Path, folder: Path | None, concepts: Sequence[str]) -> Concepts:
        """Read the annotation file.

        Args:
            folder: of the pictures; see :class:`CocoStore`.

        Raises:
            UsageError: the file has no category of that name, or no picture of it in some part.
            DataError: the file is missing or broken.
        """
        store = CocoStore(SourceFile(file.parent, file.name), folder)
        drawn: dict[str, AnnotatedPicture] = {}
        for label in store.vocabulary():
            with suppress(DataError):  # not one of its pictures is on this disk
                drawn |= {each.picture_id: each for each in store.samples(label, MOST_SAMPLES)}
        pictures: dict[bool, list[AnnotatedPicture]] = {False: [], True: []}
        # in a random order that is always the same
        for number in sorted(drawn, key=lambda each: hashlib.sha256(each.encode()).digest()):
            pictures[_is_held_back(number)].append(drawn[number])
        names = []
        for concept in concepts:
            if not (labels := store.names_of(concept)):
                known = ", ".join(store.vocabulary())
                raise UsageError(f"{file} has no category {concept!r}; expected some of {known}")
            for is_held, part in pictures.items():
                if not any(_boxes(each, labels[0]) for each in part):
                    what = "pictures that judge" if is_held else "pictures to learn from"
                    raise UsageError(f"{file}: no {concept!r} among the {len(part)} {what}")
            names.append(labels[0])
        return cls(store, tuple(dict.fromkeys(names)), pictures)

    @property
    def held_back(self) -> frozenset[str]:
        """Return the file names of the third that judges."""
        files = self.store.files.items()
        return frozenset(Path(name).name for number, name in files if _is_held_back(number))

    def subject(self, folder: Path) -> Subject:
        """Return the questions about both parts, written to a folder, as a part of the data."""
        asked, stream = (
            str(self.questions(is_held, folder / f"{part}.jsonl"))
            for is_held, part in ((True, "held-back"), (False, "learned-from"))
        )
        name = ", ".join(self.names)
        return Subject(name, asked, "all", "all", self.store.folder, stream_set=stream)

    def asked(self, name: str, held_back: bool) -> Iterator[tuple[AnnotatedPicture, bool]]:
        """Yield the pictures of a part that show a concept, and at most as many that do not."""
        part = self.pictures[held_back]
        showing = [(each, True) for each in part if _boxes(each, name)]
        others = [(each, False) for each in part if name in each.absent]
        yield from (*showing, *others[: len(showing)])

    def questions(self, held_back: bool, file: Path) -> Path:
        """Write the questions about a part: is there one, and where is it if there is one alone."""
        lines: list[dict[str, Any]] = []
        for name in self.names:
            for picture, shows in self.asked(name, held_back):
                media = self.store.files[picture.picture_id]
                line = {"id": f"{Path(media).stem}-{name}", "media": media}
                query = f"is there any {name} in the picture?"
                lines.append({**line, "query": query, "answer": "yes" if shows else "no"})
                boxes = _boxes(picture, name)
                if len(boxes) == 1 and name not in picture.incomplete:
                    where = {"id": f"{line['id']}-box", "task": "ground", "answer": boxes[0]}
                    lines.append({**line, "query": f"find the {name}", **where})
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, "".join(f"{json.dumps(line)}\n" for line in lines))
        return file

    def detector(self, runner: MethodRunner, seed: int) -> ToolOutcome:
        """Teach the detector all concepts into one pool, and ask it about the pictures held back.

        A picture's score is the F1 of boxes and objects, matched one to one at an IoU of 0.5; where
        a concept is absent, it is 1 if nothing was found.
        """
        toolbox = runner.writers["main"].toolbox
        pool = PromptPool(runner.folder / "tools" / f"pool-{seed}")
        if pool.kept():
            pool.remove("loc")
        trainer = ToolTrainer(toolbox.models, pool, runner.sources(seed), runner.trained)
        before = list(self._found(toolbox))
        seconds, kept, trained = [], 0, 0
        for name in self.names:
            runner.say(f"teaching loc: {name}")
            began = time.perf_counter()
            result = trainer.teach("loc", name, TunerOptions(seed=seed))
            seconds.append(round(time.perf_counter() - began, 2))
            kept, trained = kept + result.kept, trained + len(result.trained)
        after = list(self._found(toolbox.with_soft_prompts(pool)))
        pool.close()
        return ToolOutcome((before, after), ((), ()), seconds, kept_good=kept, good=trained)

    def _found(self, toolbox: Toolbox) -> Iterator[ToolAnswer]:
        for name in self.names:
            for picture, shows in self.asked(name, held_back=True):
                if name in picture.incomplete:
                    continue
                pixels = picture.pixels()
                session = toolbox.session(media_from(pixels).for_run())
                least = session.threshold("detector.threshold")
                boxes = [
                    each.box
                    for each in detections(session, session.region(whole(pixels)), name)
                    if each.score >= least
                ]
                right = match_tags(
                    [(name, box) for box in boxes], [(name, box) for box in _boxes(picture, name)]
                )
                kind = f"find {name}{'' if shows else ' (absent)'}"
                yield ToolAnswer(kind, name, picture.picture_id, right.f1)


def _is_held_back(picture_id: str) -> bool:
    return is_held_back(picture_id.rpartition(":")[2])


def _boxes(picture: AnnotatedPicture, name: str) -> list[tuple[float, float, float, float]]:
    return [thing.box for thing in picture.things if name in thing.labels]
