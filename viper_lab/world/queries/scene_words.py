"""What can be said of a scene in words alone, before anything is drawn."""

from __future__ import annotations

from viper_lab.world.queries.lexicon import GENERAL_NOUNS
from viper_lab.world.scene import Scene, SceneObject


def attribute_words(thing: SceneObject) -> dict[str, str]:
    """Attribute family to the object's word; ``pattern`` only where it has one."""
    words = {
        "size": thing.size,
        "color": thing.colour,
        "material": thing.material,
        "shape": thing.shape,
    }
    return {**words, "pattern": thing.pattern} if thing.pattern else words


class SceneWords:
    """The words of one scene's objects, which go by their index.

    Attributes:
        words: per object, attribute family to its word.
    """

    def __init__(self, scene: Scene) -> None:
        self.words = [attribute_words(thing) for thing in scene.objects]

    def matching(self, kind: str) -> list[int]:
        """The objects that a kind names, by index."""
        wanted = [word for word in kind.split() if word not in GENERAL_NOUNS]
        return [
            index
            for index, words in enumerate(self.words)
            if all(word in words.values() for word in wanted)
        ]
