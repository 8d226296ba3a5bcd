"""All tools without error for queries about stills: several pictures, outlines, edits and tags.

Tools that need a model answer from the scenes (:class:`viper_lab.world.oracle.Oracle`), and the
renderer paints. Tools without a model, such as blurring and tagging, run their normal code. So a
program that fails here is wrong itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.edited import outline_of
from viper.models.media import Media
from viper.models.vision.roles import Mask, Pixels
from viper.sandbox import Ref, Sandbox
from viper.schema import Answer, Failure, Query
from viper.strategies.answers import read_answer
from viper.strategies.program import ENTRY, program_arguments
from viper.tools.models import ModelSet
from viper.tools.picture_tools import PICTURE_TOOLS
from viper.tools.session import ToolSession
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.world.edited_scene import looks_of, with_looks
from viper_lab.world.oracle import Oracle
from viper_lab.world.queries.facts import FACTS, PLAIN
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedScene

# Share of an object's pixels inside a mask at which the object is repainted.
COVERED = 0.5


class PerfectTools:
    """A ``ToolClient`` for the pictures of one query.

    Args:
        scenes: the truth of the pictures, in their order.

    Attributes:
        media: the pictures, and the edits of programs.
    """

    def __init__(self, scenes: Sequence[RenderedScene]) -> None:
        self.media = Media(
            images=tuple(scene.image for scene in scenes),
            names=tuple(f"image{number}" for number in range(len(scenes))),
        )
        self._scenes = {f"image{number}": scene for number, scene in enumerate(scenes)}
        self._oracles = {name: _PicturedOracle(scene) for name, scene in self._scenes.items()}
        painter = _Painter(scenes)
        toolbox = Toolbox(ModelSet({"inpainter": lambda: painter}), ToolSettings())
        self._session: ToolSession = toolbox.session(self.media)

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None = None
    ) -> Any:
        """Answer one call of a program.

        Raises:
            ToolError: there is no such tool, or it refused.
        """
        if name == "llm_query":
            facts = (fact for fact in FACTS if fact.request in str(args[0]))
            return next((", ".join(sorted(fact.members)) for fact in facts), "")
        if name == "segment":
            return self._segment(*args, **kwargs)
        if name in PICTURE_TOOLS:
            return self._session.call(name, args, kwargs, line)
        return self._oracle(args).call(name, args, kwargs, line)

    def _oracle(self, args: Sequence[Any]) -> Oracle:
        for value in args:
            ref = value[0] if isinstance(value, list | tuple) and value else value
            if isinstance(ref, Ref) and ref.fields:
                return self._oracles[self._origin(ref)]
        return next(iter(self._oracles.values()))

    def _origin(self, ref: Ref) -> str:
        try:
            return self.media.origin(str(ref.fields[0])).image_id
        except KeyError:
            raise ToolError(f"there is no picture {ref.fields[0]!r} in this query") from None

    def _segment(self, patch: Any) -> list[Ref]:
        """Return every object in the patch with its exact outline and its shape, largest first."""
        scene, image_id = self._scenes[self._origin(patch)], str(patch.fields[0])
        oracle = self._oracles[self._origin(patch)]
        refs = []
        for ref in oracle.find(patch, "object"):
            index = oracle.seen(ref)
            outline = outline_of(scene.masks[index])
            assert outline is not None
            name = self.media.edits.add_outline(outline)
            shape = scene.scene.objects[index].shape
            refs.append(self._session.patch_ref(image_id, outline.box, name, shape))
        return refs


class KnowingTools(PerfectTools):
    """Perfect tools whose visual answerer also knows the answer to one question about the picture.

    Args:
        question: the question with the known answer.
    """

    def __init__(self, scenes: Sequence[RenderedScene], question: str, answer: str) -> None:
        super().__init__(scenes)
        self._question, self._answer = question, answer

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None = None
    ) -> Any:
        """Answer like :meth:`PerfectTools.call`; the known question needs the whole picture."""
        asks = name in ("simple_query", "complex_query")
        if asks and args[1:2] == (self._question,) and self._is_whole(args[0]):
            return self._answer
        return super().call(name, args, kwargs, line)

    def _is_whole(self, ref: Any) -> bool:
        if not isinstance(ref, Ref) or ref.kind not in ("image", "patch"):
            return False
        if ref.kind == "image":
            return True
        height, width = self.media.pixels(str(ref.fields[0])).shape[:2]
        box = tuple(round(float(side)) for side in ref.fields[1:5])
        return box == (0, 0, width, height)


def answer_perfectly(
    program: str, query: Query, scenes: Sequence[RenderedScene], sandbox: Sandbox
) -> tuple[Answer | Failure, Media]:
    """Return a program's answer with perfect tools, and the media with its edits.

    Args:
        sandbox: with the prelude of the program's API.
    """
    tools = PerfectTools(scenes)
    arguments = program_arguments(query, tools.media)
    outcome = sandbox.run(program, tools=tools, entry=ENTRY, args=arguments)
    if outcome.failure is not None:
        return outcome.failure, tools.media
    return read_answer(outcome.value, query, tools.media), tools.media


class _PicturedOracle(Oracle):
    """An oracle that also knows which objects have no pattern."""

    def best_text_match(self, patch: Any, options: Sequence[str]) -> str:
        words = self.truth.words[self.seen(patch)]
        own = {PLAIN, *words.values()} if "pattern" not in words else set(words.values())
        return max(options, key=lambda option: len(own & set(option.split())))


class _Painter:
    """An inpainter that renders the scene with the objects of the prompt."""

    model_id = "perfect:inpainter"

    def __init__(self, scenes: Sequence[RenderedScene]) -> None:
        self._scenes = scenes

    def inpaint(self, pixels: Pixels, mask: Mask, prompt: str, seed: int) -> Pixels:
        """Return the picture with the masked objects changed to the prompt, inside the mask.

        Raises:
            ToolError: the picture is none of the scenes', or the mask covers no object.
        """
        for scene in self._scenes:
            outside = ~mask & (scene.image == pixels).all(axis=2)
            if scene.image.shape == pixels.shape and outside.sum() >= (~mask).sum() / 2:
                break
        else:
            raise ToolError("the painter does not know this picture; paint in a given one")
        covered = [
            index
            for index, own in enumerate(scene.masks)
            if (own & mask).sum() > COVERED * own.sum()
        ]
        if not covered:
            raise ToolError("there is no object under the mask")
        after = render_scene(with_looks(scene.scene, covered, looks_of(prompt)))
        return np.where(mask[..., None], after.image, pixels)
