"""A picture search over the embedded world that returns some wrong pictures on purpose.

It replaces web search where there is no network. The share of wrong pictures serves to measure how
well validation discards updates learned from them. The search knows which pictures are wrong; its
results do not show it.
"""

from __future__ import annotations

import random
from functools import partial

from viper.errors import UsageError
from viper.models.vision.roles import Pixels
from viper.tools.crops import object_crop
from viper.tuning.training_data import FoundPicture, checked_limit
from viper_lab.world.annotated import (
    SCENES,
    SEARCH_FIRST,
    ConceptMeaning,
    first_scene,
    meaning_of,
    scene_about,
    scenes_with,
)
from viper_lab.world.render import render_scene
from viper_lab.world.scene import Scene

# Number of consecutive pictures in which the share of wrong ones is exact.
_BLOCK = 10


class WorldPictureSearch:
    """Search (:class:`~viper.tuning.training_data.PictureSearch`) for crops around world objects.

    Args:
        wrong: share of pictures, in tenths, that show another object instead.
        seed: selects the scenes and the wrong pictures.

    Raises:
        UsageError: the share is not within [0, 1] or no tenth, or the seed is out of range.
    """

    name = "world-search"

    def __init__(self, wrong: float = 0.0, seed: int = 0) -> None:
        if not 0 <= wrong <= 1 or abs(wrong * _BLOCK - round(wrong * _BLOCK)) > 1e-9:
            raise UsageError(f"a share of wrong pictures of {wrong}; expected 0, 0.1, … or 1")
        self._wrong, self._seed = round(wrong * _BLOCK), seed
        self._first = first_scene(seed)

    def search(self, text: str, limit: int) -> list[FoundPicture]:
        """Return crops of objects that show a concept, one per scene; empty for unknown words.

        Raises:
            UsageError: the limit is out of range.
        """
        checked_limit(limit)
        meaning = meaning_of(text)
        if meaning is None:
            return []
        start = self._first + SEARCH_FIRST
        scenes = zip(scenes_with(meaning, start), range(limit), strict=False)
        return [
            self._found(text, meaning, place, index, scene, showing)
            for place, ((index, scene, showing), _) in enumerate(scenes)
        ]

    def is_wrong(self, picture: FoundPicture) -> bool:
        """Return whether a picture of this search is wrong; never used in learning."""
        return self.is_wrong_name(picture.picture_id)

    def is_wrong_name(self, picture_id: str) -> bool:
        """Return whether the picture of that name is wrong."""
        label, place = picture_id.split(":")[-2:]
        meaning = meaning_of(label)
        return meaning is not None and self._is_wrong(meaning, int(place))

    def _is_wrong(self, meaning: ConceptMeaning, place: int) -> bool:
        block, within = divmod(place, _BLOCK)
        rng = random.Random(f"wrong:{self._seed}:{meaning.label}:{block}")
        return within in rng.sample(range(_BLOCK), self._wrong)

    def _found(
        self,
        text: str,
        meaning: ConceptMeaning,
        place: int,
        index: int,
        scene: Scene,
        showing: tuple[int, ...],
    ) -> FoundPicture:
        rng = random.Random(f"crop:{self._seed}:{meaning.label}:{place}")
        if self._is_wrong(meaning, place):
            scene, showing = _without(meaning, index)
        load = partial(_crop, scene, rng.choice(showing))
        name = f"{self.name}:{self._seed}:{meaning.label}:{place}"
        origin = {"world": meaning.label, "seed": self._seed, "place": place}
        return FoundPicture(name, text, origin, load)


def _without(meaning: ConceptMeaning, index: int) -> tuple[Scene, tuple[int, ...]]:
    """Return the next scene in which no object shows the concept, and all of its objects."""
    for each in range(index, index + SCENES):
        scene = scene_about(meaning, each, present=False)
        if not any(map(meaning.holds, scene.objects)):
            return scene, tuple(range(len(scene.objects)))
    raise UsageError(f"every scene shows {meaning.label!r}; no picture of it can be wrong")


def _crop(scene: Scene, index: int) -> Pixels:
    """Return the square around one object, uint8 [S, S, 3]; rendered on each call."""
    still = render_scene(scene)
    return object_crop(still.image, still.box(index))
