"""The looks of the embedded worlds: how their pictures differ from all others.

Nothing is trained by gradient. The statistics of rendered stills, of frames of clips and of the
pictures of ``world-knowledge`` are stored, and apart from them those of ``world-fine``; see
:class:`viper.models.domain.Look`. Pictures of the training split give the statistics, those of
validation the limits. The lists of words beside them are written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.models.domain import Look
from viper.models.vision.roles import Pixels
from viper_lab.recipes.optim import TrainOptions
from viper_lab.world.clips import render_clip, sample_clip
from viper_lab.world.fine.kinds import fine_sample
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene

STILLS, CLIPS, DESIGNS, FINE = 1500, 120, 120, 1400
FRAMES = (0, 15, 31)


def train(options: TrainOptions) -> Mapping[str, float]:
    """Write ``world.npz`` and ``fine.npz``; return the shares of new pictures that they flag."""
    size = 1.0 if options.steps is None else options.steps / STILLS
    options.out.mkdir(parents=True, exist_ok=True)
    flagged = {}
    for name, drawn in (("world", pictures), ("fine", fine_pictures)):
        look = Look.fit(drawn("train", size, options.seed), drawn("val", size, options.seed))
        look.write(options.out / f"{name}.npz")
        fresh = [look.distance(picture) > 1 for picture in drawn("val", 0.3 * size, 77)]
        flagged[f"{name}, flagged of {len(fresh)}"] = sum(fresh) / len(fresh)
    return flagged


def pictures(split: str, size: float, seed: int) -> Iterator[Pixels]:
    """Yield rendered pictures ``uint8 [H, W, 3]`` of every kind of the world."""
    first = seed * 1_000_000
    for index in range(first, first + round(STILLS * size)):
        yield render_scene(sample_scene(split, index)).image
    for index in range(first, first + round(CLIPS * size)):
        frames = render_clip(sample_clip(split, index)).frames
        yield from (frames[place] for place in FRAMES)
    spec = DatasetSpec(split=split, limit=max(1, round(DESIGNS * size)), seed=seed)
    for sample in data_set("world-knowledge").samples(spec):
        yield sample.load()


def fine_pictures(split: str, size: float, seed: int) -> Iterator[Pixels]:
    """Yield pictures of ``world-fine``, ``uint8 [768, 1024, 3]``."""
    for index in range(round(FINE * size)):
        yield from fine_sample(split, seed, index).pictures
