"""Finds the concepts in a program's calls, and tests whether a tool knows a concept.

`suspects` reads the concepts out of the calls' texts; `known_share` asks the tool about collected
pictures of one.

After a wrong answer, the concepts that calls name are the suspects. A tool knows a concept if it
handles the pictures that were collected for learning without further training.

Source: our addition to CLOVA (Gao et al. 2024), whose reflection names the concept in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from viper.agreement import box_iou, same_box
from viper.models.media import media_from
from viper.schema import ToolCall
from viper.tools.picture_tools import segment
from viper.tools.session import ToolSession
from viper.tools.tool_functions import detections, similarities
from viper.tools.toolbox import Toolbox
from viper.tuning.soft_prompts.base import FUNCTION_TOOLS
from viper.tuning.training_data import AnnotatedPicture, AnnotatedStore, Collected, plain

# Most words of a concept's name in a phrase, since every further word adds look-ups for each
# phrase.
LONGEST_NAME = 3

_COMMON = (
    "a an and any are as at by color colour each for from has in is it kind large left material "
    "not object objects of on one ones or other right shape size small than that the thing things "
    "this to what which with"
)
# Words that are not a concept on their own.
_NO_CONCEPTS = frozenset(_COMMON.split())

# Positions and names of the text arguments of a call.
_TEXTS: Mapping[str, tuple[tuple[int, str], ...]] = MappingProxyType(
    {
        "find": ((1, "object_name"),),
        "exists": ((1, "object_name"),),
        "verify_property": ((2, "visual_property"), (1, "object_name")),
        "best_text_match": ((1, "option_list"),),
        "best_description_from_options": ((2, "options"), (1, "object_name")),
        "best_image_match": ((1, "content"),),
        "replace": ((2, "prompt"),),
    }
)


@dataclass(frozen=True)
class Suspect:
    """A concept that a tool may not know.

    Attributes:
        tool: the tool's name in the pool.
        call: index of the first call that names the concept.
    """

    tool: str
    concept: str
    call: int


def suspects(calls: Sequence[ToolCall], store: AnnotatedStore | None) -> list[Suspect]:
    """Return each concept that the calls of trainable tools name, once per tool, in order.

    Args:
        store: store that decides what is a concept; None accepts every word that may be one.
    """
    suspects_by_name: dict[tuple[str, str], Suspect] = {}
    for call in calls:
        tool = FUNCTION_TOOLS.get(call.tool)
        for text in _texts(call):
            for concept in concepts_in(text, store):
                if tool is not None:
                    suspects_by_name.setdefault((tool, concept), Suspect(tool, concept, call.index))
    return list(suspects_by_name.values())


def concepts_in(text: str, store: AnnotatedStore | None) -> list[str]:
    """Return the concepts in a phrase, in order. Longer names are matched first."""
    words = plain(text).split()
    labels = frozenset() if store is None else frozenset(map(plain, store.vocabulary()))
    taken = [False] * len(words)
    names: dict[int, str] = {}
    rules: tuple[Callable[[str], str | None], ...] = (
        lambda name: _label(name, labels, store),
        lambda name: _name(name, store),
    )
    for rule in rules:
        for length in range(min(LONGEST_NAME, len(words)), 0, -1):
            for start in range(len(words) - length + 1):
                place = slice(start, start + length)
                if any(taken[place]) or set(words[place]) & _NO_CONCEPTS:
                    continue
                name = rule(" ".join(words[place]))
                if name is not None:
                    taken[place] = [True] * length
                    names[start] = name
    return [names[start] for start in sorted(names)]


def _label(name: str, labels: frozenset[str], store: AnnotatedStore | None) -> str | None:
    """Return the usual name of the store's label that this name means, or None."""
    names = store.names_of(name) if store is not None else ()
    return names[0] if names and plain(names[0]) in labels else None


def _name(name: str, store: AnnotatedStore | None) -> str | None:
    """Return the store's usual name for a single word, or None; without a store the word itself."""
    if " " in name:
        return None
    if store is None:
        return name
    names = store.names_of(name)
    return names[0] if names else None


def _texts(call: ToolCall) -> Iterator[str]:
    for place, name in _TEXTS.get(call.tool, ()):
        value: Any = call.args[place] if len(call.args) > place else call.kwargs.get(name)
        yield from ([value] if isinstance(value, str) else map(str, value or ()))


def known_share(toolbox: Toolbox, tool: str, concept: str, data: Collected[Any]) -> float | None:
    """Return the share of collected pictures that the tool gets right without training.

    ``loc``: the tool finds exactly the objects of the concept. ``seg``: exactly these objects have
    a segment with that label. ``match``: the picture fits the concept better than every related
    concept. Return None if the tool cannot be tested.
    """
    test = {"loc": _locates, "seg": _segments, "match": _matches}.get(tool)
    if test is None or not data.positives:
        return None
    right = [test(toolbox, concept, picture, data) for picture in data.positives]
    return sum(right) / len(right)


def _locates(
    toolbox: Toolbox, concept: str, picture: AnnotatedPicture, data: Collected[Any]
) -> bool:
    session, whole = _session_on(toolbox, picture.pixels())
    threshold = session.threshold("detector.threshold")
    boxes = [item.box for item in detections(session, whole, concept) if item.score >= threshold]
    return _same_boxes(boxes, picture)


def _segments(
    toolbox: Toolbox, concept: str, picture: AnnotatedPicture, data: Collected[Any]
) -> bool:
    session, whole = _session_on(toolbox, picture.pixels())
    height = whole.image_size[1]
    refs = segment(session, session.patch_ref(whole.image_id, whole.box))
    boxes = [
        (left, height - upper, right, height - lower)
        for left, lower, right, upper in (
            tuple(map(float, ref.fields[1:5]))
            for ref in refs
            if len(ref.fields) > 6 and plain(str(ref.fields[6])) == plain(concept)
        )
    ]
    return _same_boxes(boxes, picture)


def _matches(toolbox: Toolbox, concept: str, picture: Any, data: Collected[Any]) -> bool:
    session, whole = _session_on(toolbox, picture.pixels())
    words = [concept, *map(str, data.evidence.get("related", ()))]
    scores = similarities(session, [whole], words)[0]
    return len(words) > 1 and int(scores.argmax()) == 0


def _same_boxes(boxes: Sequence[Sequence[float]], picture: AnnotatedPicture) -> bool:
    """Return whether the boxes and the concept's objects match one to one."""
    unmatched = [picture.things[place].box for place in picture.positives]
    for box in boxes:
        best = max(unmatched, key=lambda other: box_iou(box, other), default=None)
        if best is None or not same_box(box, best):
            return False
        unmatched.remove(best)
    return not unmatched


def _session_on(toolbox: Toolbox, pixels: Any) -> tuple[ToolSession, Any]:
    from viper.sandbox import Ref

    height, width = pixels.shape[:2]
    session = toolbox.session(media_from(pixels).for_run())
    return session, session.region(Ref("image", ("image0", width, height)))
