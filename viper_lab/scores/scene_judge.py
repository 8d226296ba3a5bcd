"""A judge of edits that knows the scene, so it can render the correct result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viper.data.sample import EditTarget, Sample
from viper.errors import UsageError
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper_lab.datasets.tasks import PlacedPictures
from viper_lab.recipes.object_words import FAMILIES
from viper_lab.world.edited_scene import looks_of, with_looks, without
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedScene


@dataclass(frozen=True)
class SceneJudge:
    """Accepts an edit if the picture is closest to the scene rendered with the named object.

    The alternatives are another shape, colour or material, the other named object, and nothing.
    Only pixels that the edit changed count; if there are none, the whole box counts. The judge
    knows reserved concepts and needs no model, but works on pictures of the embedded world only.

    Attributes:
        scene: before the edit.
        objects: indexes of the edited objects.
    """

    scene: RenderedScene
    objects: tuple[int, ...]

    @classmethod
    def of(cls, sample: Sample) -> SceneJudge:
        """Return the judge of a sample of ``world-edit``.

        Raises:
            UsageError: the sample is of another set.
        """
        if not isinstance(sample.load, PlacedPictures) or not isinstance(sample.target, EditTarget):
            raise UsageError(f"{sample.sample_id} is no edit of the embedded world's own scenes")
        scene = sample.load.places[0].rendered()
        boxes = [tuple(map(float, box)) for box in scene.boxes]
        return cls(scene, tuple(boxes.index(box) for box in sample.target.boxes))

    def shows(self, pixels: Pixels, box: PixelBox, phrase: str, over: str) -> bool:
        """See :class:`viper.evaluate.metrics.editing.EditJudge`."""
        x0, y0, x1, y1 = (round(edge) for edge in box)
        part = (slice(y0, y1), slice(x0, x1))
        changed = (pixels[part] != self.scene.image[part]).any(axis=2)
        mask = np.ones_like(changed) if not changed.any() else changed

        def distance(other: Pixels) -> float:
            return float(np.abs(pixels[part].astype(int) - other[part])[mask].mean())

        named = distance(self._render(looks_of(phrase)))
        if named == 0:
            return True
        return all(named < distance(other) for other in self._others(phrase, over))

    def _render(self, looks: Mapping[str, str | None]) -> Pixels:
        """Render the scene with these looks of the edited objects."""
        things = [self.scene.scene.objects[index] for index in self.objects]
        if all(getattr(thing, name) == word for thing in things for name, word in looks.items()):
            return self.scene.image
        return render_scene(with_looks(self.scene.scene, self.objects, looks)).image

    def _others(self, phrase: str, over: str) -> Iterator[Pixels]:
        """Yield pictures of the alternatives, the likeliest first."""
        looks: dict[str, str | None] = {**looks_of(phrase)}
        yield self._render(looks_of(over))
        yield render_scene(without(self.scene.scene, self.objects)).image
        for name, current in looks.items():
            for word in _FAMILIES[name]:
                if word != current:
                    yield self._render({**looks, name: word})


_FAMILIES: Mapping[str, Sequence[str | None]] = {**FAMILIES, "pattern": (None,)}
