"""Jobs on NLVR's drawn pictures: two sentences, each about every picture.

The pictures and what they hold (``structured_rep``) are the development split's; OpenCV sees them
as in ``examples/nlvr``. The embedded writer, which learned none of its sentences, writes.

Source: Suhr et al., ACL 2017.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from viper.data.nlvr import PngArchive
from viper.jobs.cases import Label
from viper.profiles import load_profile
from viper.profiles.wiring import Profile
from viper_lab.jobs.study import StudyJob, part_of, save_png
from viper_lab.photographs.job import PhotographJob

Box = Sequence[Mapping[str, Any]]

_DOMAIN = Path(__file__).parents[2] / "examples/nlvr/profile.toml"


def _tower_of_four(boxes: Sequence[Box]) -> bool:
    """Return whether four items stand in one column and are alone in their box."""
    return any(len(box) == 4 and len({item["x_loc"] for item in box}) == 1 for box in boxes)


def _one_color(boxes: Sequence[Box]) -> bool:
    return any(len({item["color"] for item in box}) == 1 for box in boxes)


_JOBS: Mapping[str, tuple[str, Callable[[Sequence[Box]], bool]]] = {
    "tower": ("there is a tower with four blocks", _tower_of_four),
    "one color": ("there is a box with items of only one color", _one_color),
}


def nlvr_jobs(data: PhotographJob) -> list[StudyJob]:
    """Return the jobs."""
    profile = _profile()
    return [
        StudyJob(name, "real", profile, partial(_draw, data, *what)) for name, what in _JOBS.items()
    ]


def _profile() -> Profile:
    domain, embedded = load_profile(str(_DOMAIN)), load_profile("embedded")
    document = replace(
        domain.document,
        models={"llm": embedded.document.models["llm"]},
        run=replace(embedded.document.run, api=domain.document.run.api, checks=False),
        tools=replace(domain.document.tools, nouns=("box", "item", "square", "circle", "triangle")),
    )
    return replace(domain, document=document)


def _draw(
    data: PhotographJob,
    query: str,
    truth: Callable[[Sequence[Box]], bool],
    part: str,
    seed: int,
    count: int,
) -> list[Label]:
    folder, out = data.folder("nlvr") / "dev", data.out / "nlvr"
    archive, labels = PngArchive(folder / "images.zip"), []
    for line in (folder / "dev.json").read_text("utf-8").splitlines():
        record = json.loads(line)
        name = f"dev-{record['identifier']}-0.png"
        picture = out / name
        if not picture.is_file():
            pixels = archive.read(f"images/{record['directory']}/{name}")
            save_png(picture, Image.fromarray(pixels))
        answer = truth(record["structured_rep"])
        labels.append(Label((str(picture.resolve()),), query, "statement", answer))
    return part_of(labels, part, seed, count)
