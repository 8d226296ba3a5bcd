"""Questions to the segmenter: which outlines carry a name.

An answer counts by the F1 score of the outlines of that name in a scene, matched one to one with
the objects that it is true of at IoU of at least 0.5. Objects that are mostly hidden may be found
or not. ``seg``: a concept where it stands. ``seg absent``: where it does not, which is right if
nothing is called so. ``old`` and ``old+new``: an old shape, in scenes without and with a reserved
concept; objects of the shape that show such a concept may go by either name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from viper.models.media import media_from
from viper.models.vision.roles import Mask
from viper.sandbox import Ref
from viper.tools.toolbox import Toolbox
from viper.tuning.soft_prompts.seg import f1
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

ABSENT_EVERY = 3
"""Every third question about a concept is asked where it does not stand."""

_OLD_FIRST = 8 * 10**8 + 5 * 10**7
"""Where the scenes without reserved concepts begin in a split, beyond all that others draw."""


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """``seg`` and ``seg absent`` about a reserved concept, one scene a question."""
    asked = []
    for place in range(count):
        index, present = seed * SEED_STRIDE + place, place % ABSENT_EVERY != ABSENT_EVERY - 1
        still = reserved_still(split, index, concept, present=present)
        kind = "seg" if present else "seg absent"
        right = _right(toolbox, still.rendered, concept, still.shown)
        asked.append(ToolAnswer(kind, concept, f"{split}:{concept}:{present}:{index}", right))
    return asked


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """So many old shapes, one a scene; a reserved concept stands in every other one."""
    asked: list[ToolAnswer] = []
    for place, (sample, still, together) in enumerate(
        old_scenes(concepts, split, seed, _OLD_FIRST)
    ):
        if len(asked) == count:
            break
        things = still.scene.objects
        known = [things[i] for i in np.flatnonzero(seen(still)) if not is_reserved(things[i])]
        rng = np.random.default_rng([seed, place, 19])
        if not known:
            continue
        shape = known[int(rng.integers(len(known)))].shape
        named = np.array([one.shape == shape and not is_reserved(one) for one in things])
        spared = np.array([one.shape == shape and is_reserved(one) for one in things])
        right = _right(toolbox, still, shape, named, spared)
        asked.append(ToolAnswer("old+new" if together else "old", shape, sample, right))
    return asked


def _right(
    toolbox: Toolbox,
    still: RenderedScene,
    name: str,
    named: NDArray[np.bool_],
    spared: NDArray[np.bool_] | None = None,
) -> float:
    """The F1 score of a name in a scene.

    Args:
        named: bool [N], the objects that it is true of.
        spared: bool [N], those that may be called so or not.
    """
    shown = seen(still)
    wanted = [still.masks[place] for place in np.flatnonzero(named & shown)]
    either = named & ~shown if spared is None else named & ~shown | spared
    ignored = [still.masks[place] for place in np.flatnonzero(either)]
    return f1(_outlines(toolbox, still, name), wanted, ignored)


def _outlines(toolbox: Toolbox, still: RenderedScene, name: str) -> list[Mask]:
    """What ``segment`` calls so in the whole picture, best first."""
    session = toolbox.session(media_from([still.image]))
    found: list[Ref] = session.call("segment", (whole(still.image),), {}, None)
    named = [ref for ref in found if str(ref.fields[6]) == name]
    return [session.media.edits.outline(str(ref.fields[5])).mask() for ref in named]
