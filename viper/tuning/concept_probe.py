"""Finds the concepts in a program's calls, and tests whether a tool knows a concept.

`suspects` reads the concepts out of the calls' texts; `known_share` asks the tool about collected
pictures of one.

After a wrong answer, the concepts that calls name are the suspects. A tool knows a concept if it
handles the pictures that were collected for learning without further training.

Source: our addition to CLOVA (Gao et al. 2024), whose reflection names the concept in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.agreement import box_iou, same_box
from viper.models.media import media_from
from viper.schema import Box, ToolCall
from viper.tools.picture_tools import segment
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
_TEXTS: Mapping[str, tuple[tuple[int, str], ...]] = {
    "find": ((1, "object_name"),),
    "exists": ((1, "object_name"),),
    "verify_property": ((2, "visual_property"), (1, "object_name")),
    "best_text_match": ((1, "option_list"),),
    "best_description_from_options": ((2, "options"), (1, "object_name")),
    "best_image_match": ((1, "content"),),
    "replace": ((2, "prompt"),),
}


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
        for place, name in _TEXTS.get(call.tool, ()):
            value: Any = call.args[place] if len(call.args) > place else call.kwargs.get(name)
            for text in [value] if isinstance(value, str) else map(str, value or ()):
                for concept in concepts_in(text, store):
                    suspect = Suspect(FUNCTION_TOOLS[call.tool], concept, call.index)
                    suspects_by_name.setdefault((suspect.tool, concept), suspect)
    return list(suspects_by_name.values())


def concepts_in(text: str, store: AnnotatedStore | None) -> list[str]:
    """Return the concepts in a phrase, in order. Longer names are matched first."""
    words = plain(text).split()
    labels = frozenset() if store is None else frozenset(map(plain, store.vocabulary()))
    taken = [False] * len(words)
    concepts: dict[int, str] = {}
    # labels of the store first, then single words that the store knows or, without one, all words
    longest = min(LONGEST_NAME, len(words))
    steps = [(True, length) for length in range(longest, 0, -1)] + [(False, 1)]
    for only_labels, length in steps:
        for start in range(len(words) - length + 1):
            place = slice(start, start + length)
            if any(taken[place]) or set(words[place]) & _NO_CONCEPTS:
                continue
            name = " ".join(words[place])
            names = (name,) if store is None else store.names_of(name)
            if names and (plain(names[0]) in labels or not only_labels):
                taken[place] = [True] * length
                concepts[start] = names[0]
    return [concepts[start] for start in sorted(concepts)]


def known_share(toolbox: Toolbox, tool: str, concept: str, data: Collected[Any]) -> float | None:
    """Return the share of collected pictures that the tool gets right without training.

    ``loc``: the tool finds exactly the objects of the concept. ``seg``: exactly these objects have
    a segment with that label. ``match``: the picture fits the concept better than every related
    concept. Return None if the tool cannot be tested.
    """
    from viper.sandbox import Ref

    if tool not in ("loc", "seg", "match") or not data.positives:
        return None
    right = 0
    for picture in data.positives:
        pixels = picture.pixels()
        height, width = pixels.shape[:2]
        session = toolbox.session(media_from(pixels).for_run())
        whole = session.region(Ref("image", ("image0", width, height)))
        if tool == "match":
            words = [concept, *map(str, data.evidence.get("related", ()))]
            scores = similarities(session, [whole], words)[0]
            right += len(words) > 1 and int(scores.argmax()) == 0
            continue
        if tool == "loc":
            least = session.threshold("detector.threshold")
            boxes = [
                each.box for each in detections(session, whole, concept) if each.score >= least
            ]
        else:
            refs = segment(session, session.patch_ref(whole.image_id, whole.box))
            boxes = [
                Box(*map(float, ref.fields[1:5])).to_pixels(whole.image_size[1])
                for ref in refs
                if len(ref.fields) > 6 and plain(str(ref.fields[6])) == plain(concept)
            ]
        right += _same_boxes(boxes, picture)
    return right / len(data.positives)


def _same_boxes(boxes: Sequence[Sequence[float]], picture: AnnotatedPicture) -> bool:
    """Return whether the boxes and the concept's objects match one to one."""
    unmatched = [picture.things[place].box for place in picture.positives]
    for box in boxes:
        best = max(unmatched, key=lambda other: box_iou(box, other), default=None)
        if best is None or not same_box(box, best):
            return False
        unmatched.remove(best)
    return not unmatched
