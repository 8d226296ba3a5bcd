"""Which scene a picture shows, in a name: default scenes, and those about a reserved concept."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from viper.errors import UsageError
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import SCENES_PER_CONCEPT, reserved_scene
from viper_lab.world.scene import RenderedScene, Scene

DEFAULT_SCENES = 3 * 10**8
"""Default scenes of a split that are drawn from; those beyond serve other purposes."""


@dataclass(frozen=True)
class ScenePlace:
    """Scene ``index`` of a split.

    Attributes:
        concept: which reserved concept the scene is about; None for a default scene.
        present: of a concept, whether any object shows it.
    """

    split: str
    index: int
    concept: str | None = None
    present: bool = True

    @property
    def name(self) -> str:
        """``val-scene-7``, ``val-pyramid-7``, ``val-without-pyramid-7``: unique in the world."""
        kind = self.concept or "scene"
        return f"{self.split}-{'' if self.present else 'without-'}{kind}-{self.index}"

    def scene(self) -> Scene:
        """The scene.

        Raises:
            UnknownNameError, UsageError: no such split, concept or index, or no clear layout.
        """
        if self.concept is None:
            return sample_scene(self.split, self.index)
        return reserved_scene(self.split, self.index, self.concept, present=self.present)

    def rendered(self) -> RenderedScene:
        """The picture with its ground truth, drawn now; errors as :meth:`scene`."""
        return render_scene(self.scene())


def random_place(
    random: Random, split: str, concept: str | None = None, *, present: bool = True
) -> tuple[ScenePlace, Scene]:
    """A place with its scene; those for which no clear layout is found are passed over."""
    while True:
        scenes = DEFAULT_SCENES if concept is None else SCENES_PER_CONCEPT
        place = ScenePlace(split, random.randrange(scenes), concept, present)
        try:
            return place, place.scene()
        except UsageError:
            continue
