"""Names that state a picture's scene: default scenes, and those about a reserved concept."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from viper.errors import UsageError
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import SCENES_PER_CONCEPT, reserved_scene
from viper_lab.world.scene import RenderedScene, Scene

# Default scenes of a split for drawing; later ones serve other purposes.
DEFAULT_SCENES = 3 * 10**8


@dataclass(frozen=True)
class ScenePlace:
    """Scene ``index`` of a split.

    Attributes:
        concept: the scene's reserved concept; None for a default scene.
        present: of a concept, whether any object shows it.
    """

    split: str
    index: int
    concept: str | None = None
    present: bool = True

    @property
    def name(self) -> str:
        """Return the unique name: ``val-scene-7``, ``val-pyramid-7``, ``val-without-pyramid-7``."""
        kind = self.concept or "scene"
        return f"{self.split}-{'' if self.present else 'without-'}{kind}-{self.index}"

    def scene(self) -> Scene:
        """Return the scene.

        Raises:
            UnknownNameError, UsageError: no such split, concept or index, or no clear layout.
        """
        if self.concept is None:
            return sample_scene(self.split, self.index)
        return reserved_scene(self.split, self.index, self.concept, present=self.present)

    def rendered(self) -> RenderedScene:
        """Render the picture with its ground truth; raises the errors of :meth:`scene`."""
        return render_scene(self.scene())


def random_place(
    random: Random, split: str, concept: str | None = None, *, present: bool = True
) -> tuple[ScenePlace, Scene]:
    """Draw a place with its scene, skipping those without a clear layout."""
    while True:
        scenes = DEFAULT_SCENES if concept is None else SCENES_PER_CONCEPT
        place = ScenePlace(split, random.randrange(scenes), concept, present)
        try:
            return place, place.scene()
        except UsageError:
            continue
