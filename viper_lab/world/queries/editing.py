"""Language-guided editing: replace an object, keep only some in colour or sharp, hide some.

:class:`viper.data.sample.EditTarget` states the expected result. A replacement is in the
object's place, of the same size, and visible there.

Source: VisProg (Gupta and Kembhavi 2023, sec. 4.4); CLOVA (Gao et al. 2024, sec. 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.data.sample import EditTarget, Operation, reach
from viper.prompting.plans import numbered
from viper.tools.edits import EMOJIS
from viper_lab.world.edited_scene import looks_of, other_looks, with_looks
from viper_lab.world.places import ScenePlace, random_place
from viper_lab.world.queries.lexicon import GENERAL_NOUNS, NoSuchNounError
from viper_lab.world.queries.scene_nouns import ReservedNouns, SceneNouns, SceneWords
from viper_lab.world.queries.task_sample import LINE_PROGRAMS, TaskSample, TaskSpec, task_specs
from viper_lab.world.queries.wording import a, plural, read_templates
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.scene import RenderedScene, Scene
from viper_lab.world.vocabulary import MATERIALS

TEMPLATES = read_templates("editing")

# Share of each operation.
WEIGHTS: Mapping[Operation, float] = {
    "replace": 0.46,
    "color_pop": 0.2,
    "blur_background": 0.16,
    "put_emoji": 0.18,
}

# Shares of the replacement that must be visible, and inside the edited area.
MIN_VISIBLE, MIN_INSIDE = 0.6, 0.85

# Share of instructions about more than one object; a replacement has only one.
_SEVERAL = 0.3

_TRIES = 12


def generate_editing(
    split: str, seed: int, count: int, *, concepts: Sequence[str] = ()
) -> list[TaskSample]:
    """Return editing instructions about pictures of a split; same arguments, same instructions.

    A smaller ``count`` gives the first of them.

    Args:
        concepts: reserved concepts, in turn, that instructions name: as the edited object, or, in
            half of the replacements, as the replacement; none: known objects.

    Raises:
        UnknownNameError: no such split or reserved concept.
    """
    random = Random(f"edit {split} {seed} {' '.join(concepts)}")
    return [_draw(each, random) for each in task_specs("edit", split, seed, count, concepts)]


def _draw(each: TaskSpec, random: Random) -> TaskSample:
    operation = random.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]
    is_new = each.concept is not None and operation == "replace" and random.random() < 0.5
    while True:
        place, scene = random_place(random, each.split, each.concept, present=not is_new)
        for _ in range(_TRIES):
            try:
                kind = _draw_kind(scene, each, operation, is_new, random)
            except NoSuchNounError:
                continue
            indexes = SceneWords(scene).matching(kind)
            new = _draw_new(kind, scene, indexes[0], each, is_new, operation, random)
            rendered = render_scene(scene)
            if operation != "replace" or _is_seen(rendered, indexes[0], new):
                target = _target(operation, kind, new, rendered, indexes)
                return _sample(each, place, target, is_new, random)


def _draw_kind(
    scene: Scene, each: TaskSpec, operation: Operation, is_new: bool, random: Random
) -> str:
    """Draw the edited kind: one object, or several but not all."""
    words, held_out = SceneWords(scene), each.split == "test"
    nouns = SceneNouns(words, random, held_out=held_out)
    is_named = each.concept is not None and not is_new
    if is_named:
        assert each.concept is not None
        nouns = ReservedNouns(words, random, each.concept, share=1, held_out=held_out)
    general = random.random() < 0.15
    if operation != "replace" and random.random() < _SEVERAL:
        kind = nouns.many(general=general)
    else:
        kind = nouns.one(general=general)
    if is_named and each.concept not in kind.split():
        raise NoSuchNounError
    if len(words.matching(kind)) == len(words.words) or kind in GENERAL_NOUNS:
        raise NoSuchNounError
    return kind


def _draw_new(
    kind: str,
    scene: Scene,
    index: int,
    each: TaskSpec,
    is_new: bool,
    operation: Operation,
    random: Random,
) -> str:
    """Draw the replacement, of another colour and another shape."""
    if operation == "put_emoji":
        return random.choice(tuple(EMOJIS))
    if operation != "replace":
        return ""
    colour, shape = random.choice(other_looks(scene.objects[index], each.split))
    words = [random.choice(MATERIALS)] if random.random() < 0.4 else []
    if not is_new or each.concept is None:
        return " ".join([colour, *words, shape])
    family = CONCEPTS[each.concept]
    if family == "pattern":
        return " ".join([each.concept, colour, shape])
    named = (colour, each.concept) if family == "shape" else (each.concept, shape)
    return " ".join([named[0], *words, named[1]])


def _is_seen(rendered: RenderedScene, index: int, new: str) -> bool:
    """Return whether the replacement is visible, mostly near the object's own box."""
    after = render_scene(with_looks(rendered.scene, [index], looks_of(new)))
    if not after.visible[index] >= MIN_VISIBLE:
        return False
    own = after.masks[index]
    inside = own & reach([rendered.boxes[index].tolist()], (own.shape[0], own.shape[1]))
    return bool(inside.sum() >= MIN_INSIDE * own.sum())


