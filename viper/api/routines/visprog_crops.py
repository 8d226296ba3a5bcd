"""The modules of line programs that cut out a part of a picture.

Source: VisProg (Gupta and Kembhavi 2023), whose crops begin at the middle of the box and whose
``CROP`` shows half the box's size more around it. Differs: without a box ``CROP_ABOVE`` and
``CROP_BELOW`` keep the upper and the lower half.
"""

from __future__ import annotations

from viper.api.image_patch import ImagePatch
from viper.api.registry import ANSWER_TASKS, UNLISTED, routine
from viper.api.routines.visprog_parts import API, Objects, Picture, moved_to, objects_of, part_of

GROWN = 1.5
"""What ``CROP`` shows, in widths and heights of the box."""

_TASKS = ("ground", *ANSWER_TASKS)


@routine(_TASKS, api=API)
def CROP(image: Picture, box: Objects) -> Picture:
    """Cut out a box.

    Shows a little of what is around the box, too; the whole picture when there is no box.

    Example:
        # What is the man with the umbrella wearing?
        BOX0=LOC(image=IMAGE,object='man with umbrella')
        IMAGE0=CROP(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is the man wearing?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    found = _box(image, box)
    if found is None:
        return part_of(image)
    across, along = found.width * GROWN / 2, found.height * GROWN / 2
    return part_of(image)._strip(
        left=found.horizontal_center - across,
        lower=found.vertical_center - along,
        right=found.horizontal_center + across,
        upper=found.vertical_center + along,
    )


@routine(_TASKS, api=API)
def CROP_LEFTOF(image: Picture, box: Objects) -> Picture:
    """Cut out what is left of a box.

    From the middle of the box to the left edge; the left half when there is no box.

    Example:
        # What is to the left of the vase?
        BOX0=LOC(image=IMAGE,object='vase')
        IMAGE0=CROP_LEFTOF(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is it?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return part_of(image)._strip(right=_middle(image, box).horizontal_center)


@routine(_TASKS, api=API)
def CROP_RIGHTOF(image: Picture, box: Objects) -> Picture:
    """Cut out what is right of a box.

    From the middle of the box to the right edge; the right half when there is no box.

    Example:
        # the pillow to the right of the dog
        BOX0=LOC(image=IMAGE,object='dog')
        IMAGE0=CROP_RIGHTOF(image=IMAGE,box=BOX0)
        BOX1=LOC(image=IMAGE0,object='pillow')
        FINAL_RESULT=RESULT(var=BOX1)
    """
    return part_of(image)._strip(left=_middle(image, box).horizontal_center)


@routine(_TASKS, api=API)
def CROP_ABOVE(image: Picture, box: Objects) -> Picture:
    """Cut out what is above a box.

    From the middle of the box to the upper edge; the upper half when there is no box.

    Example:
        # Is there a lamp above the table?
        BOX0=LOC(image=IMAGE,object='table')
        IMAGE0=CROP_ABOVE(image=IMAGE,box=BOX0)
        BOX1=LOC(image=IMAGE0,object='lamp')
        ANSWER0=COUNT(box=BOX1)
        ANSWER1=EVAL(expr="'yes' if {ANSWER0} > 0 else 'no'")
        FINAL_RESULT=RESULT(var=ANSWER1)
    """
    return part_of(image)._strip(lower=_middle(image, box).vertical_center)


@routine(_TASKS, api=API)
def CROP_BELOW(image: Picture, box: Objects) -> Picture:
    """Cut out what is below a box.

    From the middle of the box to the lower edge; the lower half when there is no box.

    Example:
        # What color is the sign below the antenna?
        BOX0=LOC(image=IMAGE,object='antenna')
        IMAGE0=CROP_BELOW(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What color is the sign?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return part_of(image)._strip(upper=_middle(image, box).vertical_center)


@routine(_TASKS, api=API)
def CROP_FRONTOF(image: Picture, box: Objects) -> Picture:
    """Cut out what is in front of a box.

    The surroundings of the box, as ``CROP``: a flat picture shows them in the same place.

    Example:
        # What is in front of the house?
        BOX0=LOC(image=IMAGE,object='house')
        IMAGE0=CROP_FRONTOF(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is in front of the house?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(_TASKS, api=API)
def CROP_BEHIND(image: Picture, box: Objects) -> Picture:
    """Cut out what is behind a box.

    The surroundings of the box, as ``CROP``.

    Example:
        # Is there a wall behind the boy?
        BOX0=LOC(image=IMAGE,object='boy')
        IMAGE0=CROP_BEHIND(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='Is there a wall?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(_TASKS, api=API)
def CROP_AHEAD(image: Picture, box: Objects) -> Picture:
    """Cut out what is ahead of a box.

    The surroundings of the box, as ``CROP``.

    Example:
        # What is ahead of the bus?
        BOX0=LOC(image=IMAGE,object='bus')
        IMAGE0=CROP_AHEAD(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is ahead of the bus?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(UNLISTED, api=API)
def CROP_INFRONT(image: Picture, box: Objects) -> Picture:
    """Cut out what is in front of a box; another name of ``CROP_FRONTOF``."""
    return CROP(image, box)


@routine(UNLISTED, api=API)
def CROP_INFRONTOF(image: Picture, box: Objects) -> Picture:
    """Cut out what is in front of a box; another name of ``CROP_FRONTOF``."""
    return CROP(image, box)


@routine(UNLISTED, api=API)
def CROP_AHEADOF(image: Picture, box: Objects) -> Picture:
    """Cut out what is ahead of a box; another name of ``CROP_AHEAD``."""
    return CROP(image, box)


def _box(image: Picture, box: Objects) -> ImagePatch | None:
    """The first of the boxes, which is the surest; None where there is none."""
    found = moved_to(part_of(image), objects_of(box, "box")[:1])
    return found[0] if found else None


def _middle(image: Picture, box: Objects) -> ImagePatch:
    """Where a cut begins: the middle of the box, of the picture without one."""
    return _box(image, box) or part_of(image)
