"""Jobs on real pictures: photographs by their COCO categories, and blood smears.

The detector is the one of the data in profile ``photo-lite``. The embedded writer, which was
trained on other words, writes the programs, so that no endpoint is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from viper.data.coco_file import CocoFile
from viper.data.source import SourceFile
from viper.jobs.cases import Label
from viper.profiles import load_profile
from viper.profiles.wiring import Profile
from viper_lab.jobs.study import StudyJob, part_of
from viper_lab.photographs.job import DEVELOPMENT, ELSEWHERE, PhotographJob

Counts = Mapping[str, int]

_STREET = ("car", "bus", "truck", "motorcycle", "traffic light", "stop sign", "parking meter")
_MEAL = ("pizza", "sandwich", "bowl", "cup", "fork", "knife", "spoon", "cake", "hot dog", "bottle",
         "wine glass", "donut", "broccoli", "carrot", "apple", "orange", "banana")  # fmt: skip
_ANIMALS = ("bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe")


def _any(names: Sequence[str]) -> Callable[[Counts], str]:
    return lambda counts: "yes" if any(counts.get(name) for name in names) else "no"


# Folders, question, and its answer by the number of boxes of each category.
_JOBS: Mapping[str, tuple[Sequence[str], str, Callable[[Counts], str]]] = {
    "people": ((DEVELOPMENT, ELSEWHERE), "how many people are there?",
               lambda counts: str(counts.get("person", 0))),
    "person": ((DEVELOPMENT, ELSEWHERE), "is there a person?", _any(("person",))),
    "animals": ((DEVELOPMENT, ELSEWHERE), "are there any animals?", _any(_ANIMALS)),
    "street": ((DEVELOPMENT, ELSEWHERE), "is it a street?", _any(_STREET)),
    "meal": ((DEVELOPMENT, ELSEWHERE), "is somebody going to eat?", _any(_MEAL)),
    "crowd": ((DEVELOPMENT, ELSEWHERE), "is it crowded?",
              lambda counts: "yes" if counts.get("person", 0) >= 3 else "no"),
    "platelets": (("bccd",), "are there platelets?", _any(("platelets",))),
    "many cells": (("bccd",), "are there many red cells?",
                   lambda counts: "yes" if counts.get("rbc", 0) > 12 else "no"),
}  # fmt: skip


def with_embedded_writer(profile: Profile) -> Profile:
    """Return a profile whose programs the embedded writer writes."""
    embedded, own = load_profile("embedded").document, profile.document
    run = replace(own.run, checks=False, prompt_style=embedded.run.prompt_style)
    document = replace(own, models={"llm": embedded.models["llm"]}, run=run)
    return replace(profile, document=document)


def real_jobs(data: PhotographJob) -> list[StudyJob]:
    """Return the jobs; two thirds of each class at most are drawn as labels."""
    profile = with_embedded_writer(data.profile())
    return [StudyJob(name, "real", profile, _drawing(data, *what)) for name, what in _JOBS.items()]


def _drawing(
    data: PhotographJob, folders: Sequence[str], query: str, truth: Callable[[Counts], str]
) -> Callable[[str, int, int], list[Label]]:
    def draw(part: str, seed: int, count: int) -> list[Label]:
        every = []
        for folder in map(data.folder, folders):
            file = CocoFile.read(SourceFile(folder, "instances.json"))
            for number, picture in file.pictures.items():
                things = file.things.get(number, ())
                counts = Counter(file.categories[each.category][0].lower() for each in things)
                path = str((folder / "images" / picture.file).resolve())
                every.append(Label((path,), query, "question", truth(counts)))
        return part_of(every, part, seed, count)

    return draw