def _target(
    operation: Operation, old: str, new: str, rendered: RenderedScene, indexes: Sequence[int]
) -> EditTarget:
    boxes = tuple(rendered.box(index) for index in indexes)
    outlines = tuple(runs_of(rendered.masks[index]) for index in indexes)
    return EditTarget(operation, old, new, boxes, outlines)


def runs_of(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a mask, bool [H, W], as plain runs; ``viper.data.coco_masks.mask_of`` reads them."""
    flat = mask.T.reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    counts = np.diff([0, *changes, len(flat)]).tolist()
    return {"size": list(mask.shape), "counts": [0, *counts] if flat[0] else counts}


def editing_program(target: EditTarget) -> str:
    """Return the line program: one object by its segment, several by boxes, then the change."""
    if len(target.boxes) == 1:
        lines = [
            "OBJ0=SEG(image=IMAGE)",
            f"OBJ1=SELECT(image=IMAGE,object=OBJ0,query='{target.old}',category=None)",
        ]
    else:
        lines = [f"OBJ1=LOC(image=IMAGE,object='{target.old}')"]
    call = LINE_PROGRAMS["edits"][target.operation].format(new=_painted(target))
    return "\n".join([*lines, f"IMAGE0={call}", "FINAL_RESULT=RESULT(var=IMAGE0)"])


def editing_plan(target: EditTarget) -> str:
    """Return the steps of :func:`editing_program` in words."""
    if len(target.boxes) == 1:
        steps = ["Outline every object.", f"Select the {target.old}."]
    else:
        steps = [f"Find every {target.old}."]
    last = LINE_PROGRAMS["edit_steps"][target.operation]
    return numbered(*steps, last.format(new=_painted(target)))


def _painted(target: EditTarget) -> str:
    return a(target.new) if target.operation == "replace" else target.new


def _sample(
    each: TaskSpec, place: ScenePlace, target: EditTarget, is_new: bool, random: Random
) -> TaskSample:
    name, template = TEMPLATES[target.operation].pick(random, each.split)
    several = len(target.boxes) > 1
    text = template.format(
        the=f"all {plural(target.old)}" if several else f"the {target.old}",
        new=a(target.new) if target.new else "",
        emoji=EMOJIS.get(target.new, ""),
    )
    role = {"concept_is": "asked" if is_new else "edited"} if each.concept else {}
    return each.sample(
        task="edit",
        text=text,
        target=target,
        places=(place,),
        plan=editing_plan(target),
        program=editing_program(target),
        query_type=target.operation,
        template=f"{target.operation}:{name}",
        groups=role,
    )
