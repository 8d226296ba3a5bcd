"""The modules of line programs that give pictures: cut out, changed and tagged ones, and outlines.

What they give are patches again: a part of a picture, of a picture that the parent made, or with
an outline that the parent holds. A picture that was changed can be looked at and changed like any
other.

Source: VisProg (Gupta and Kembhavi 2023), whose crops begin at the middle of the box and whose
``CROP`` shows half the box's size more around it, and CLOVA (Gao et al. 2024, table 2). Differs:
without a box ``CROP_ABOVE`` and ``CROP_BELOW`` keep the upper and the lower half; without an object
there is nothing to change, which is an error that names the cause; ``TAG`` gives labelled boxes
with the picture that shows them.
"""

from __future__ import annotations

from viper.api.image_patch import ImagePatch
from viper.api.registry import ANSWER_TASKS, UNLISTED, routine
from viper.api.routines.visprog import API, Objects, Picture, moved_to, objects_of, part_of
from viper.api.runtime import Call, number, text

# What ``CROP`` shows, in widths and heights of the box.
GROWN = 1.5

_TASKS = ("ground", *ANSWER_TASKS)


@routine(_TASKS, api=API)
def CROP(image: Picture, box: Objects) -> Picture:
    """Cut out a box.

    Return the box, enlarged by half its size, as a picture. An empty list of boxes gives the
    whole picture.

    Example:
        # What is the man with the umbrella wearing?
        BOX0=LOC(image=IMAGE,object='man with umbrella')
        IMAGE0=CROP(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is the man wearing?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    first = _box(image, box)
    if first is None:
        return part_of(image)
    across, along = first.width * GROWN / 2, first.height * GROWN / 2
    return part_of(image)._strip(
        left=first.horizontal_center - across,
        lower=first.vertical_center - along,
        right=first.horizontal_center + across,
        upper=first.vertical_center + along,
    )


@routine(_TASKS, api=API, summary="cut out what is left of a box")
def CROP_LEFTOF(image: Picture, box: Objects) -> Picture:
    """Cut out the part left of a box.

    It goes from the middle of the box to the left edge. An empty list of boxes gives the
    left half.

    Example:
        # What is to the left of the vase?
        BOX0=LOC(image=IMAGE,object='vase')
        IMAGE0=CROP_LEFTOF(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is it?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return part_of(image)._strip(right=_middle(image, box).horizontal_center)


@routine(_TASKS, api=API, summary="cut out what is right of a box")
def CROP_RIGHTOF(image: Picture, box: Objects) -> Picture:
    """Cut out the part right of a box.

    It goes from the middle of the box to the right edge. An empty list of boxes gives the
    right half.

    Example:
        # the pillow to the right of the dog
        BOX0=LOC(image=IMAGE,object='dog')
        IMAGE0=CROP_RIGHTOF(image=IMAGE,box=BOX0)
        BOX1=LOC(image=IMAGE0,object='pillow')
        FINAL_RESULT=RESULT(var=BOX1)
    """
    return part_of(image)._strip(left=_middle(image, box).horizontal_center)


@routine(_TASKS, api=API, summary="cut out what is above a box")
def CROP_ABOVE(image: Picture, box: Objects) -> Picture:
    """Cut out the part above a box.

    It goes from the middle of the box to the upper edge. An empty list of boxes gives the
    upper half.

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


@routine(_TASKS, api=API, summary="cut out what is below a box")
def CROP_BELOW(image: Picture, box: Objects) -> Picture:
    """Cut out the part below a box.

    It goes from the middle of the box to the lower edge. An empty list of boxes gives the
    lower half.

    Example:
        # What color is the sign below the antenna?
        BOX0=LOC(image=IMAGE,object='antenna')
        IMAGE0=CROP_BELOW(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What color is the sign?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return part_of(image)._strip(upper=_middle(image, box).vertical_center)


@routine(_TASKS, api=API, summary="cut out what is in front of a box")
def CROP_FRONTOF(image: Picture, box: Objects) -> Picture:
    """Cut out the part in front of a box.

    Return the same as ``CROP``, since a flat picture shows both in the same place.

    Example:
        # What is in front of the house?
        BOX0=LOC(image=IMAGE,object='house')
        IMAGE0=CROP_FRONTOF(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is in front of the house?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(_TASKS, api=API, summary="cut out what is behind a box")
def CROP_BEHIND(image: Picture, box: Objects) -> Picture:
    """Cut out the part behind a box.

    Return the same as ``CROP``, since a flat picture shows both in the same place.

    Example:
        # Is there a wall behind the boy?
        BOX0=LOC(image=IMAGE,object='boy')
        IMAGE0=CROP_BEHIND(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='Is there a wall?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(_TASKS, api=API, summary="cut out what is ahead of a box")
def CROP_AHEAD(image: Picture, box: Objects) -> Picture:
    """Cut out the part ahead of a box.

    Return the same as ``CROP``, since a flat picture shows both in the same place.

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


@routine(("ground", "edit", "tag"), api=API)
def SEG(call: Call, image: Picture) -> Objects:
    """Segment a picture into objects.

    Return every object with its outline and its label, the surest first, or [] if there is
    none.

    Example:
        # Keep the colour of the bus and make the rest grey
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='bus',category=None)
        IMAGE0=COLORPOP(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _find_objects(call, "segment", part_of(image))


@routine(("ground", "edit", "tag"), api=API)
def FACEDET(call: Call, image: Picture) -> Objects:
    """Find faces of people.

    Return a list of boxes, the surest first, or [] if there is none.

    Example:
        # Hide every face with a smiley
        OBJ0=FACEDET(image=IMAGE)
        IMAGE0=EMOJI(image=IMAGE,object=OBJ0,emoji='smiling_face')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _find_objects(call, "find_faces", part_of(image))


@routine(("edit",), api=API)
def COLORPOP(call: Call, image: Picture, object: Objects) -> Picture:
    """Keep objects in colour.

    Everything else in the picture becomes grey. An empty list of objects raises IndexError.

    Example:
        # Color pop of the red umbrella
        OBJ0=LOC(image=IMAGE,object='red umbrella')
        IMAGE0=COLORPOP(image=IMAGE,object=OBJ0)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _change(call, "color_pop", image, object)


@routine(("edit",), api=API)
def BGBLUR(call: Call, image: Picture, object: Objects) -> Picture:
    """Blur the background of objects.

    The objects stay as they are. An empty list of objects raises IndexError.

    Example:
        # Blur everything but the girl
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='girl',category=None)
        IMAGE0=BGBLUR(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _change(call, "blur_background", image, object)


@routine(("edit",), api=API, hide=("seed",))
def REPLACE(call: Call, image: Picture, object: Objects, prompt: str, seed: int = 0) -> Picture:
    """Replace objects by something else.

    ``prompt`` describes the things to paint in their place; the rest stays as it is. Another
    ``seed`` gives another painting. An empty list of objects raises IndexError.

    Example:
        # Replace the bird with an owl
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='bird',category=None)
        IMAGE0=REPLACE(image=IMAGE,object=OBJ1,prompt='an owl')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    prompt = text(prompt, "prompt")
    return _change(call, "replace", image, object, prompt, int(number(seed, "seed")))


@routine(("edit",), api=API)
def EMOJI(call: Call, image: Picture, object: Objects, emoji: str) -> Picture:
    """Cover objects with an emoji.

    ``emoji`` is its name, such as 'face_with_tongue' or 'smiling_face_with_sunglasses'. An
    empty list of objects raises IndexError.

    Example:
        # Hide the face of the singer with sunglasses
        OBJ0=FACEDET(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='singer',category=None)
        IMAGE0=EMOJI(image=IMAGE,object=OBJ1,emoji='smiling_face_with_sunglasses')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _change(call, "put_emoji", image, object, text(emoji, "emoji"))


@routine(("tag",), api=API)
def TAG(call: Call, image: Picture, object: Objects) -> Picture:
    """Tag objects with their labels.

    Return the picture with every box and its label drawn. Its boxes and labels are the
    answer.

    Example:
        # Tag all the cups
        OBJ0=LOC(image=IMAGE,object='cup')
        IMAGE0=TAG(image=IMAGE,object=OBJ0)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    patch = part_of(image)
    return ImagePatch(call("tag", patch, moved_to(patch, objects_of(object))))


def _find_objects(call: Call, tool: str, patch: ImagePatch) -> list[ImagePatch]:
    """Return the objects that a tool finds in a patch; each knows its picture's size."""
    if patch._is_empty():
        return []
    objects: list[ImagePatch] = call(tool, patch)
    # In place: an empty result is followed through the program by identity.
    objects[:] = [item._in(patch._handle) for item in objects]
    return objects


def _change(call: Call, tool: str, image: Picture, object: Objects, *more: str | int) -> ImagePatch:
    """Return the picture as a tool changed it.

    Raises:
        IndexError: there is no object to change.
    """
    patch = part_of(image)
    objects = moved_to(patch, objects_of(object))
    if not objects:
        raise IndexError("there is no object: what was looked for was not found")
    return ImagePatch(call(tool, patch, objects, *more))


def _box(image: Picture, box: Objects) -> ImagePatch | None:
    """Return the first of the boxes, which is the surest, or None if there is none."""
    boxes = moved_to(part_of(image), objects_of(box, "box")[:1])
    return boxes[0] if boxes else None


def _middle(image: Picture, box: Objects) -> ImagePatch:
    """Return where a cut begins: the middle of the box, or of the picture if there is no box."""
    return _box(image, box) or part_of(image)
