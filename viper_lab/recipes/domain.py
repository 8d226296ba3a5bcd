"""The look of the embedded world: how its pictures differ from all others.

Nothing is trained by gradient. The statistics of rendered stills, of frames of clips and of the
pictures of ``world-knowledge`` are stored, see :class:`viper.models.domain.Look`. Pictures of the
training split give the statistics, those of validation the limits. The list of words beside it is
written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.models.domain import Look
from viper.models.vision.roles import Pixels
from viper_lab.recipes.optim import TrainOptions
from viper_lab.world.clips import render_clip, sample_clip
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene

STILLS, CLIPS, DESIGNS = 1500, 120, 120
FRAMES = (0, 15, 31)


def train(options: TrainOptions) -> Mapping[str, float]:
    """Write ``world.npz`` and return the share of new training pictures that it flags."""
    size = 1.0 if options.steps is None else options.steps / STILLS
    look = Look.fit(pictures("train", size, options.seed), pictures("val", size, options.seed))
    options.out.mkdir(parents=True, exist_ok=True)
    look.write(options.out / "world.npz")
    fresh = [look.distance(picture) > 1 for picture in pictures("val", 0.3 * size, 77)]
    return {"pictures": len(fresh), "flagged": sum(fresh) / len(fresh)}


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
