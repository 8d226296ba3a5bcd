"""Tools that answer from ground truth: perception without error.

An :class:`Oracle` replaces the toolbox for one picture or one clip. Every error with it is the
program's own, so it gives the upper bound of a writer. Tests use it to check that every canonical
program is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.sandbox.wire import Ref
from viper.schema import Box
from viper.tools.crops import box_depth
from viper.tools.tool_functions import TOOL_FUNCTIONS
from viper_lab.world.events import event_phrase
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.queries.programs import ATTRIBUTE_QUESTIONS
from viper_lab.world.queries.scene_nouns import attribute_words
from viper_lab.world.queries.truth import SceneTruth
from viper_lab.world.scene import ClipEvent, RenderedScene, SceneObject


class Oracle:
    """A ``ToolClient`` for one picture (``image0``) or one clip (``video0``).

    Attributes:
        calls: names and arguments of the calls so far, in order.
    """

    def __init__(
        self,
        scene: RenderedScene | None = None,
        objects: Sequence[SceneObject] = (),
        events: Sequence[ClipEvent] = (),
    ) -> None:
        self._truth = None if scene is None else SceneTruth(scene)
        self._objects, self._events = tuple(objects), tuple(events)
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None = None
    ) -> Any:
        """Answer one call of a program.

        Raises:
            ToolError: there is no such tool, or it does not apply to this medium.
        """
        self.calls.append((name, args))
        if name not in _TOOLS:
            raise ToolError(f"the oracle has no tool {name!r}; known: {', '.join(sorted(_TOOLS))}")
        return getattr(self, name)(*args, **kwargs)

    # Pictures.

    @property
    def truth(self) -> SceneTruth:
        """Return the truth of the picture."""
        if self._truth is None:
            raise ToolError("this oracle knows a clip, not a picture")
        return self._truth

    def pixel_box(self, ref: Any) -> tuple[float, float, float, float]:
        """Return the pixel box of a patch or image reference, from the top-left corner."""
        height, width = self.truth.rendered.depth.shape
        if not isinstance(ref, Ref) or ref.kind not in ("patch", "image"):
            raise ToolError(f"expected an image patch, got {type(ref).__name__}")
        if ref.kind == "image":
            return (0.0, 0.0, float(width), float(height))
        left, lower, right, upper = (float(value) for value in ref.fields[1:5])
        return Box(left, lower, right, upper).to_pixels(height)

    def seen(self, ref: Any) -> int:
        """Return the object of a patch: the one whose box overlaps it most."""
        x0, y0, x1, y1 = self.pixel_box(ref)
        boxes = self.truth.boxes
        across = np.minimum(boxes[:, 2], x1) - np.maximum(boxes[:, 0], x0)
        along = np.minimum(boxes[:, 3], y1) - np.maximum(boxes[:, 1], y0)
        shared = np.clip(across, 0, None) * np.clip(along, 0, None)
        union = self.truth.area + (x1 - x0) * (y1 - y0) - shared
        return int(np.argmax(shared / union))

    def find(self, patch: Any, object_name: str) -> list[Ref]:
        """Return the named objects whose centre lies in the patch, largest first."""
        x0, y0, x1, y1 = self.pixel_box(patch)
        truth, height = self.truth, self.truth.rendered.depth.shape[0]
        name = in_world_words(object_name)
        matching = truth.matching(name) or truth.matching(name.removesuffix("s"))
        inside = [i for i in matching if x0 <= truth.x[i] <= x1 and y0 <= truth.y[i] <= y1]
        inside.sort(key=lambda i: -truth.area[i])
        image_id = patch.fields[0]
        boxes = [Box.from_pixels(truth.boxes[i].tolist(), height) for i in inside]
        return [Ref("patch", (image_id, b.left, b.lower, b.right, b.upper)) for b in boxes]

    def exists(self, patch: Any, object_name: str) -> bool:
        return bool(self.find(patch, object_name))

    def verify_property(self, patch: Any, object_name: str, visual_property: str) -> bool:
        word = in_world_words(visual_property)
        return word in self.truth.words[self.seen(patch)].values()

    def best_text_match(self, patch: Any, options: Sequence[str]) -> str:
        own = set(self.truth.words[self.seen(patch)].values())
        return max(options, key=lambda option: len(own & set(in_world_words(option).split())))

    def best_description_from_options(
        self, patch: Any, object_name: str, options: Sequence[str]
    ) -> str:
        return self.best_text_match(patch, options)

    def best_image_match(self, patches: Sequence[Any], content: Any) -> int:
        words = set((content if isinstance(content, str) else " ".join(content)).split())
        own = [set(self.truth.words[self.seen(patch)].values()) for patch in patches]
        return max(range(len(own)), key=lambda index: len(own[index] & words))

    def compute_depth(self, patch: Any) -> float:
        return box_depth(self.truth.rendered.depth, self.pixel_box(patch))

    def simple_query(self, patch: Any, question: str | None = None) -> str:
        """Return an attribute of the object in the patch, or the events of the segment."""
        if isinstance(patch, Ref) and patch.kind in ("segment", "video"):
            return self.caption_video(patch, question)
        thing = self.truth.rendered.scene.objects[self.seen(patch)]
        for family, wording in ATTRIBUTE_QUESTIONS.items():
            if question is not None and (question == wording or family in question):
                return attribute_words(thing)[family]
        return thing.phrase

    complex_query = simple_query

    def caption_image(self, patch: Any) -> str:
        """Describe the objects whose centre lies in the patch, largest first."""
        inside = [self.seen(index) for index in self.find(patch, "object")]
        named = [self.truth.rendered.scene.objects[index].phrase for index in inside]
        return " and ".join(named) or "nothing"

    # Clips.

    def locate_event(self, segment: Any, event: str) -> list[int]:
        """Return the frames of the event with that sentence; an empty range if there is none."""
        start, end = self._frames(segment)
        event = in_world_words(event)
        for happened in self._events:
            if event_phrase(happened, self._objects) == event and start <= _middle(happened) < end:
                return [max(start, happened.start), min(end, happened.end)]
        return [start, start]

    def caption_video(self, segment: Any, question: str | None = None) -> str:
        """Return the sentences of the segment's events that answer the question."""
        start, end = self._frames(segment)
        sentences = [
            event_phrase(event, self._objects)
            for event in self._events
            if start <= _middle(event) < end
        ]
        asked = None if question is None else in_world_words(question)
        relevant = [sentence for sentence in sentences if bears_on(asked, sentence)]
        return " ".join(f"{sentence}." for sentence in relevant)

    def _frames(self, ref: Any) -> tuple[int, int]:
        if not self._events:
            raise ToolError("this oracle knows a picture, not a clip")
        if ref.kind == "video":
            return (0, int(ref.fields[1]))
        return (int(ref.fields[1]), int(ref.fields[2]))

    # Language.

    def select_answer(self, info: Any, question: str, options: Sequence[str]) -> str:
        """Return the longest option that the information contains, else the first."""
        text = str(info)
        inside = [option for option in options if option in text]
        return max(inside, key=len) if inside else options[0]

    def llm_query(self, question: str, context: str | None = None, long: bool = False) -> str:
        return ""

    def process_guesses(self, question: str, guesses: Sequence[str]) -> str:
        return max(guesses, key=list(guesses).count)


def bears_on(question: str | None, sentence: str) -> bool:
    """Return whether a sentence of a description answers one of the programs' fixed questions.

    ``what happens?`` keeps all; ``what does the red cube do?`` its events, ``what does the red cube
    hit?`` its hits; ``what stops?`` and ``what hits the red cube?`` the sentences with that end.
    """
    if question is None:
        return True
    text = question.strip().lower().removesuffix("?")
    if not text.startswith("what ") or text == "what happens":
        return True
    rest = text.removeprefix("what ")
    if rest == "hits":
        return " hits " in sentence
    if not rest.startswith("does "):
        return sentence.endswith(f" {rest}")
    actor, _, verb = rest.removeprefix("does ").rpartition(" ")
    return sentence.startswith(f"{actor} hits " if verb == "hit" else f"{actor} ")


def _middle(event: ClipEvent) -> float:
    return (event.start + event.end) / 2


_TOOLS = TOOL_FUNCTIONS.keys() & vars(Oracle).keys()
