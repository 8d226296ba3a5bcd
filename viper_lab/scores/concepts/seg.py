"""Questions to the segmenter: which outlines have a name?

The score of an answer is the F1 of the outlines with that name in a scene, matched one to one with
the objects of that name at IoU of at least 0.5. Mostly hidden objects may be found or not. ``seg``:
a concept that is in the scene. ``seg absent``: a concept that is not, which is right if no outline
has its name. ``seg outline``: the share of the concept's objects that have an outline of any name,
because prompts of a decoder teach no names. ``old`` and ``old+new``: an old shape, in scenes
without and with a reserved concept; objects of the shape that show such a concept may have either
name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from viper.models.media import media_from
from viper.models.vision.roles import Mask
from viper.sandbox import Ref
from viper.tools.toolbox import Toolbox
from viper.tuning.soft_prompts.seg import SAME, f1, mask_ious
from viper_lab.scores.concepts.measurement import (
    SEED_STRIDE,
    ToolAnswer,
    is_reserved,
    old_scenes,
    seen,
    whole,
)
from viper_lab.world.reserved import reserved_still
from viper_lab.world.scene import RenderedScene

# Every third question about a concept is about a scene without it.
ABSENT_EVERY = 3

# First scene without reserved concepts in a split, after all scenes that others draw.
_OLD_FIRST = 8 * 10**8 + 5 * 10**7


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """Return ``seg``, ``seg absent`` and ``seg outline`` about a concept, one scene each."""
    answers = []
    for place in range(count):
        index, present = seed * SEED_STRIDE + place, place % ABSENT_EVERY != ABSENT_EVERY - 1
        still = reserved_still(split, index, concept, present=present)
        kind = "seg" if present else "seg absent"
        right = _right(toolbox, still.rendered, concept, still.shown)
        sample = f"{split}:{concept}:{present}:{index}"
        answers.append(ToolAnswer(kind, concept, sample, right))
        shown = [
            still.rendered.masks[at] for at in np.flatnonzero(still.shown & seen(still.rendered))
        ]
        if shown:
            near = mask_ious(shown, _outlines(toolbox, still.rendered))
            right = float((near.max(axis=1, initial=0.0) >= SAME).mean())
            answers.append(ToolAnswer("seg outline", concept, sample, right))
    return answers


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """Return ``count`` old shapes, one per scene; every other scene has a reserved concept."""
    answers: list[ToolAnswer] = []
    for place, (sample, still, together) in enumerate(
        old_scenes(concepts, split, seed, _OLD_FIRST)
    ):
        if len(answers) == count:
            break
        things = still.scene.objects
        old = [things[i] for i in np.flatnonzero(seen(still)) if not is_reserved(things[i])]
        rng = np.random.default_rng([seed, place, 19])
        if not old:
            continue
        shape = old[int(rng.integers(len(old)))].shape
        named = np.array([thing.shape == shape and not is_reserved(thing) for thing in things])
        spared = np.array([thing.shape == shape and is_reserved(thing) for thing in things])
        right = _right(toolbox, still, shape, named, spared)
        answers.append(ToolAnswer("old+new" if together else "old", shape, sample, right))
    return answers


def _right(
    toolbox: Toolbox,
    still: RenderedScene,
    name: str,
    named: NDArray[np.bool_],
    spared: NDArray[np.bool_] | None = None,
) -> float:
    """Return the F1 score of a name in a scene.

    Args:
        named: bool [N], the objects of that name.
        spared: bool [N], those that may have the name or not.
    """
    visible = seen(still)
    targets = [still.masks[place] for place in np.flatnonzero(named & visible)]
    either = named & ~visible if spared is None else named & ~visible | spared
    ignored = [still.masks[place] for place in np.flatnonzero(either)]
    return f1(_outlines(toolbox, still, name), targets, ignored)


def _outlines(toolbox: Toolbox, still: RenderedScene, name: str = "") -> list[Mask]:
    """Return the outlines that ``segment`` gives the name, or all, in the picture, best first."""
    session = toolbox.session(media_from([still.image]))
    refs: list[Ref] = session.call("segment", (whole(still.image),), {}, None)
    named = [ref for ref in refs if name in ("", str(ref.fields[6]))]
    return [session.media.edits.outline(str(ref.fields[5])).mask() for ref in named]
